package answers

import (
	"testing"

	"github.com/miekg/dns"

	"github.com/podway/podway/internal/model"
)

// specification is the Kubernetes DNS specification in questions and answers, over the cluster of shop().
var specification = []struct{ sentence, question, want string }{
	{"the version of the specification is a TXT record", "TXT dns-version.cluster.local", `TXT "1.1.0"`},
	{"a Service has its ClusterIP", "A cart.shop.svc.cluster.local", "A 10.96.41.7"},
	{"a Service of one family has no address of the other", "AAAA cart.shop.svc.cluster.local", "NODATA"},
	{"a dual-stack Service has its IPv4 address", "A dual.shop.svc.cluster.local", "A 10.96.41.8"},
	{"a dual-stack Service has its IPv6 address", "AAAA dual.shop.svc.cluster.local", "AAAA fd00:10:96::8"},
	{"case does not matter", "A CART.Shop.SVC.cluster.LOCAL", "A 10.96.41.7"},
	{"a named port has an SRV record", "SRV _http._tcp.cart.shop.svc.cluster.local", "SRV 0 100 80 cart.shop.svc.cluster.local."},
	{"a port has no SRV record under another protocol", "SRV _http._udp.cart.shop.svc.cluster.local", "NXDOMAIN"},
	{"a port without a name has no SRV record", "SRV _._tcp.cart.shop.svc.cluster.local", "NXDOMAIN"},
	{"SRV names need their underscores", "SRV http.tcp.cart.shop.svc.cluster.local", "NXDOMAIN"},
	{"SRV at the bare Service is no data", "SRV cart.shop.svc.cluster.local", "NODATA"},
	{"an SRV name has no address", "A _http._tcp.cart.shop.svc.cluster.local", "NODATA"},
	{"a ClusterIP leads back to its Service", "PTR 7.41.96.10.in-addr.arpa", "PTR cart.shop.svc.cluster.local."},
	{"an IPv6 ClusterIP leads back to its Service",
		"PTR 8.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.6.9.0.0.0.1.0.0.0.0.d.f.ip6.arpa", "PTR dual.shop.svc.cluster.local."},
	{"an endpoint of a Service with ClusterIP has no name", "PTR 9.9.244.10.in-addr.arpa", "NXDOMAIN"},
	{"an endpoint's name below a Service with ClusterIP does not exist", "A 10-244-9-9.cart.shop.svc.cluster.local", "NXDOMAIN"},

	{"a headless Service has the addresses of its ready endpoints", "A web.shop.svc.cluster.local", "A 10.244.1.5, A 10.244.1.6"},
	{"a headless Service has its IPv6 endpoints apart", "AAAA web.shop.svc.cluster.local", "AAAA fd00:244::3"},
	{"an endpoint with a host name has a name", "A web-0.web.shop.svc.cluster.local", "A 10.244.1.5"},
	{"an endpoint has no address of the other family", "AAAA web-0.web.shop.svc.cluster.local", "NODATA"},
	{"an IPv6 endpoint with a host name has a name", "AAAA web-3.web.shop.svc.cluster.local", "AAAA fd00:244::3"},
	{"an endpoint without a host name has its address as label", "A 10-244-1-6.web.shop.svc.cluster.local", "A 10.244.1.6"},
	{"an endpoint with a host name is not found by its address", "A 10-244-1-5.web.shop.svc.cluster.local", "NXDOMAIN"},
	{"an endpoint that is not ready has no name", "A web-2.web.shop.svc.cluster.local", "NXDOMAIN"},
	{"every ready endpoint and named port has an SRV record with the endpoint's port", "SRV _http._tcp.web.shop.svc.cluster.local",
		"SRV 0 33 8080 10-244-1-6.web.shop.svc.cluster.local., SRV 0 33 8080 web-0.web.shop.svc.cluster.local., SRV 0 33 8080 web-3.web.shop.svc.cluster.local."},
	{"a headless endpoint leads back to its host name", "PTR 5.1.244.10.in-addr.arpa", "PTR web-0.web.shop.svc.cluster.local."},
	{"a headless endpoint without host name leads back to its label", "PTR 6.1.244.10.in-addr.arpa", "PTR 10-244-1-6.web.shop.svc.cluster.local."},
	{"a reverse name outside our ranges is answered when we know it",
		"PTR 3.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.4.4.2.0.0.0.d.f.ip6.arpa", "PTR web-3.web.shop.svc.cluster.local."},
	{"an endpoint that is not ready has no reverse name", "PTR 7.1.244.10.in-addr.arpa", "NXDOMAIN"},
	{"a headless Service without ready endpoints does not exist", "A down.shop.svc.cluster.local", "NXDOMAIN"},

	{"an ExternalName is a CNAME", "CNAME db.shop.svc.cluster.local", "CNAME db.example.com."},
	{"an ExternalName to the world is looked up there", "A db.shop.svc.cluster.local", "CNAME db.example.com., then db.example.com."},
	{"an ExternalName is a CNAME for every type", "HTTPS db.shop.svc.cluster.local", "CNAME db.example.com., then db.example.com."},
	{"an ExternalName is a CNAME for TXT too", "TXT db.shop.svc.cluster.local", "CNAME db.example.com., then db.example.com."},
	{"an ExternalName in the cluster comes with the address", "A alias.shop.svc.cluster.local", "A 10.96.41.7, CNAME cart.shop.svc.cluster.local."},
	{"an ExternalName in the cluster without such records is no data", "AAAA alias.shop.svc.cluster.local", "CNAME cart.shop.svc.cluster.local."},
	{"an ExternalName to a missing name has the target's rcode", "A broken.shop.svc.cluster.local", "NXDOMAIN, CNAME missing.shop.svc.cluster.local."},

	{"a missing Service does not exist", "A nope.shop.svc.cluster.local", "NXDOMAIN"},
	{"a missing Service does not exist for any type", "TXT nope.shop.svc.cluster.local", "NXDOMAIN"},
	{"a Service still without address does not exist", "A pending.shop.svc.cluster.local", "NXDOMAIN"},
	{"a Service has no TXT record", "TXT cart.shop.svc.cluster.local", "NODATA"},
	{"svc exists", "A svc.cluster.local", "NODATA"},
	{"a namespace with names exists", "A shop.svc.cluster.local", "NODATA"},
	{"a namespace without names does not exist", "A lonely.svc.cluster.local", "NXDOMAIN"},
	{"_tcp exists above a named port", "A _tcp.cart.shop.svc.cluster.local", "NODATA"},
	{"_tcp exists above a named port of endpoints", "SRV _tcp.web.shop.svc.cluster.local", "NODATA"},
	{"_udp does not exist without a named port", "A _udp.cart.shop.svc.cluster.local", "NXDOMAIN"},
	{"nothing is below a Service", "A x.cart.shop.svc.cluster.local", "NXDOMAIN"},
	{"nothing is two labels below a Service", "A x.y.cart.shop.svc.cluster.local", "NXDOMAIN"},
	{"wildcards are no wildcards", "A *.shop.svc.cluster.local", "NXDOMAIN"},
	{"a name that a search list made does not exist", "A example.com.shop.svc.cluster.local", "NXDOMAIN"},
	{"anything else below the domain does not exist", "A example.com.cluster.local", "NXDOMAIN"},
	{"the domain exists", "A cluster.local", "NODATA"},
	{"the domain has a name server", "NS cluster.local", "NS ns.dns.cluster.local."},
	{"the name server has an address", "A ns.dns.cluster.local", "A 10.96.0.10"},
	{"above the name server is no data", "A dns.cluster.local", "NODATA"},
	{"the domain has an SOA", "SOA cluster.local", "SOA ns.dns.cluster.local. hostmaster.cluster.local. 1700000000 7200 1800 86400 5"},
	{"a Service has no SOA", "SOA cart.shop.svc.cluster.local", "NODATA"},
	{"pod names are off", "A 10-244-1-5.shop.pod.cluster.local", "NXDOMAIN"},
	{"pod is off", "A pod.cluster.local", "NXDOMAIN"},

	{"an unused ClusterIP has no name", "PTR 1.0.96.10.in-addr.arpa", "NXDOMAIN"},
	{"a range that is not cut at an octet is ours as a whole", "PTR 1.0.111.10.in-addr.arpa", "NXDOMAIN"},
	{"an address behind the range is not ours", "PTR 1.0.112.10.in-addr.arpa", "FOREIGN"},
	{"the start of an address of the range exists", "PTR 41.96.10.in-addr.arpa", "NODATA"},
	{"the reverse zone has an SOA", "SOA 244.10.in-addr.arpa", "SOA ns.dns.cluster.local. hostmaster.cluster.local. 1700000000 7200 1800 86400 5"},
	{"the reverse zone has a name server", "NS 244.10.in-addr.arpa", "NS ns.dns.cluster.local."},
	{"above the reverse zone is not ours", "PTR 10.in-addr.arpa", "FOREIGN"},
	{"nothing is below an address", "PTR x.7.41.96.10.in-addr.arpa", "NXDOMAIN"},
	{"an octet is a number below 256", "PTR 256.41.96.10.in-addr.arpa", "NXDOMAIN"},
	{"an octet has no leading zero", "PTR 07.41.96.10.in-addr.arpa", "NXDOMAIN"},
	{"a reverse name has no address", "A 7.41.96.10.in-addr.arpa", "NODATA"},
	{"other reverse zones are not ours", "PTR 1.2.0.192.in-addr.arpa", "FOREIGN"},
	{"other names are not ours", "A example.com", "FOREIGN"},
	{"the root is not ours", "NS .", "FOREIGN"},
	{"a name that only ends like ours is not ours", "A xcluster.local", "FOREIGN"},
	{"a label with a dot in it is no two labels", `A cart\.shop.svc.cluster.local`, "NXDOMAIN"},
}

