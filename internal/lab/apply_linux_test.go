package lab

import (
	"testing"

	"github.com/podway/podway/internal/lab/api"
)

func TestOnlyEndsSinceThisStartMakeAContainerHopeless(t *testing.T) {
	before := restarts{}
	old := api.Stuck{Namespace: "kube-system", Pod: "podway-ingress-x", Container: "ingress", Restarts: 7}
	fresh := api.Stuck{Namespace: "kube-system", Pod: "podway-node-x", Container: "node"}
	for round := range hopeless {
		if n := before.since(old); n != 0 {
			t.Errorf("a container that ended 7 times in former lives: %d ends", n)
		}
		fresh.Restarts = round
		if n := before.since(fresh); n >= hopeless {
			t.Errorf("after %d ends: hopeless already", n)
		}
	}
	fresh.Restarts, old.Restarts = hopeless, 7+hopeless
	for _, s := range []api.Stuck{fresh, old} {
		if n := before.since(s); n < hopeless {
			t.Errorf("%s: %d ends since the start, want %d", s, n, hopeless)
		}
	}
}
