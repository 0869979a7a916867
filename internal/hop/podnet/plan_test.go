package podnet

import (
	"flag"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/podway/podway/internal/kernel/link"
	"github.com/podway/podway/internal/kernel/route"
	"github.com/podway/podway/internal/model"
)

var update = flag.Bool("update", false, "write the golden files")

// clusterOf makes Nodes from lines "name addr,addr range,range".
func clusterOf(lines ...string) *model.Snapshot {
	b := model.NewBuilder(nil)
	for _, l := range lines {
		b.Put(nodeOf(l))
	}
	return b.Snapshot(time.Unix(0, 0))
}

func nodeOf(line string) *model.Node {
	f := strings.Fields(line + " - -")
	n := &model.Node{Name: f[0], Ready: true}
	for a := range strings.SplitSeq(f[1], ",") {
		if a != "-" {
			n.Addrs = append(n.Addrs, netip.MustParseAddr(a))
		}
	}
	for p := range strings.SplitSeq(f[2], ",") {
		if p != "-" {
			n.PodCIDRs = append(n.PodCIDRs, netip.MustParsePrefix(p))
		}
	}
	return n
}

func prefixes(s ...string) []netip.Prefix {
	var out []netip.Prefix
	for _, p := range s {
		out = append(out, netip.MustParsePrefix(p))
	}
	return out
}

func addresses(s ...string) []netip.Addr {
	var out []netip.Addr
	for _, a := range s {
		out = append(out, netip.MustParseAddr(a))
	}
	return out
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// machine is a host with the addresses on eth0, the networks that they imply and a default route.
func machine(addrs ...string) Host {
	h := Host{Links: []link.Link{{Name: "lo", NoARP: true, MTU: 65536, Up: true, Addrs: prefixes("127.0.0.1/8")}, {Name: "eth0", MTU: 1500, Up: true, Addrs: prefixes(addrs...)}}}
	h.Routes = []route.Route{
		{Dst: netip.MustParsePrefix("0.0.0.0/0"), Via: netip.MustParseAddr("10.0.0.254"), Device: "eth0", Proto: 4},
		{Dst: netip.MustParsePrefix("::/0"), Via: netip.MustParseAddr("fd00::fe"), Device: "eth0", Proto: 4},
	}
	for _, p := range prefixes(addrs...) {
		h.Routes = append(h.Routes, route.Route{Dst: p.Masked(), Device: "eth0", Proto: 2, Src: p.Addr()})
	}
	return h
}

func TestPlan(t *testing.T) {
	cases := map[string]struct {
		nodes []string
		opt   Options
		host  Host
	}{
		"same network": {
			[]string{"a 10.0.0.1 10.244.1.0/24", "b 10.0.0.2 10.244.2.0/24", "c 10.0.0.3 10.244.3.0/24"},
			Options{ServiceCIDRs: prefixes("10.96.0.0/16"), NoMasquerade: prefixes("192.168.0.0/16")}, machine("10.0.0.1/24"),
		},
		"two networks": {
			[]string{"a 10.0.0.1 10.244.1.0/24", "b 10.0.0.2 10.244.2.0/24", "c 10.7.0.3 10.244.3.0/24"},
			Options{}, machine("10.0.0.1/24"),
		},
		"both families on IPv4 nodes": {
			[]string{"a 10.0.0.1 10.244.1.0/24,fd44:1::/64", "b 10.0.0.2 10.244.2.0/24,fd44:2::/64", "c 10.7.0.3 10.244.3.0/24,fd44:3::/64"},
			Options{}, machine("10.0.0.1/24"),
		},
		"IPv6 only": {
			[]string{"a fd00::1 fd44:1::/64", "b fd00::2 fd44:2::/64", "c fd07::3 fd44:3::/64"},
			Options{}, machine("fd00::1/64"),
		},
		"overlay always": {
			[]string{"a 10.0.0.1 10.244.1.0/24", "b 10.0.0.2 10.244.2.0/24"},
			Options{Overlay: OverlayAlways, VNI: 9, Port: 4789, MTU: 9000}, machine("10.0.0.1/24"),
		},
		"overlay never": {
			[]string{"a 10.0.0.1 10.244.1.0/24", "b 10.7.0.2 10.244.2.0/24"},
			Options{Overlay: OverlayNever}, machine("10.0.0.1/24"),
		},
		"nodes without addresses in common": {
			[]string{"a 10.0.0.1 10.244.1.0/24", "b fd00::2 10.244.2.0/24", "c - 10.244.3.0/24", "d 10.0.0.4 -"},
			Options{}, machine("10.0.0.1/24"),
		},
		"a range given twice": {
			[]string{"a 10.0.0.1 10.244.1.0/24", "b 10.0.0.2 10.244.1.0/24", "c 10.0.0.3 10.244.3.0/24", "d 10.0.0.4 10.244.3.0/24"},
			Options{}, machine("10.0.0.1/24"),
		},
		"a route of another program": {
			[]string{"a 10.0.0.1 10.244.1.0/24", "b 10.0.0.2 10.244.2.0/24", "c 10.7.0.3 10.244.3.0/24"},
			Options{}, withRoutes(machine("10.0.0.1/24"), route.Route{Dst: prefixes("10.244.1.0/24")[0], Device: "cni0", Proto: 2},
				route.Route{Dst: prefixes("10.244.3.0/24")[0], Via: netip.MustParseAddr("10.0.0.254"), Device: "eth0", Proto: 186}),
		},
		"a peer behind a point to point device": {
			[]string{"a 10.0.0.1 10.244.1.0/24", "b 10.9.0.2 10.244.2.0/24"},
			Options{}, withRoutes(withLink(machine("10.0.0.1/24"), link.Link{Name: "wg0", NoARP: true, MTU: 1420}),
				route.Route{Dst: prefixes("10.9.0.0/24")[0], Device: "wg0", Proto: 2}),
		},
		"no range":           {[]string{"a 10.0.0.1", "b 10.0.0.2 10.244.2.0/24"}, Options{}, machine("10.0.0.1/24")},
		"not in the cluster": {[]string{"b 10.0.0.2 10.244.2.0/24"}, Options{}, machine("10.0.0.1/24")},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			c.opt.Node = "a"
			want, findings := Plan(clusterOf(c.nodes...), c.opt, c.host)
			got := want.Text()
			for _, f := range findings {
				got += fmt.Sprintf("finding %s %s %s: %s\n", f.Code, f.Severity, f.Object, f.Cause)
				for _, e := range f.Evidence {
					got += "  " + e + "\n"
				}
				got += "  fix: " + f.Fix + "\n"
			}
			golden(t, strings.ReplaceAll(name, " ", "-")+".txt", got)
		})
	}
}

