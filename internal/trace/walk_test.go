package trace

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/podway/podway/internal/flow"
	"github.com/podway/podway/internal/model"
)

func outcome(o Outcome) string {
	s := string(o.Action)
	if len(o.Pods) > 0 {
		s += " pods " + strings.Join(o.Pods, " ")
	}
	if o.Node != "" {
		s += " node " + o.Node
	}
	if o.Status != 0 {
		s += fmt.Sprint(" status ", o.Status)
	}
	if o.Rcode != "" {
		s += " " + o.Rcode
	}
	return s
}

func TestTheWayOfARequest(t *testing.T) {
	deny := map[string]flow.Verdict{"proxy": {Action: flow.Refused}}
	for _, c := range []struct {
		name, line  string
		over        map[string]flow.Verdict
		steps, want string
	}{
		{"a name goes through DNS, the client's proxy and each node's network", "pod web -> tcp cart:80", nil,
			"dns@n1 ok; proxy@n1 ok; podnet@n1 ok; process@n1 ok; podnet@n1 ok; podnet@n2 ok; process@n2 ok",
			"forward pods shop/cart-1 shop/cart-2"},
		{"a bare name takes the Service's port", "pod web -> tcp cart", nil, "", "forward pods shop/cart-1 shop/cart-2"},
		{"an address needs no DNS", "pod web -> tcp 10.96.0.7:80", nil, "", "forward pods shop/cart-1 shop/cart-2"},
		{"after a broken proxy the rest would pass", "pod web -> tcp cart.shop:80", deny,
			"dns@n1 ok; proxy@n1 broken; podnet@n1 would pass; process@n1 would pass; podnet@n1 would pass; podnet@n2 would pass; process@n2 would pass",
			"refused"},
		{"a name that does not exist ends at DNS", "pod web -> tcp carts:80", nil, "dns@n1 broken", "answer NXDOMAIN"},
		{"from outside an announced address enters at the node that announces it", "get http://shop.example/ from outside", nil,
			"announce@n1 ok; proxy@n2 ok; podnet@n2 ok; process@n2 ok; ingress@n2 ok; podnet@n2 ok; podnet@n1 ok; process@n1 ok; podnet@n2 ok; process@n2 ok",
			"forward pods shop/cart-1 shop/cart-2"},
		{"a host without a rule gets the ingress's 404", "get http://192.0.2.80/ from outside", nil, "", "answer status 404"},
		{"a node port of another node is asked there", "pod web -> tcp n2:30080", nil,
			"proxy@n1 ok; podnet@n1 ok; proxy@n2 ok; podnet@n2 ok; process@n2 ok", "forward pods kube-system/podway-ingress-x"},
		{"from outside to a node's own port", "outside 203.0.113.9 -> tcp n1:22", nil, "proxy@n1 ok; process@n1 ok", "pass node n1"},
		{"a Pod address passes the proxy", "pod web -> tcp 10.244.2.7:8080", nil,
			"proxy@n1 ok; podnet@n1 ok; podnet@n2 ok; process@n2 ok", "forward pods shop/cart-2"},
		{"an address outside leaves the cluster", "pod web -> tcp 198.51.100.1:443", nil, "", "pass"},
		{"dig asks DNS alone", "dig A cart from pod web", nil, "dns@n1 ok", "answer NOERROR"},
		{"in the cluster an HTTP question to a Service does not pass the ingress", "get http://cart/health from pod web", nil, "",
			"forward pods shop/cart-1 shop/cart-2"},
		{"a public name with an Ingress goes to the ingress from inside too", "get http://shop.example/x from pod web", nil, "",
			"forward pods shop/cart-1 shop/cart-2"},
		{"a node can send", "node n2 -> tcp 10.96.0.7:80", nil, "", "forward pods shop/cart-1 shop/cart-2"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, _ := walk(t, build(), c.line, c.over)
			if got := brief(p); c.steps != "" && got != c.steps {
				t.Errorf("steps\n got %s\nwant %s", got, c.steps)
			}
			if got := outcome(p.Outcome); got != c.want {
				t.Errorf("outcome %q, want %q\n%s", got, c.want, brief(p))
			}
		})
	}
}

