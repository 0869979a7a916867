package podnet

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/containernetworking/cni/libcni"

	"github.com/podway/podway/internal/flow"
)

func TestInstallPutsThePluginThereAtOnceAndTheNetworkOnceTheNodeIsConfigured(t *testing.T) {
	dir := t.TempDir()
	bin, conf, self := filepath.Join(dir, "bin"), filepath.Join(dir, "net.d"), filepath.Join(dir, "podway")
	o := Options{Node: "a", ConfigPath: filepath.Join(dir, "podnet.json"), StoreDir: filepath.Join(dir, "store")}
	must(t, os.WriteFile(self, []byte("version 1"), 0o755))
	install := func() bool {
		t.Helper()
		done, findings, err := Install(o, bin, conf, self)
		if err != nil || len(findings) != 0 {
			t.Fatal(findings, err)
		}
		return done
	}
	if install() {
		t.Error("done without the node's configuration")
	}
	if _, err := os.Stat(filepath.Join(conf, ConflistName)); err == nil {
		t.Error("the network is there before the node's configuration")
	}
	for _, name := range []string{PluginName, "loopback"} {
		if b, err := os.ReadFile(filepath.Join(bin, name)); err != nil || string(b) != "version 1" {
			t.Errorf("%s: %q, %v", name, b, err)
		}
	}
	must(t, NodeConfig{Node: "a", PodCIDRs: prefixes("10.244.1.0/24"), Gateways: addresses("10.244.1.1"), MTU: 1500}.write(o.ConfigPath))
	if !install() {
		t.Error("not done")
	}
	list, err := libcni.ConfListFromFile(filepath.Join(conf, ConflistName))
	if err != nil || list.CNIVersion != "1.1.0" || list.Name != NetworkName || list.Plugins[0].Network.Type != PluginName {
		t.Errorf("%+v, %v", list, err)
	}
	before, _ := os.Stat(filepath.Join(bin, PluginName))
	install()
	if after, _ := os.Stat(filepath.Join(bin, PluginName)); !os.SameFile(before, after) {
		t.Error("the same program was copied again")
	}
	must(t, os.WriteFile(self, []byte("version 22"), 0o755))
	install()
	if b, _ := os.ReadFile(filepath.Join(bin, PluginName)); string(b) != "version 22" {
		t.Errorf("not renewed: %q", b)
	}
	for range 2 {
		must(t, Uninstall(bin, conf))
	}
	for _, d := range []string{bin, conf} {
		if left, _ := os.ReadDir(d); len(left) != 0 {
			t.Errorf("left in %s: %v", d, left)
		}
	}
}

func TestAnotherNetworkThatComesFirstIsAFindingAndAnotherLoopbackStays(t *testing.T) {
	dir := t.TempDir()
	self := filepath.Join(dir, "podway")
	must(t, os.WriteFile(self, []byte("x"), 0o755))
	must(t, os.WriteFile(filepath.Join(dir, "loopback"), []byte("theirs"), 0o755))
	must(t, os.WriteFile(filepath.Join(dir, "10-flannel.conflist"), []byte("{}"), 0o644))
	o := Options{Node: "a", ConfigPath: filepath.Join(dir, "run", "podnet.json")}
	must(t, NodeConfig{Node: "a", PodCIDRs: prefixes("10.244.1.0/24"), Gateways: addresses("10.244.1.1"), MTU: 1500}.write(o.ConfigPath))
	done, findings, err := Install(o, dir, dir, self)
	if err != nil || !done || len(findings) != 1 || findings[0].Code != flow.OtherCNI || !strings.Contains(findings[0].Cause, "10-flannel.conflist") {
		t.Errorf("%v %+v %v", done, findings, err)
	}
	must(t, Uninstall(dir, dir))
	left, _ := os.ReadDir(dir)
	var names []string
	for _, e := range left {
		names = append(names, e.Name())
	}
	if !slices.Equal(names, []string{"10-flannel.conflist", "loopback", "podway", "run"}) {
		t.Errorf("left %v", names)
	}
}
