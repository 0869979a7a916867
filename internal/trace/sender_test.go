package trace

import (
	"strings"
	"testing"

	"github.com/podway/podway/internal/model"
)

func TestWhoSends(t *testing.T) {
	for _, c := range []struct{ in, want, note, fails string }{
		{"pod/web", "pod shop/web", "", ""},
		{"pod/kube-system/podway-ingress-x", "pod kube-system/podway-ingress-x", "", ""},
		{"deploy/cart", "pod shop/cart-1", "", ""},
		{"Deployment/cart", "pod shop/cart-1", "", ""},
		{"node/n2", "node n2", "", ""},
		{"outside", "outside ", "", ""},
		{"outside=203.0.113.9", "outside ", "", ""},
		{"", "pod shop/cart-1", "a ready Pod of namespace shop was taken", ""},
		{"deploy/none", "", "", "there is no Deployment none in namespace shop"},
		{"svc/cart", "", "", "is none of pod/NAME"},
		{"web", "", "", "is none of pod/NAME"},
		{"outside=here", "", "", "unable to parse"},
	} {
		q := Question{Namespace: "shop"}
		note, err := NewIndex(build()).SetSender(&q, c.in)
		if c.fails != "" {
			if err == nil || !strings.Contains(err.Error(), c.fails) {
				t.Errorf("%q: got %v, want an error with %q", c.in, err, c.fails)
			}
			continue
		}
		if got := string(q.From) + " " + q.Sender; err != nil || got != c.want || !strings.Contains(note, c.note) || (note == "") != (c.note == "") {
			t.Errorf("%q: got %q, %q, %v; want %q, %q", c.in, got, note, err, c.want, c.note)
		}
	}
}

func TestWithoutAPodANodeSends(t *testing.T) {
	q := Question{Namespace: "empty"}
	note, err := NewIndex(build()).SetSender(&q, "")
	if err != nil || q.Sender != "n1" || !strings.Contains(note, "a node was taken") {
		t.Errorf("got %+v %q %v", q, note, err)
	}
	if _, err := NewIndex(&model.Snapshot{}).SetSender(&q, ""); err == nil {
		t.Error("an empty cluster has nobody who could send")
	}
}
