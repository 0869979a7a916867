package config

import (
	"net/netip"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/podway/podway/internal/hop/proxy"
)

const head = "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\n"

// resolve reads, fills, checks and resolves text, which may lack the head.
func resolve(t *testing.T, text string) (*Config, []Key, error) {
	t.Helper()
	f, err := Load("test.yaml", []byte(head+text))
	if err != nil {
		return nil, nil, err
	}
	Fill(&f.KubeProxyConfiguration)
	if err := Check(&f.KubeProxyConfiguration); err != nil {
		return nil, nil, err
	}
	return Resolve(&f.KubeProxyConfiguration), Unused(f.Given), nil
}

func TestNothingSaidIsKubeProxysDefault(t *testing.T) {
	got, unused, err := resolve(t, "")
	if err != nil {
		t.Fatal(err)
	}
	want := &Config{
		Mode:     "nftables",
		Settings: proxy.Settings{LocalPods: proxy.LocalPods{Mode: proxy.ByClusterCIDR}, MasqueradeMark: 0x4000},
		Tracking: proxy.Tracking{MaxPerCore: 32768, Min: 131072, Established: 24 * time.Hour, CloseWait: time.Hour},
		Client:   Client{ContentType: "application/vnd.kubernetes.protobuf", QPS: 5, Burst: 10},
		Healthz:  "0.0.0.0:10256", Metrics: "127.0.0.1:10249", HealthTimeout: time.Minute, OOMScore: -999, LogFormat: "text",
	}
	want.Remarks = got.Remarks
	if d := cmp.Diff(want, got, cmp.Comparer(func(a, b netip.Prefix) bool { return a == b }), cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); d != "" {
		t.Error(d)
	}
	if len(got.Remarks) != 2 || len(unused) != 0 {
		t.Errorf("remarks %q, unused %v", got.Remarks, unused)
	}
}

func TestTheFileThatKubeadmWritesIsTakenUnchanged(t *testing.T) {
	b, err := os.ReadFile("testdata/kubeadm.yaml")
	if err != nil {
		t.Fatal(err)
	}
	f, err := Load("testdata/kubeadm.yaml", b)
	if err != nil {
		t.Fatal(err)
	}
	Fill(&f.KubeProxyConfiguration)
	if err := Check(&f.KubeProxyConfiguration); err != nil {
		t.Fatal(err)
	}
	c := Resolve(&f.KubeProxyConfiguration)
	if c.Mode != "nftables" || c.Client.Kubeconfig != "/var/lib/kube-proxy/kubeconfig.conf" || c.Settings.LocalPods.CIDRs[0].String() != "10.244.0.0/16" {
		t.Errorf("got %+v", c)
	}
	if got := Unused(f.Given); len(got) != 0 {
		t.Errorf("a file of zero values names %v", got)
	}
}

