package iptables

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/podway/podway/internal/kernel/nft"
)

// Read implements Door. For the variant nft it asks the kernel for single chains, and for no chain of another program
// but the kernel's own; only where a rule has something in it that is not known here, the tool is asked for all.
func (e *Exec) Read(ctx context.Context, f Family, table string, ours func(string) bool) (*Table, error) {
	if e.variant == NFT {
		t, err := e.readChains(ctx, f, table, ours)
		if !errors.Is(err, errForeign) {
			return t, err
		}
	}
	text, err := e.save(ctx, f, table)
	if err != nil {
		return nil, err
	}
	return Parse(f, table, text, ours), nil
}

// save returns a table as the tool prints it, "" when the kernel has no such table.
func (e *Exec) save(ctx context.Context, f Family, table string) (string, error) {
	if e.variant == Legacy && !e.loaded(f, table) {
		return "", nil // asking would make the table
	}
	out, err := e.run(ctx, nil, e.tools[f]+"-save", "-t", table)
	if err != nil {
		return "", fmt.Errorf("iptables: %w", err)
	}
	return out, nil
}

// nftFamily is the family's name in nf_tables.
func nftFamily(f Family) nft.Family {
	if f == IPv6 {
		return nft.IPv6
	}
	return nft.IPv4
}

// readChains reads the chains over netlink, again when somebody wrote meanwhile.
func (e *Exec) readChains(ctx context.Context, f Family, table string, ours func(string) bool) (*Table, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for try := 0; ; try++ {
		before, err := e.nft.Generation(ctx)
		if err != nil {
			return nil, fmt.Errorf("iptables: %w", err)
		}
		t, err := e.readOnce(ctx, f, table, ours)
		after, again := e.nft.Generation(ctx)
		switch {
		case again != nil:
			return nil, fmt.Errorf("iptables: %w", again)
		case before != after || nft.Changed(err): // chains of different times
			if try == 9 {
				return nil, fmt.Errorf("iptables: read %s table %s: it changes all the time", f, table)
			}
		case err != nil:
			return nil, err
		default:
			return t, nil
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(time.Millisecond << try):
		}
	}
}

func (e *Exec) readOnce(ctx context.Context, f Family, table string, ours func(string) bool) (*Table, error) {
	chains, err := e.nft.ChainNames(ctx, nftFamily(f), table)
	if err != nil {
		return nil, fmt.Errorf("iptables: %w", err)
	}
	t := &Table{Family: f, Name: table, Chains: map[string]string{}}
	d := decoder{six: f == IPv6}
	for chain, base := range chains {
		if !base && !ours(chain) {
			continue
		}
		body, err := e.rules(ctx, &d, f, table, chain, ours)
		if err != nil {
			return nil, err
		}
		if !base || body != "" {
			t.Chains[chain] = body
		}
	}
	return t, nil
}

// rules reads one chain: all rules of one of ours, of others those that jump to ours.
func (e *Exec) rules(ctx context.Context, d *decoder, f Family, table, chain string, ours func(string) bool) (string, error) {
	var b strings.Builder
	var one string
	n, failed := 0, error(nil)
	mine := ours(chain)
	err := e.nft.RawRules(ctx, nftFamily(f), table, chain, func(exprs []nft.RawExpr, note string) {
		line, err := d.rule(chain, exprs, note)
		switch {
		case err != nil && mine:
			failed = err
			return
		case err != nil || !mine && !ours(targetOf(line)):
			return
		}
		if n++; n == 1 { // most chains have one rule
			one = line
			return
		}
		b.WriteString(line)
	})
	if err == nil {
		err = failed
	}
	if n < 2 {
		return one, err
	}
	return one + b.String(), err
}

// Look implements Door.
func (e *Exec) Look(ctx context.Context, f Family, ours func(string) bool) func(table, chain string) (string, bool, error) {
	tables := map[string]*Table{}
	whole := func(table, chain string) (string, bool, error) {
		if tables[table] == nil {
			t, err := e.Read(ctx, f, table, ours)
			if err != nil {
				return "", false, err
			}
			tables[table] = t
		}
		body, exists := tables[table].Chains[chain]
		return body, exists, nil
	}
	if e.variant == Legacy {
		return whole // the kernel tells tables as a whole
	}
	return func(table, chain string) (string, bool, error) {
		body, exists, err := e.chain(ctx, f, table, chain, ours)
		if errors.Is(err, errForeign) || nft.Changed(err) {
			return whole(table, chain)
		}
		return body, exists, err
	}
}

// chain reads one chain over netlink.
func (e *Exec) chain(ctx context.Context, f Family, table, chain string, ours func(string) bool) (body string, exists bool, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	d := decoder{six: f == IPv6}
	body, err = e.rules(ctx, &d, f, table, chain, ours)
	if err != nil || body != "" {
		return body, err == nil, err
	}
	exists, err = e.nft.HasChain(ctx, nftFamily(f), table, chain)
	return "", exists, err
}