func TestAnswersFollowTheSpecification(t *testing.T) {
	v := view(t, options, shop())
	lazy, err := Of(options, shop())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range specification {
		t.Run(c.sentence, func(t *testing.T) {
			if got := dig(t, v, c.question); got != c.want {
				t.Errorf("dig %s\n got %s\nwant %s", c.question, got, c.want)
			}
			if got := dig(t, lazy, c.question); got != c.want {
				t.Errorf("dig %s, compiled on demand\n got %s\nwant %s", c.question, got, c.want)
			}
		})
	}
}

func TestAChainOfExternalNamesWithoutEndIsAServerFailure(t *testing.T) {
	f := view(t, options, shop()).Find("here.shop.svc.cluster.local", dns.TypeA)
	if f.Rcode != dns.RcodeServerFailure {
		t.Errorf("got %s", dns.RcodeToString[f.Rcode])
	}
}

func TestBeforeTheFirstViewOurZonesFail(t *testing.T) {
	v, err := New(options)
	if err != nil {
		t.Fatal(err)
	}
	for question, want := range map[string]string{
		"A cart.shop.svc.cluster.local": "SERVFAIL",
		"A cluster.local":               "SERVFAIL",
		"TXT dns-version.cluster.local": "SERVFAIL",
		"PTR 7.41.96.10.in-addr.arpa":   "SERVFAIL",
		"PTR 5.1.244.10.in-addr.arpa":   "SERVFAIL",
		"PTR 8.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.6.9.0.0.0.1.0.0.0.0.d.f.ip6.arpa": "SERVFAIL",
		"A example.com":                "FOREIGN",
		"PTR 1.2.168.192.in-addr.arpa": "SERVFAIL", // any private address may be the cluster's
		"PTR 1.2.65.100.in-addr.arpa":  "SERVFAIL",
		"PTR 1.2.0.192.in-addr.arpa":   "FOREIGN",
	} {
		if got := dig(t, v, question); got != want {
			t.Errorf("dig %s: got %s, want %s", question, got, want)
		}
	}
}