func TestWhatAKeyMeans(t *testing.T) {
	prefixes := func(s ...string) (out []netip.Prefix) {
		for _, x := range s {
			out = append(out, netip.MustParsePrefix(x))
		}
		return out
	}
	for _, c := range []struct {
		text string
		want any
		got  func(*Config) any
	}{
		{"mode: iptables", proxy.NodePortAddresses{All: true, Loopback: true}, func(c *Config) any { return c.Settings.NodePorts }},
		{"mode: iptables\niptables: {localhostNodePorts: false}", proxy.NodePortAddresses{All: true}, func(c *Config) any { return c.Settings.NodePorts }},
		{"mode: ipvs", proxy.NodePortAddresses{All: true}, func(c *Config) any { return c.Settings.NodePorts }},
		{"mode: nftables", proxy.NodePortAddresses{}, func(c *Config) any { return c.Settings.NodePorts }},
		{"nodePortAddresses: [primary]", proxy.NodePortAddresses{}, func(c *Config) any { return c.Settings.NodePorts }},
		{"nodePortAddresses: [all]", proxy.NodePortAddresses{All: true}, func(c *Config) any { return c.Settings.NodePorts }},
		{"nodePortAddresses: [0.0.0.0/0, '::/0']", proxy.NodePortAddresses{All: true}, func(c *Config) any { return c.Settings.NodePorts }},
		{"nodePortAddresses: [primary, 10.1.2.3/8]", proxy.NodePortAddresses{Primary: true, In: prefixes("10.0.0.0/8")}, func(c *Config) any { return c.Settings.NodePorts }},
		{"mode: iptables\nnodePortAddresses: [192.168.0.0/16]", proxy.NodePortAddresses{In: prefixes("192.168.0.0/16")}, func(c *Config) any { return c.Settings.NodePorts }},
		{"mode: iptables\nnodePortAddresses: [localhost]", proxy.NodePortAddresses{Loopback: true, In: prefixes("127.0.0.0/8", "::1/128")}, func(c *Config) any { return c.Settings.NodePorts }},
		{"mode: nftables\nnodePortAddresses: [localhost]", proxy.NodePortAddresses{In: prefixes("127.0.0.0/8", "::1/128")}, func(c *Config) any { return c.Settings.NodePorts }},
		{"mode: nftables\nfeatureGates: {KubeProxyNFTablesLocalhostNodePorts: true}\nnodePortAddresses: [primary, localhost]",
			proxy.NodePortAddresses{Loopback: true, Primary: true, In: prefixes("127.0.0.0/8", "::1/128")}, func(c *Config) any { return c.Settings.NodePorts }},
		{"iptables: {masqueradeAll: true}", true, func(c *Config) any { return c.Settings.MasqueradeAll }},
		{"mode: nftables\niptables: {masqueradeAll: true}", false, func(c *Config) any { return c.Settings.MasqueradeAll }},
		{"mode: nftables\nnftables: {masqueradeAll: true}", true, func(c *Config) any { return c.Settings.MasqueradeAll }},
		{"mode: ipvs\niptables: {masqueradeAll: true, masqueradeBit: 3}", uint32(8), func(c *Config) any { return c.Settings.Mark() }},
		{"detectLocalMode: NodeCIDR", proxy.LocalPods{}, func(c *Config) any { return c.Settings.LocalPods }},
		{"clusterCIDR: '10.244.0.0/16,fd00:244::/32'", proxy.LocalPods{Mode: proxy.ByClusterCIDR, CIDRs: prefixes("10.244.0.0/16", "fd00:244::/32")}, func(c *Config) any { return c.Settings.LocalPods }},
		{"detectLocalMode: BridgeInterface\ndetectLocal: {bridgeInterface: cni0}", proxy.LocalPods{Mode: proxy.ByBridge, Interface: "cni0"}, func(c *Config) any { return c.Settings.LocalPods }},
		{"detectLocalMode: InterfaceNamePrefix\ndetectLocal: {interfaceNamePrefix: veth}", proxy.LocalPods{Mode: proxy.ByInterfacePrefix, Interface: "veth"}, func(c *Config) any { return c.Settings.LocalPods }},
		{"featureGates: {AllowServiceExternalIPs: false}", true, func(c *Config) any { return c.Settings.NoExternalIPs }},
		{"bindAddress: '::'", "[::]:10256 [::1]:10249", func(c *Config) any { return c.Healthz + " " + c.Metrics }},
		{"healthzBindAddress: 10.0.0.1", "10.0.0.1:10256", func(c *Config) any { return c.Healthz }},
		{"bindAddress: 10.0.0.7", netip.MustParseAddr("10.0.0.7"), func(c *Config) any { return c.Settings.NodeAddr }},
		{"hostnameOverride: Node-1", "node-1", func(c *Config) any { return c.Node }},
		{"mode: ipvs\nipvs: {scheduler: wrr, strictARP: true, excludeCIDRs: [10.5.0.0/16], tcpTimeout: 5m, syncPeriod: 10s}",
			proxy.IPVSSettings{Scheduler: "wrr", StrictARP: true, Exclude: prefixes("10.5.0.0/16"), TCPTimeout: 5 * time.Minute}, func(c *Config) any { return c.Settings.IPVS }},
		{"mode: ipvs\nipvs: {syncPeriod: 10s}", 20 * time.Second, func(c *Config) any { return c.HealthTimeout }},
		{"conntrack: {maxPerCore: 0, min: 5, udpTimeout: 7s, tcpCloseWaitTimeout: 0s}", proxy.Tracking{Min: 5, UDP: 7 * time.Second, Established: 24 * time.Hour}, func(c *Config) any { return c.Tracking }},
	} {
		got, _, err := resolve(t, c.text)
		if err != nil {
			t.Errorf("%s: %v", c.text, err)
			continue
		}
		if !reflect.DeepEqual(c.got(got), c.want) {
			t.Errorf("%s: got %+v, want %+v", c.text, c.got(got), c.want)
		}
	}
}