func withRoutes(h Host, r ...route.Route) Host { h.Routes = append(h.Routes, r...); return h }
func withLink(h Host, l link.Link) Host        { h.Links = append(h.Links, l); return h }

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("want -, got +\n%s", diff)
	}
}

func TestSpansAreTheFewestThatCoverTheSame(t *testing.T) {
	for in, want := range map[string]string{
		"10.0.0.0/24 10.0.1.0/24 10.0.0.7/32": "10.0.0.0-10.0.1.255",
		"10.0.2.0/24 10.0.0.0/24":             "10.0.0.0-10.0.0.255 10.0.2.0-10.0.2.255",
		"0.0.0.0/0 10.0.0.0/8":                "0.0.0.0-255.255.255.255",
		"fd00::/127 fd00::2/128 fd00::4/128":  "fd00::-fd00::2 fd00::4-fd00::4",
		"255.255.255.255/32 ::/128":           "255.255.255.255-255.255.255.255 ::-::",
		"10.0.0.5/24":                         "10.0.0.0-10.0.0.255",
		"":                                    "",
	} {
		var got []string
		for _, s := range spans(prefixes(strings.Fields(in)...)) {
			got = append(got, s.from.String()+"-"+s.to.String())
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: got %v, want %s", in, got, want)
		}
	}
}

func TestNamesAndAddressesAreStableAndFitTheKernel(t *testing.T) {
	if v := VethName("0123456789abcdef", "eth0"); v != VethName("0123456789abcdef", "eth0") || len(v) != 15 || !isVethName(v) || v == VethName("0123456789abcdef", "eth1") {
		t.Errorf("veth %q", v)
	}
	if isVethName(TunnelDevice) || isVethName("pw0") {
		t.Error("other devices count as Pods'")
	}
	if m := vtep("node-1"); m != vtep("node-1") || m == vtep("node-2") || m[0]&3 != 2 {
		t.Errorf("vtep %s is not a stable, local, unicast address", m)
	}
}