func TestPodRecordsAnswerTheAddressInTheName(t *testing.T) {
	o := options
	o.PodRecords = true
	v := view(t, o, shop())
	for question, want := range map[string]string{
		"A 10-244-1-5.shop.pod.cluster.local":           "A 10.244.1.5",
		"AAAA 10-244-1-5.shop.pod.cluster.local":        "NODATA",
		"AAAA fd00-244--3.shop.pod.cluster.local":       "AAAA fd00:244::3",
		"A 10-244-1.shop.pod.cluster.local":             "NXDOMAIN",
		"A web-0.shop.pod.cluster.local":                "NXDOMAIN",
		"A x.10-244-1-5.shop.pod.cluster.local":         "NXDOMAIN",
		"A pod.cluster.local":                           "NODATA",
		"A shop.pod.cluster.local":                      "NODATA",
		"AAAA 1-2-3-4-5-6-7-8-9.shop.pod.cluster.local": "NXDOMAIN",
	} {
		if got := dig(t, v, question); got != want {
			t.Errorf("dig %s: got %s, want %s", question, got, want)
		}
	}
}

func pod(ns, name, phase string, ips ...string) *model.Pod {
	return &model.Pod{Name: model.N(ns, name), Phase: phase, Addrs: addrs(ips...)}
}

