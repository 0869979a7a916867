package kubeproxy

import (
	"context"
	"errors"
	"fmt"

	"github.com/podway/podway/internal/flow"
	"github.com/podway/podway/internal/hop/proxy"
	"github.com/podway/podway/internal/kernel/netns"
	knft "github.com/podway/podway/internal/kernel/nft"
)

// nftTable is the name of kube-proxy's tables in mode nftables.
const nftTable = "kube-proxy"

// Tables are kube-proxy's nftables tables. Taken out they sleep: they stay in the kernel as they are, and no packet passes
// them. It implements proxy.Backend as far as a change of modes needs it.
type Tables struct {
	unable
	ns *netns.NS
}

// NFTables returns those of a namespace; nil is the process's own.
func NFTables(ns *netns.NS) *Tables { return &Tables{ns: ns} }

// Name implements proxy.Backend.
func (t *Tables) Name() string { return "nftables of kube-proxy" }

func (t *Tables) each(f func(k *knft.Conn, family knft.Family, asleep bool) error) error {
	k, err := knft.Open(t.ns)
	if err != nil {
		return err
	}
	defer k.Close()
	for _, family := range []knft.Family{knft.IPv4, knft.IPv6} {
		exists, asleep, err := k.Sleeps(context.Background(), family, nftTable)
		if err != nil && !errors.Is(err, errors.ErrUnsupported) {
			return err
		}
		if !exists {
			continue
		}
		if err := f(k, family, asleep); err != nil {
			return err
		}
	}
	return nil
}

// Objects names what there is.
func (t *Tables) Objects(context.Context) (out []string, err error) {
	err = t.each(func(_ *knft.Conn, f knft.Family, asleep bool) error {
		state := "in force"
		if asleep {
			state = "out of force"
		}
		out = append(out, fmt.Sprintf("nftables table %s %s, %s", f, nftTable, state))
		return nil
	})
	return out, err
}

// Owns implements proxy.Owner: whether there is a table in force.
func (t *Tables) Owns(context.Context) (found bool, err error) {
	err = t.each(func(_ *knft.Conn, _ knft.Family, asleep bool) error {
		found = found || !asleep
		return nil
	})
	return found, err
}

// Remove takes the tables out of force.
func (t *Tables) Remove(ctx context.Context) error { return t.sleep(ctx, true) }

// PutBack puts them in force again. It reports whether there were any to put back.
func (t *Tables) PutBack(ctx context.Context) (bool, error) {
	found := false
	err := t.each(func(_ *knft.Conn, _ knft.Family, asleep bool) error {
		found = found || asleep
		return nil
	})
	if err != nil || !found {
		return false, err
	}
	return true, t.sleep(ctx, false)
}

// Apply implements proxy.Backend: what was removed comes back.
func (t *Tables) Apply(ctx context.Context, _ *proxy.Plan) (proxy.Applied, error) {
	_, err := t.PutBack(ctx)
	return proxy.Applied{}, err
}

func (t *Tables) sleep(ctx context.Context, asleep bool) error {
	return t.each(func(k *knft.Conn, f knft.Family, is bool) error {
		if is == asleep {
			return nil
		}
		return k.Sleep(ctx, f, nftTable, asleep)
	})
}

// Forget deletes for good what was taken out.
func (t *Tables) Forget(ctx context.Context) error {
	return t.each(func(k *knft.Conn, f knft.Family, asleep bool) error {
		if !asleep {
			return nil
		}
		return k.Apply(ctx, []knft.Op{{Kind: knft.DelTable, Table: knft.NewTable(f, nftTable)}})
	})
}

// unable are the methods of proxy.Backend that another program's rules have no use for.
type unable struct{}

var errNotOurs = errors.New("kube-proxy's rules are not read")

func (unable) Supported(context.Context) error       { return nil }
func (unable) Render(*proxy.Plan) proxy.Ruleset      { return nil }
func (unable) Check(context.Context) (string, error) { return "", nil }
func (unable) Read(context.Context, proxy.Node) (proxy.Ruleset, error) {
	return nil, errNotOurs
}
func (unable) Eval(context.Context, proxy.Node, flow.Flow) (flow.Verdict, error) {
	return flow.Verdict{}, errNotOurs
}