func TestWrongValuesAreRefusedByTheirKey(t *testing.T) {
	for text, want := range map[string]string{
		"conntrack: {maxPerCor: 1}\nfoo: 1":                               `test.yaml: unknown field "conntrack.maxPerCor"` + "\n" + `unknown field "foo"`,
		"mode: iptables\nmode: ipvs":                                      "test.yaml: ",
		"Mode: iptables":                                                  `unknown field "Mode"`,
		"oomScoreAdj: x":                                                  "test.yaml: ",
		"mode: userspace":                                                 `mode: "userspace": want nftables, iptables, ipvs, ebpf`,
		"bindAddress: here":                                               "bindAddress: ",
		"healthzBindAddress: ':80'":                                       "healthzBindAddress: ",
		"metricsBindAddress: 1.2.3.4:0":                                   "metricsBindAddress: ",
		"detectLocalMode: Guess":                                          "detectLocalMode: ",
		"detectLocalMode: BridgeInterface":                                "detectLocal.bridgeInterface: ",
		"detectLocalMode: InterfaceNamePrefix":                            "detectLocal.interfaceNamePrefix: ",
		"clusterCIDR: 10.0.0.0":                                           "clusterCIDR: ",
		"clusterCIDR: '10.0.0.0/8,11.0.0.0/8'":                            "clusterCIDR: ",
		"nodePortAddresses: [10.0.0.0/8, everywhere]":                     `nodePortAddresses[1]: "everywhere"`,
		"nodePortAddresses: [primary, all, primary]":                      `nodePortAddresses[2]: "primary": stands there twice`,
		"iptables: {masqueradeBit: 32}":                                   "iptables.masqueradeBit: 32: want 0 to 31",
		"oomScoreAdj: -1001":                                              "oomScoreAdj: ",
		"conntrack: {min: -1, maxPerCore: -1, udpTimeout: -1s}":           "conntrack.maxPerCore: ",
		"mode: ipvs\nipvs: {excludeCIDRs: [x], minSyncPeriod: 1h}":        "ipvs.excludeCIDRs[0]: ",
		"configSyncPeriod: -1s":                                           "configSyncPeriod: ",
		"mode: iptables\niptables: {syncPeriod: 1s, minSyncPeriod: 2s}":   "iptables.minSyncPeriod: ",
		"logging: {format: xml}":                                          "logging.format: ",
		"clientConnection: {burst: -3}":                                   "clientConnection.burst: ",
		"mode: ipvs\nipvs: {tcpTimeout: -1s}":                             "ipvs.tcpTimeout: ",
		"conntrack: {tcpEstablishedTimeout: -1s}":                         "conntrack.tcpEstablishedTimeout: ",
		"---\napiVersion: kubelet.config.k8s.io/v1beta1\nkind: Something": "test.yaml: ",
	} {
		if _, _, err := resolve(t, text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", text, err, want)
		}
	}
	if _, err := Load("a.yaml", []byte("kind: KubeProxyConfiguration")); err == nil || !strings.Contains(err.Error(), "a.yaml: kind \"KubeProxyConfiguration\" of apiVersion \"\"") {
		t.Errorf("got %v", err)
	}
}

func TestKeysThatChangeNothingAreNamedOnlyWhenTheyAreSet(t *testing.T) {
	_, got, err := resolve(t, "portRange: ''\nconfigSyncPeriod: 15m\nwinkernel: {enableDSR: true, networkName: ''}\nnftables: {minSyncPeriod: 1s}\nfeatureGates: {Other: false, AllowServiceExternalIPs: true}\nconntrack: {tcpBeLiberal: false}")
	if err != nil {
		t.Fatal(err)
	}
	var paths []string
	for _, k := range got {
		paths = append(paths, k.Path)
	}
	if want := []string{"configSyncPeriod", "featureGates.Other", "nftables.minSyncPeriod", "winkernel.enableDSR"}; !reflect.DeepEqual(paths, want) {
		t.Errorf("got %q, want %q", paths, want)
	}
}

func TestEveryKeyOfTheTypeIsInTheTable(t *testing.T) {
	var walk func(at string, r reflect.Type)
	seen := 0
	walk = func(at string, r reflect.Type) {
		for i := range r.NumField() {
			f := r.Field(i)
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if name == "" {
				continue // TypeMeta
			}
			path := strings.TrimPrefix(at+"."+name, ".")
			if k := keyOf(path); k != nil {
				seen++
				continue
			}
			if f.Type.Kind() != reflect.Struct {
				t.Errorf("%s is not in Keys", path)
				continue
			}
			walk(path, f.Type)
		}
	}
	walk("", reflect.TypeFor[File]().Field(0).Type)
	if seen != len(Keys) {
		t.Errorf("the type has %d of the %d keys of the table", seen, len(Keys))
	}
}

func TestTheDefaultsCanBeWrittenAndReadAgain(t *testing.T) {
	b, err := Write(Default())
	if err != nil {
		t.Fatal(err)
	}
	f, err := Load("written", b)
	if err != nil {
		t.Fatal(err)
	}
	again, err := Write(&f.KubeProxyConfiguration)
	if err != nil || string(again) != string(b) {
		t.Errorf("%v\n%s", err, cmp.Diff(string(b), string(again)))
	}
	if !strings.Contains(string(b), "metricsBindAddress: 127.0.0.1:10249") {
		t.Error(string(b))
	}
}

func FuzzLoad(f *testing.F) {
	f.Add([]byte(head))
	f.Add([]byte(head + "conntrack: {min: 5}\nfeatureGates: {A: true}"))
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := Load("f", b)
		if err != nil {
			return
		}
		Fill(&c.KubeProxyConfiguration)
		if Check(&c.KubeProxyConfiguration) == nil {
			Resolve(&c.KubeProxyConfiguration) // what was checked must not panic
		}
	})
}
