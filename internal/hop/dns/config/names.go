package config

import "strings"

// Under reports whether a name is zone or below it. Both are absolute and in lower case.
func Under(name, zone string) bool {
	if zone == "." {
		return true
	}
	rest, ok := strings.CutSuffix(name, zone)
	return ok && (rest == "" || strings.HasSuffix(rest, "."))
}

// In reports whether a name is under any of the zones.
func In(zones []string, name string) bool { return Longest(zones, name) != "" }

// Longest returns the longest of the zones that holds a name, or "".
func Longest(zones []string, name string) string {
	best := ""
	for _, z := range zones {
		if len(z) > len(best) && Under(name, z) {
			best = z
		}
	}
	return best
}

// Overlap reports whether one of two zones is under the other.
func Overlap(a, b string) bool { return Under(a, b) || Under(b, a) }
