package main

import "strings"

// reasons are the specs that cannot pass on the cluster of `podway up`, and why; part of the name -> the reason.
var reasons = map[string]string{}

func reason(name string) string {
	for part, why := range reasons {
		if strings.Contains(name, part) {
			return "because " + why
		}
	}
	return ""
}
