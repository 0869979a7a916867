package scenario

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/podway/podway/internal/nettest/vm"
)

// OpenHops opens a node's hops in this process; the external test package, which may import the agent, sets it.
var OpenHops NodeHops

// forIPVS are the scenarios of which each shows something else of the service proxy. The machine, a slow one, leaves the
// others to level rules and to the modes that run outside of it, unless PODWAY_VM_ALL asks for all.
var forIPVS = []string{
	"clusterip", "hairpin", "undefined-port", "no-endpoints", "deleted-service", // a virtual server, and none
	"session-affinity", "udp-endpoint-change", "terminating-fallback", // connections and their endpoints
	"external-policy-local", "internal-policy-local", "node-port-from-pod", "external-ips", "source-ranges", // frontends and policies
	"ipv6-service", "config-ipvs", "config-masquerade-all", "config-node-port-range",
}

const vmAll = "PODWAY_VM_ALL"

// The kernel that tests run on mostly lacks IPVS.
func TestScenariosHoldForIPVS(t *testing.T) {
	const plugin = "/vm/bin/cni-plugin"
	scenarios, err := filepath.Abs("../../scenarios")
	if err != nil {
		t.Fatal(err)
	}
	everything, patience := os.Getenv(vmAll), 10*time.Minute
	if everything != "" {
		patience = time.Hour
	}
	built := filepath.Join(t.TempDir(), "plugin")
	m := vm.Machine{MiB: 1536, Timeout: patience, Env: []string{vmAll + "=" + everything}, AtOnce: 3, Modules: []string{"dummy"}, Files: map[string]string{scenarios: scenarios, plugin: built}}
	if !vm.Inside() {
		cmd := exec.Command("go", "build", "-ldflags", "-s -w", "-o", built, "./plugin")
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0") // the machine has no libraries
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	vm.Test(t, m, func(t *testing.T) {
		w, err := KernelWorld(KernelOptions{Program: os.Args[0], Env: []string{nodeEnv}, Inside: OpenHops, Plugin: plugin, Slow: 5, ProxyMode: "ipvs"})
		if err != nil {
			t.Fatal(err)
		}
		if everything != "" {
			checkAll(t, Kernel, w)
			return
		}
		var files []*File
		for _, name := range forIPVS {
			f, err := Load(filepath.Join(scenarios, name+".txtar"))
			if err != nil {
				t.Fatal(err)
			}
			files = append(files, f)
		}
		checkFiles(t, files, Kernel, w)
	})
}
