// Package cgroup puts processes into control groups of their own, and finds, kills and forgets them by that: it is how
// a lab knows its processes when everything else about them is lost. It speaks version 1 (one tree per controller,
// with or without the version 2 tree beside them) and version 2. It owns only the group whose name it is given.
package cgroup

import (
	"bufio"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
)

// Root is where every distribution mounts the trees.
const Root = "/sys/fs/cgroup"

// Hierarchy is one mounted tree.
type Hierarchy struct {
	Mount       string   // absolute path
	Unified     bool     // version 2
	Controllers []string // what it controls; version 1's tree without a controller has name=systemd
}

// Host is how this machine's trees are mounted.
type Host struct {
	Unified     bool // version 2 alone
	Hierarchies []Hierarchy
}

// Options are the mount options that mount this version 1 tree elsewhere.
func (h Hierarchy) Options() string {
	if len(h.Controllers) == 1 && strings.HasPrefix(h.Controllers[0], "name=") {
		return "none," + h.Controllers[0]
	}
	return strings.Join(h.Controllers, ",")
}

func (h Hierarchy) controls(c string) bool { return slices.Contains(h.Controllers, c) }

// parseMountinfo finds the trees under root in /proc/self/mountinfo. Lines are
// `36 35 0:31 / /sys/fs/cgroup/cpu rw,relatime shared:9 - cgroup cgroup rw,cpu,cpuacct`, see proc_pid_mountinfo(5).
func parseMountinfo(r io.Reader, root string) ([]Hierarchy, error) {
	var out []Hierarchy
	s := bufio.NewScanner(r)
	s.Buffer(nil, 1<<20)
	for s.Scan() {
		before, after, ok := strings.Cut(s.Text(), " - ")
		left, right := strings.Fields(before), strings.Fields(after)
		if !ok || len(left) < 6 || len(right) < 3 {
			continue
		}
		mount := left[4]
		if mount != root && !strings.HasPrefix(mount, root+"/") {
			continue
		}
		switch right[0] {
		case "cgroup2":
			out = append(out, Hierarchy{Mount: mount, Unified: true})
		case "cgroup":
			out = append(out, Hierarchy{Mount: mount, Controllers: controllers(right[2])})
		}
	}
	if err := s.Err(); err != nil {
		return nil, fmt.Errorf("cgroup: read mounts: %w", err)
	}
	return out, nil
}

// controllers picks the controllers out of a version 1 tree's superblock options (rw, xattr and others are no controllers).
func controllers(options string) []string {
	var out []string
	for o := range strings.SplitSeq(options, ",") {
		switch {
		case o == "rw", o == "ro", o == "xattr", o == "none", o == "noprefix", o == "clone_children", o == "cpuset_v2_mode":
		case strings.HasPrefix(o, "release_agent="):
		default:
			out = append(out, o)
		}
	}
	return out
}

// Group is a control group at the same path in every tree.
type Group struct {
	Host Host
	Path string // relative to the trees' roots
}

// Group names a group. It need not exist.
func (h Host) Group(path string) Group { return Group{Host: h, Path: path} }

// Child names a group below.
func (g Group) Child(name string) Group {
	return Group{Host: g.Host, Path: filepath.Join(g.Path, name)}
}

func (g Group) dir(h Hierarchy) string { return filepath.Join(h.Mount, g.Path) }

// unifiedDir is the group's folder where version 2 is all there is.
func (g Group) unifiedDir() string {
	for _, h := range g.Host.Hierarchies {
		if h.Unified {
			return g.dir(h)
		}
	}
	return ""
}

// Missing returns which of the wanted controllers this machine does not have.
func (h Host) Missing(wanted ...string) []string {
	var have []string
	for _, t := range h.Hierarchies {
		have = append(have, t.Controllers...)
	}
	return slices.DeleteFunc(slices.Clone(wanted), func(c string) bool { return slices.Contains(have, c) })
}
