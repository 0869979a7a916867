// Package guest is what the host and the init program of a virtual machine agree on: the files in the initramfs, the words
// on the console and the index of kernel modules. It starts nothing and loads nothing.
package guest

import (
	"encoding/json"
	"os"
	"path"
	"strings"
)

// Where things are in the initramfs.
const (
	SpecFile  = "/vm/spec.json"
	IndexFile = "/vm/modules.json"
	BinDir    = "/vm/bin"
	OutDir    = "/out" // its files come back to the host
)

// Names of the virtio-serial ports.
const (
	StdioPort = "podway.stdio" // output of the program
	OutPort   = "podway.out"   // OutDir as a tar
)

// Words on the console. Init says Alive once a second, so that the host can tell a slow machine from a frozen one.
const (
	Say   = "VM: "
	Up    = "init is up"
	Alive = "alive"
	Fails = "error: " // of init, not of the program
	Exit  = "exit code "
)

// EnvInside is set for the program in the VM.
const EnvInside = "PODWAY_VM"

// Spec is what init is to do.
type Spec struct {
	Args    []string
	Env     []string
	Dir     string   // working directory
	Modules []string // to be loaded before the program starts
	Seconds float64  // the program is asked for its stacks and then killed after so long; 0 = never
	Disk    bool     // /dev/vda (ext4) becomes the root before the program starts
}

// Module is one kernel module: its file and the modules that must be loaded before it; those with a "~" may be missing.
type Module struct {
	File    string
	Depends []string `json:",omitempty"`
}

// Index is all modules in the initramfs, by names with "_" for "-".
type Index struct {
	Modules  map[string]*Module
	Alias    map[string][]string
	Patterns [][2]string     // alias with wildcards, module
	Builtin  map[string]bool // in the kernel itself
}

// Name writes a module's name as the kernel does.
func Name(s string) string { return strings.ReplaceAll(s, "-", "_") }

// Find returns the modules that a name or alias stands for; none when it is unknown or in the kernel itself.
func (x *Index) Find(name string) []string {
	name = Name(name)
	if x.Builtin[name] {
		return nil
	}
	if x.Modules[name] != nil {
		return []string{name}
	}
	if ms := x.Alias[name]; ms != nil {
		return ms
	}
	var out []string
	for _, p := range x.Patterns {
		if ok, err := path.Match(p[0], name); ok && err == nil {
			out = append(out, p[1])
		}
	}
	return out
}

// Read reads a JSON file of the initramfs.
func Read[T any](file string) (*T, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	v := new(T)
	return v, json.Unmarshal(b, v)
}
