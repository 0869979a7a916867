package kubeproxy

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/podway/podway/internal/hop/proxy"
	kipt "github.com/podway/podway/internal/kernel/iptables"
	"github.com/podway/podway/internal/kernel/netns"
)

// Chains are kube-proxy's chains of modes iptables and ipvs, and the jumps to them. What is taken out is kept in files, as
// iptables-restore reads it. It implements proxy.Backend as far as a change of modes needs it.
type Chains struct {
	unable
	ns   *netns.NS
	dir  string
	door kipt.Door
}

// IPTables returns those of a namespace; nil is the process's own. dir is where they are kept.
func IPTables(ns *netns.NS, dir string) *Chains { return &Chains{ns: ns, dir: dir} }

// Name implements proxy.Backend.
func (c *Chains) Name() string { return "iptables of kube-proxy" }

func (c *Chains) open() (kipt.Door, error) {
	if c.door == nil {
		d, err := kipt.Open(c.ns, "")
		if err != nil {
			return nil, err
		}
		c.door = d
	}
	return c.door, nil
}

var tables = []string{kipt.Filter, kipt.NAT, kipt.Mangle}

// podways is a chain that podway has in mode iptables and kube-proxy never: then all these chains are podway's.
const podways = "KUBE-CLUSTER-IPS"

// read returns the tables that have chains of kube-proxy.
func (c *Chains) read(ctx context.Context) (out []*kipt.Table, err error) {
	d, err := c.open()
	if errors.Is(err, errors.ErrUnsupported) {
		return nil, nil // without the tools kube-proxy had none either
	}
	if err != nil {
		return nil, err
	}
	for _, f := range kipt.Families {
		if !d.Has(f) {
			continue
		}
		if _, mine, err := d.Look(ctx, f, owned)(kipt.Filter, podways); mine || err != nil {
			return nil, err
		}
		for _, name := range tables {
			t, err := d.Read(ctx, f, name, owned)
			if err != nil {
				return nil, err
			}
			if len(t.Chains) > 0 {
				out = append(out, t)
			}
		}
	}
	return out, nil
}

// Objects names what there is.
func (c *Chains) Objects(ctx context.Context) (out []string, err error) {
	have, err := c.read(ctx)
	for _, t := range have {
		n, jumps := 0, 0
		for chain, rules := range t.Chains {
			if owned(chain) {
				n++
			} else {
				jumps += strings.Count(rules, "\n")
			}
		}
		out = append(out, fmt.Sprintf("%s table %s: %d chains, %d jumps to them", t.Family, t.Name, n, jumps))
	}
	for _, f := range kipt.Families {
		if _, err := os.Stat(c.file(f)); err == nil {
			out = append(out, fmt.Sprintf("%s rules taken out, kept in %s", f, c.file(f)))
		}
	}
	return out, err
}

// Owns implements proxy.Owner.
func (c *Chains) Owns(ctx context.Context) (bool, error) {
	have, err := c.read(ctx)
	return len(have) > 0, err
}

func (c *Chains) file(f kipt.Family) string { return filepath.Join(c.dir, "kube-proxy."+f.String()) }

// Remove takes the chains and the jumps to them away, each family at once, after writing down how they were.
func (c *Chains) Remove(ctx context.Context) error {
	have, err := c.read(ctx)
	if err != nil {
		return err
	}
	for _, f := range kipt.Families {
		var keep, gone strings.Builder
		for _, t := range have {
			if t.Family == f {
				save(&keep, t)
				drop(&gone, t)
			}
		}
		if gone.Len() == 0 {
			continue
		}
		if err := os.MkdirAll(c.dir, 0o700); err != nil {
			return fmt.Errorf("keep kube-proxy's rules: %w", err)
		}
		if err := os.WriteFile(c.file(f), []byte(keep.String()), 0o600); err != nil {
			return fmt.Errorf("keep kube-proxy's rules: %w", err)
		}
		if err := c.door.Restore(ctx, f, []byte(gone.String())); err != nil {
			return err
		}
	}
	return nil
}

// save writes a table as iptables-restore --noflush puts it back: the jumps in front, where kube-proxy has them.
func save(b *strings.Builder, t *kipt.Table) {
	b.WriteString("*" + t.Name + "\n")
	names := slices.Sorted(maps.Keys(t.Chains))
	for _, chain := range names {
		if owned(chain) {
			b.WriteString(":" + chain + " - [0:0]\n")
		}
	}
	for _, chain := range names {
		if owned(chain) {
			b.WriteString(t.Chains[chain])
			continue
		}
		for _, rule := range slices.Backward(slices.Collect(strings.Lines(t.Chains[chain]))) {
			b.WriteString("-I" + strings.TrimPrefix(rule, "-A"))
		}
	}
	b.WriteString("COMMIT\n")
}

// drop writes what removes it again: jumps first, then the rules of all chains, then the chains.
func drop(b *strings.Builder, t *kipt.Table) {
	b.WriteString("*" + t.Name + "\n")
	names := slices.Sorted(maps.Keys(t.Chains))
	for _, chain := range names {
		if owned(chain) {
			b.WriteString(":" + chain + " - [0:0]\n") // empties it
		} else {
			b.WriteString(strings.ReplaceAll("\n"+t.Chains[chain], "\n-A", "\n-D")[1:])
		}
	}
	for _, chain := range names {
		if owned(chain) {
			b.WriteString("-X " + chain + "\n")
		}
	}
	b.WriteString("COMMIT\n")
}

// PutBack restores what was taken out. It reports whether there was anything.
func (c *Chains) PutBack(ctx context.Context) (bool, error) {
	found := false
	for _, f := range kipt.Families {
		text, err := os.ReadFile(c.file(f))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return found, fmt.Errorf("read kube-proxy's rules: %w", err)
		}
		d, err := c.open()
		if err != nil {
			return found, err
		}
		found = true
		if err := d.Restore(ctx, f, text); err != nil {
			return found, err
		}
		if err := os.Remove(c.file(f)); err != nil {
			return found, fmt.Errorf("kube-proxy's rules are back: %w", err)
		}
	}
	return found, nil
}

// Apply implements proxy.Backend: what was removed comes back.
func (c *Chains) Apply(ctx context.Context, _ *proxy.Plan) (proxy.Applied, error) {
	_, err := c.PutBack(ctx)
	return proxy.Applied{}, err
}

// Forget deletes what was kept.
func (c *Chains) Forget(context.Context) error {
	var errs []error
	for _, f := range kipt.Families {
		if err := os.Remove(c.file(f)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, fmt.Errorf("forget kube-proxy's rules: %w", err))
		}
	}
	return errors.Join(errs...)
}
