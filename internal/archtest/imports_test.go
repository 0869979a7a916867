package archtest

import (
	"slices"
	"strings"
	"testing"
)

// onlyIn says which folders may import a prefix, and why nobody else may. Tests are bound too unless freeTests is set.
type onlyIn struct {
	prefixes  []string
	folders   []string
	freeTests bool
	why       string
}

var doors = []onlyIn{
	{[]string{"github.com/vishvananda/", "github.com/google/nftables", "github.com/cilium/ebpf", "github.com/mdlayher/", "golang.org/x/sys/unix"},
		[]string{"internal/kernel", "internal/lab", "internal/nettest", "bench"}, true,
		"kernel/* are the only doors to the host, so that every write to it is found in one place and has a fake; the lab, the test network and the benchmarks own whole hosts of their own"},
	{[]string{"os/exec"}, []string{"internal/kernel", "internal/lab", "internal/nettest", "internal/demo", "bench"}, true,
		"as above; the demo plays a user who types podway's commands, and a benchmark builds its peer"},
	{[]string{"k8s.io/client-go"},
		[]string{"internal/cluster", "internal/control", "internal/cli", "internal/trace/remote", "bench"}, true,
		"a hop sees a snapshot, never the API: what the API says comes in through cluster and goes out through control"},
	{[]string{"k8s.io/api"},
		[]string{"internal/cluster", "internal/control", "internal/cli", "internal/trace/remote", "internal/scenario", "internal/nettest/kubeproxy", "deploy", "bench"}, true,
		"API types are trimmed at the door; behind it there is only package model"},
	{[]string{module + "internal/cli"}, []string{"cmd/podway"}, false, "only main starts the command line"},
	{[]string{module + "internal/agent"}, []string{"internal/agent", "internal/cli", "bench", "test/oracle"}, true, "the agent is the top of the data flow: nothing below it may know it"},
	{[]string{module + "internal/cluster"},
		[]string{"internal/cli", "internal/control", "internal/scenario", "internal/trace/remote", "internal/demo", "internal/cluster", "bench"}, true,
		"hops, trace and agent take snapshots from whoever has them"},
}

func TestOnlyTheDoorsImportWhatTheyGuard(t *testing.T) {
	for _, f := range tree(t) {
		for _, rule := range doors {
			if f.test && rule.freeTests || slices.ContainsFunc(rule.folders, f.within) {
				continue
			}
			for _, i := range f.imports {
				if p := slices.IndexFunc(rule.prefixes, func(p string) bool { return strings.HasPrefix(i, p) }); p >= 0 {
					t.Errorf("%s imports %s; only %v may: %s", f.path, i, rule.folders, rule.why)
				}
			}
		}
	}
}

func TestModelAndFlowNeedTheStandardLibraryOnly(t *testing.T) {
	for _, f := range tree(t) {
		if !f.within("internal/model") && !f.within("internal/flow") {
			continue
		}
		for _, i := range f.imports {
			if !isStandard(i) {
				t.Errorf("%s imports %s: the words that all share must depend on nothing", f.path, i)
			}
		}
	}
}

func TestAHopKnowsNoOtherHop(t *testing.T) {
	for _, f := range tree(t) {
		name, ok := strings.CutPrefix(f.dir, "internal/hop/")
		if !ok {
			continue
		}
		room, _, _ := strings.Cut(name, "/")
		allowed := []string{"internal/model", "internal/flow", "internal/hop", "internal/kernel/", "internal/hop/" + room}
		if f.test || room == "hoptest" || f.within("internal/hop/proxy/proxytest") { // suites for tests of more than one folder
			allowed = append(allowed, "internal/hop/hoptest", "internal/nettest")
		}
		for _, i := range f.imports {
			own, ours := strings.CutPrefix(i, module)
			if ours && !slices.ContainsFunc(allowed, func(a string) bool {
				return own == a || strings.HasPrefix(own, strings.TrimSuffix(a, "/")+"/") && a != "internal/hop"
			}) {
				t.Errorf("%s imports %s: a hop imports model, flow, hop, kernel and its own folders, so that each can be read, tested and switched off alone", f.path, own)
			}
		}
	}
}

func TestKernelKnowsNothingOfTheCluster(t *testing.T) {
	for _, f := range tree(t) {
		if !f.within("internal/kernel") || f.test {
			continue
		}
		for _, i := range f.imports {
			if own, ours := strings.CutPrefix(i, module); ours && !strings.HasPrefix(own, "internal/kernel/") {
				t.Errorf("%s imports %s: the doors to the host speak of tables, devices and routes, never of Services", f.path, own)
			}
		}
	}
}
