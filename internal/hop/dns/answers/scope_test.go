package answers

import (
	"net/netip"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/podway/podway/internal/model"
)

func TestOnlySomeServicesHaveNames(t *testing.T) {
	b := model.NewBuilder(nil)
	for _, ns := range []string{"shop", "web"} {
		b.Put(&model.Service{Name: model.N(ns, "cart"), Type: model.ClusterIP, ClusterIPs: []netip.Addr{netip.MustParseAddr("10.96.0.7")}})
		b.Put(&model.Service{Name: model.N(ns, "db"), Headless: true})
		b.Put(&model.EndpointSlice{Name: model.N(ns, "db-a"), Service: model.N(ns, "db"),
			Endpoints: []model.Endpoint{{Addr: netip.MustParseAddr("10.244.1.5"), Ready: true, Pod: model.N(ns, "Db-0")}}})
	}
	s := b.Snapshot(time.Unix(1_700_000_000, 0))
	for _, c := range []struct {
		sentence string
		o        Options
		want     map[string]int
	}{
		{"of one namespace", Options{Namespaces: []string{"shop"}}, map[string]int{"cart.shop": 0, "db.shop": 0, "10-244-1-5.db.shop": 0, "cart.web": dns.RcodeNameError, "web": dns.RcodeNameError}},
		{"without endpoints", Options{NoEndpoints: true}, map[string]int{"cart.shop": 0, "db.shop": dns.RcodeNameError, "cart.web": 0}},
		{"endpoints called like their Pods", Options{PodNames: true}, map[string]int{"db-0.db.shop": 0, "10-244-1-5.db.shop": dns.RcodeNameError}},
	} {
		whole, err := New(c.o)
		if err != nil {
			t.Fatal(err)
		}
		whole, _ = whole.Apply(s, model.Everything())
		lazy, err := Of(c.o, s)
		if err != nil {
			t.Fatal(err)
		}
		for name, want := range c.want {
			for kind, v := range map[string]*View{"compiled at once": whole, "compiled when asked": lazy} {
				if got := v.Find(name+".svc.cluster.local.", dns.TypeA).Rcode; got != want {
					t.Errorf("%s, %s: %s is %s, want %s", c.sentence, kind, name, dns.RcodeToString[got], dns.RcodeToString[want])
				}
			}
		}
	}
}

func TestPartsOfAView(t *testing.T) {
	b := model.NewBuilder(nil)
	b.Put(&model.Service{Name: model.N("shop", "cart"), Type: model.ClusterIP, ClusterIPs: []netip.Addr{netip.MustParseAddr("10.96.0.7")}})
	v, err := New(Options{CIDRs: []netip.Prefix{netip.MustParsePrefix("10.96.0.0/12")}})
	if err != nil {
		t.Fatal(err)
	}
	v, _ = v.Apply(b.Snapshot(time.Unix(1_700_000_000, 0)), model.Everything())
	for _, c := range []struct {
		sentence      string
		v             *View
		service, back Kind
	}{{"the whole", v, Answered, Answered}, {"without reverse names", v.Forward(), Answered, Foreign}, {"nothing", v.None(), Foreign, Foreign}} {
		if got := c.v.Find("cart.shop.svc.cluster.local.", dns.TypeA).Kind; got != c.service {
			t.Errorf("%s: a Service is %v", c.sentence, got)
		}
		for _, name := range []string{"7.0.96.10.in-addr.arpa.", "8.0.96.10.in-addr.arpa."} {
			if got := c.v.Find(name, dns.TypePTR).Kind; got != c.back {
				t.Errorf("%s: %s is %v", c.sentence, name, got)
			}
		}
	}
}
