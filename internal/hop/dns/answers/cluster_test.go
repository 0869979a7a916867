package answers

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/podway/podway/internal/model"
)

func addrs(in ...string) []netip.Addr {
	var out []netip.Addr
	for _, a := range in {
		out = append(out, netip.MustParseAddr(a))
	}
	return out
}

func clusterIP(ns, name string, ips ...string) *model.Service {
	return &model.Service{Name: model.N(ns, name), Type: model.ClusterIP, ClusterIPs: addrs(ips...),
		Ports: []model.ServicePort{{Name: "http", Protocol: model.TCP, Port: 80}, {Protocol: model.TCP, Port: 81}}}
}

func headless(ns, name string) *model.Service {
	return &model.Service{Name: model.N(ns, name), Type: model.ClusterIP, Headless: true}
}

func external(ns, name, target string) *model.Service {
	return &model.Service{Name: model.N(ns, name), Type: model.ExternalName, ExternalName: target}
}

// endpoint reads "10.244.1.5", "web-0=10.244.1.5" or "!10.244.1.5" (not ready).
func endpoint(s string) model.Endpoint {
	e := model.Endpoint{Ready: true}
	if rest, ok := strings.CutPrefix(s, "!"); ok {
		e.Ready, s = false, rest
	}
	if host, addr, ok := strings.Cut(s, "="); ok {
		e.Hostname, s = host, addr
	}
	e.Addr = netip.MustParseAddr(s)
	return e
}

func slice(ns, service, name string, endpoints ...string) *model.EndpointSlice {
	sl := &model.EndpointSlice{Name: model.N(ns, name), Service: model.N(ns, service),
		Ports: []model.EndpointPort{{Name: "http", Protocol: model.TCP, Port: 8080}, {Protocol: model.TCP, Port: 9}}}
	for _, e := range endpoints {
		sl.Endpoints = append(sl.Endpoints, endpoint(e))
	}
	return sl
}

func snapshot(objects ...any) *model.Snapshot {
	b := model.NewBuilder(nil)
	for _, o := range objects {
		b.Put(o)
	}
	return b.Snapshot(time.Unix(1_700_000_000, 0))
}

var options = Options{CIDRs: []netip.Prefix{netip.MustParsePrefix("10.96.0.0/12"), netip.MustParsePrefix("10.244.0.0/16"),
	netip.MustParsePrefix("fd00:10:96::/112")}, Nameservers: addrs("10.96.0.10")}

func view(t testing.TB, o Options, s *model.Snapshot) *View {
	t.Helper()
	v, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	v, _ = v.Apply(s, model.Everything())
	return v
}

// shop is a cluster with a Service of every kind.
func shop() *model.Snapshot {
	return snapshot(
		clusterIP("shop", "cart", "10.96.41.7"),
		clusterIP("shop", "dual", "10.96.41.8", "fd00:10:96::8"),
		slice("shop", "cart", "cart-x", "10.244.9.9"),
		headless("shop", "web"),
		slice("shop", "web", "web-a", "web-0=10.244.1.5", "10.244.1.6", "!web-2=10.244.1.7"),
		slice("shop", "web", "web-b", "web-3=fd00:244::3"),
		headless("shop", "down"),
		slice("shop", "down", "down-a", "!10.244.1.8"),
		headless("lonely", "none"),
		external("shop", "db", "db.example.com"),
		external("shop", "alias", "cart.shop.svc.cluster.local"),
		external("shop", "broken", "missing.shop.svc.cluster.local"),
		external("shop", "here", "there.shop.svc.cluster.local"),
		external("shop", "there", "here.shop.svc.cluster.local"),
		&model.Service{Name: model.N("shop", "pending"), Type: model.ClusterIP},
	)
}

// dig asks and writes rcode and records: "NOERROR A 10.96.41.7". Records are sorted, each "TYPE DATA"; NODATA when there
// are none, and the bare rcode on errors.
func dig(t testing.TB, v *View, question string) string {
	t.Helper()
	typ, name, _ := strings.Cut(question, " ")
	f := v.Find(name, dns.StringToType[typ])
	switch f.Kind {
	case Foreign:
		return "FOREIGN"
	case Odd:
		return "ODD"
	}
	out := []string{}
	for _, rr := range f.Answer {
		out = append(out, record(rr))
	}
	slices.Sort(out)
	if f.Outside != "" {
		out = append(out, "then "+f.Outside)
	}
	switch {
	case f.Rcode != dns.RcodeSuccess:
		out = append([]string{dns.RcodeToString[f.Rcode]}, out...)
	case len(out) == 0:
		out = []string{"NODATA"}
	}
	if (f.Rcode == dns.RcodeNameError || out[0] == "NODATA") && (len(f.Authority) != 1 || f.Authority[0].Header().Rrtype != dns.TypeSOA) {
		t.Errorf("%s: a negative answer needs the SOA in authority, got %v", question, f.Authority)
	}
	return strings.Join(out, ", ")
}

func record(rr dns.RR) string {
	return dns.TypeToString[rr.Header().Rrtype] + " " + strings.TrimPrefix(rr.String(), rr.Header().String())
}
