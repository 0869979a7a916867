package iptables

import (
	"testing"

	"github.com/podway/podway/internal/hop/hoptest"
	"github.com/podway/podway/internal/hop/proxy/proxytest"
	kipt "github.com/podway/podway/internal/kernel/iptables"
)

// The backend as the agent makes it, which opens its tables itself.
func TestTheAgentsBackendWritesAndCounts(t *testing.T) {
	ns, _ := newHost(t, kipt.NFT)
	b := In(ns)
	p := proxytest.Default().Decide(hoptest.ServiceCases()[0].Snapshot)
	if _, err := b.Apply(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	if c := b.IPTablesCounts(); len(c.Rules) == 0 || len(c.Written) == 0 {
		t.Errorf("counted %+v", c)
	}
}