func TestVerifiedPodRecordsAnswerForPodsThatThereAre(t *testing.T) {
	o := options
	o.PodRecords, o.PodsChecked = true, true
	s := snapshot(pod("shop", "web", "Running", "10.244.1.5", "fd00:244::5"), pod("shop", "done", "Succeeded", "10.244.1.6"), pod("shop", "new", "Pending"))
	v, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	b := model.NewBuilder(s)
	b.Put(pod("shop", "web", "Running", "10.244.1.7"))
	b.Put(pod("shop", "twin", "Running", "10.244.1.7"))
	next := b.Snapshot(s.Time)
	b.Delete(pod("shop", "web", ""))
	last := b.Snapshot(s.Time)
	old := (*model.Snapshot)(nil)
	for i, step := range []struct {
		s    *model.Snapshot
		want map[string]string
	}{
		{s, map[string]string{
			"A 10-244-1-5.shop.pod.cluster.local":           "A 10.244.1.5",
			"AAAA 10-244-1-5.shop.pod.cluster.local":        "NODATA",
			"AAAA fd00-244--5.shop.pod.cluster.local":       "AAAA fd00:244::5",
			"A 10-244-1-5.other.pod.cluster.local":          "NXDOMAIN",
			"A 10-244-1-6.shop.pod.cluster.local":           "NXDOMAIN",
			"A 10-244-1-7.shop.pod.cluster.local":           "NXDOMAIN",
			"A 010-244-1-5.shop.pod.cluster.local":          "NXDOMAIN",
			"A 10-244-1-5-.shop.pod.cluster.local":          "NXDOMAIN",
			"AAAA --ffff-10-244-1-5.shop.pod.cluster.local": "NXDOMAIN",
		}},
		{next, map[string]string{"A 10-244-1-5.shop.pod.cluster.local": "NXDOMAIN", "A 10-244-1-7.shop.pod.cluster.local": "A 10.244.1.7"}},
		{last, map[string]string{"A 10-244-1-7.shop.pod.cluster.local": "A 10.244.1.7"}},
	} {
		v, _ = v.Apply(step.s, model.Diff(old, step.s))
		lazy, err := Of(o, step.s)
		if err != nil {
			t.Fatal(err)
		}
		for question, want := range step.want {
			if got := dig(t, v, question); got != want {
				t.Errorf("step %d: dig %s: got %s, want %s", i, question, got, want)
			}
			if got := dig(t, lazy, question); got != want {
				t.Errorf("step %d: dig %s, compiled on demand: got %s, want %s", i, question, got, want)
			}
		}
		old = step.s
	}
}