func TestWithoutAnIngressServiceTheWayStartsAtTheIngress(t *testing.T) {
	s := build(gone{&model.Service{Name: model.N("kube-system", "podway-ingress")}},
		gone{&model.Pod{Name: model.N("kube-system", "podway-ingress-x")}})
	p, _ := walk(t, s, "get http://shop.example/foo from outside", nil)
	if got, want := outcome(p.Outcome), "forward pods shop/cart-1 shop/cart-2"; got != want {
		t.Errorf("outcome %q, want %q: %s", got, want, brief(p))
	}
	if len(p.NotChecked) != 1 {
		t.Errorf("the way to the ingress was not checked and nobody says so: %q", p.NotChecked)
	}
}

func TestWhatNobodyCouldSayIsUnknownNotOK(t *testing.T) {
	s := build()
	q, _ := ParseLine("pod web -> tcp 10.96.0.7:80", "shop")
	v := &fakeView{x: NewIndex(s), errs: map[string]error{"podnet": ErrNotChecked}}
	p := Walk(t.Context(), s, q, v)
	if st := p.Step(HopPodnet); st.State != Unknown || !errors.Is(st.Err, ErrNotChecked) {
		t.Errorf("podnet is %q, want unknown", st.State)
	}
}

func TestAFanOutIsFollowedToEachNodeUpToTheLimit(t *testing.T) {
	s := build()
	q, _ := ParseLine("pod web -> tcp 10.96.0.7:80", "shop")
	q.Limit = 1
	p := Walk(t.Context(), s, q, &fakeView{x: NewIndex(s)})
	if got, want := brief(p), "proxy@n1 ok; podnet@n1 ok; process@n1 ok"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if len(p.Outcome.Pods) != 2 || len(p.NotChecked) != 1 {
		t.Errorf("want both Pods in the outcome and one line on what was left out, got %+v %q", p.Outcome, p.NotChecked)
	}
}

func TestAPendingLoadBalancerBreaksAtItsAddress(t *testing.T) {
	lb := service("shop", "pay", "10.96.0.9", "app=cart", 80, 8080)
	lb.Type = model.LoadBalancer
	p, _ := walk(t, build(lb, gone{&model.Pool{Name: "default"}}), "outside -> tcp pay.shop:80", nil)
	st := p.BrokenStep()
	if st == nil || st.Hop != HopAnnounce || st.Findings[0].Code != flow.LBPending {
		t.Fatalf("want announce broken with %s, got %s", flow.LBPending, brief(p))
	}
}

func TestQuestionsAreParsedOrRefusedWithAReason(t *testing.T) {
	for line, want := range map[string]string{
		"pod web -> tcp cart:80":                     "pod shop/web  tcp cart:80",
		"pod other/web -> udp 10.96.0.10:53":         "pod other/web  udp 10.96.0.10:53",
		"node n1 -> sctp [fd00::1]:80":               "node n1 n1 sctp [fd00::1]:80",
		"outside 203.0.113.9 via n2 -> tcp n2:30080": "outside  n2 tcp n2:30080",
		"get https://a.example/x from outside":       "outside   tcp https://a.example/x",
		"dig AAAA cart from pod web":                 "pod shop/web  udp cart",
		"pod web tcp cart":                           "error",
		"pod web -> icmp cart":                       "error",
		"get ftp://x":                                "error",
		"outside nowhere -> tcp n1:1":                "error",
		"pod web -> tcp cart:99999":                  "error",
		"pod web -> tcp 10.96.0.7":                   "error",
	} {
		q, err := ParseLine(line, "shop")
		got := fmt.Sprintf("%s %s %s %s %s", q.From, q.Sender, q.Node, q.Proto, q.Target)
		if err != nil {
			got = "error"
		}
		if got != want {
			t.Errorf("%q: got %q (%v), want %q", line, got, err, want)
		}
	}
}

func TestASenderThatCannotSendIsAnError(t *testing.T) {
	s := build(with(pod("shop", "waits", "n1", "10.244.1.99", nil), func(p *model.Pod) { p.Node, p.Addrs = "", nil }))
	for _, line := range []string{"pod waits -> tcp cart:80", "pod none -> tcp cart:80", "node n9 -> tcp cart:80"} {
		q, err := ParseLine(line, "shop")
		if err != nil {
			t.Fatal(err)
		}
		if p := Walk(t.Context(), s, q, &fakeView{x: NewIndex(s)}); p.Err == nil || len(p.Steps) > 0 {
			t.Errorf("%s: got %v, %s", line, p.Err, brief(p))
		}
	}
}