func TestThatANameIsMissingIsRememberedForFiveSecondsAtMost(t *testing.T) {
	for ttl, want := range map[uint32]uint32{0: 5, 3: 3, 30: 5, 3600: 5} {
		o := options
		o.TTL = ttl
		f := view(t, o, shop()).Find("nope.shop.svc.cluster.local.", dns.TypeA)
		soa := f.Authority[0].(*dns.SOA)
		if soa.Minttl != want || soa.Hdr.Ttl != want {
			t.Errorf("TTL %d: SOA for %d s, minimum %d, want %d", ttl, soa.Hdr.Ttl, soa.Minttl, want)
		}
	}
}

func TestAnAddressAsExternalNameIsNoRecord(t *testing.T) {
	v := view(t, options, snapshot(external("shop", "four", "192.0.2.1"), external("shop", "six", "2001:db8::1")))
	for _, q := range []string{"A four.shop.svc.cluster.local", "CNAME four.shop.svc.cluster.local", "AAAA six.shop.svc.cluster.local"} {
		if got := dig(t, v, q); got != "NODATA" {
			t.Errorf("dig %s: got %s", q, got)
		}
	}
}

func TestOneAddressOfTwoHeadlessServicesHasTwoNames(t *testing.T) {
	s := snapshot(headless("shop", "a"), slice("shop", "a", "a-1", "10.244.1.5"), headless("shop", "b"), slice("shop", "b", "b-1", "x=10.244.1.5"))
	v := view(t, options, s)
	const q = "PTR 5.1.244.10.in-addr.arpa"
	if got, want := dig(t, v, q), "PTR 10-244-1-5.a.shop.svc.cluster.local., PTR x.b.shop.svc.cluster.local."; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	b := model.NewBuilder(s)
	b.Delete(slice("shop", "a", "a-1"))
	s2 := b.Snapshot(s.Time)
	v, changed := v.Apply(s2, model.Diff(s, s2))
	if got, want := dig(t, v, q), "PTR x.b.shop.svc.cluster.local."; got != want || changed != 1 {
		t.Errorf("after one has gone: got %s, want %s (%d changed)", got, want, changed)
	}
}

func TestTwoEndpointsMayShareAHostName(t *testing.T) {
	v := view(t, options, snapshot(headless("shop", "a"), slice("shop", "a", "a-1", "x=10.244.1.5", "x=10.244.1.6", "x=fd00::5")))
	if got, want := dig(t, v, "A x.a.shop.svc.cluster.local"), "A 10.244.1.5, A 10.244.1.6"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	f := v.Find("_http._tcp.a.shop.svc.cluster.local", dns.TypeSRV)
	if len(f.Answer) != 1 || len(f.Extra) != 3 {
		t.Errorf("one SRV record for the name with three addresses beside it, got %v and %v", f.Answer, f.Extra)
	}
}

func TestAServiceWhoseNameIsTooLongHasNone(t *testing.T) {
	o := options
	long := "a123456789012345678901234567890123456789012345678901234567890"
	o.Domain = long + "." + long + "." + long
	v := view(t, o, snapshot(clusterIP(long, long, "10.96.0.1"), clusterIP("a", "b", "10.96.0.2")))
	if v.Services() != 1 {
		t.Errorf("got %d Services with names, want 1", v.Services())
	}
	if got := dig(t, v, "A b.a.svc."+o.Domain); got != "A 10.96.0.2" {
		t.Errorf("got %s", got)
	}
}
