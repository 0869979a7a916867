package agent

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/podway/podway/internal/hop/podnet"
	"github.com/podway/podway/internal/hop/podnet/hostport"
	"github.com/podway/podway/internal/hop/proxy"
	"github.com/podway/podway/internal/kernel/netns"
	knft "github.com/podway/podway/internal/kernel/nft"
)

// Part is what one part of podway has left on a host, in whichever process.
type Part struct {
	Name   string   // "proxy nftables", "podnet"
	Has    []string // what would go, one line each
	Pods   int      // Pods that lose their network with it
	Remove func(context.Context) error
}

// CleanupOptions say where to look.
type CleanupOptions struct {
	NS              *netns.NS // nil = this process's
	CNIBin, CNIConf string    // the container runtime's folders
	RunDir          string    // of sockets and configuration
	Podnet          podnet.Options
}

// Leftovers finds what podway's parts have left on this host: the service proxy in every mode, and unless proxyOnly the Pod
// network. What belongs to others is not in it; each part is told by its own names.
func Leftovers(ctx context.Context, o CleanupOptions, proxyOnly bool) ([]Part, error) {
	var out []Part
	for _, b := range others("", o.NS) {
		left, err := proxy.Left(ctx, b)
		if err != nil {
			return nil, fmt.Errorf("agent: proxy mode %s: %w", b.Name(), err)
		}
		if !left {
			continue
		}
		r, err := b.Read(ctx, proxy.Node{})
		if err != nil {
			return nil, fmt.Errorf("agent: proxy mode %s: %w", b.Name(), err)
		}
		out = append(out, Part{Name: "proxy " + b.Name(), Has: heads(r.Text()), Remove: b.Remove})
	}
	if proxyOnly {
		return out, nil
	}
	network, err := podnetPart(ctx, o)
	if err != nil {
		return nil, err
	}
	if len(network.Has) > 0 {
		out = append(out, network)
	}
	if files := ownFiles(o); len(files) > 0 {
		out = append(out, Part{Name: "files", Has: files, Remove: func(context.Context) error { return removeFiles(o, files) }})
	}
	return out, nil
}

// heads are the lines of a ruleset that name its parts, with how long each is.
func heads(text string) (out []string) {
	lines, name := 0, ""
	flush := func() {
		if name != "" {
			out = append(out, fmt.Sprintf("%s (%d lines)", name, lines))
		}
	}
	family := ""
	for line := range strings.Lines(text) {
		head := strings.TrimRight(line, " {\n")
		switch {
		case strings.HasPrefix(line, "# "):
			family = strings.TrimPrefix(head, "# ") + " "
		case strings.HasPrefix(line, "table "), strings.HasPrefix(line, "*"):
			flush()
			name, lines = family+strings.TrimPrefix(head, "*"), 1
			continue
		}
		lines++
	}
	if flush(); len(out) == 0 && lines > 0 {
		out = []string{fmt.Sprintf("%d lines", lines)}
	}
	return out
}

func podnetPart(ctx context.Context, o CleanupOptions) (Part, error) {
	h, err := podnet.New(o.NS, o.Podnet)
	if err != nil {
		return Part{}, fmt.Errorf("agent: podnet: %w", err)
	}
	has, pods, err := h.Marks(ctx)
	if err != nil {
		return Part{}, fmt.Errorf("agent: podnet: %w", err)
	}
	tables, err := portTables(ctx, o.NS)
	if err != nil {
		return Part{}, err
	}
	for _, t := range tables {
		has = append(has, fmt.Sprintf("nftables table %s %s", t.Family, t.Name))
	}
	return Part{Name: "podnet", Has: has, Pods: pods, Remove: func(ctx context.Context) error {
		return errors.Join(h.Remove(ctx), dropTables(ctx, o.NS, tables))
	}}, nil
}

// portTables are those with the Pods' hostPorts, which the CNI plugin makes.
func portTables(ctx context.Context, ns *netns.NS) (out []*knft.Table, err error) {
	k, err := knft.Open(ns)
	if err != nil {
		return nil, fmt.Errorf("agent: host ports: %w", err)
	}
	defer k.Close()
	for _, f := range []knft.Family{knft.IPv4, knft.IPv6} {
		t, err := k.Read(ctx, f, hostport.Table)
		if err != nil && !errors.Is(err, errors.ErrUnsupported) {
			return nil, fmt.Errorf("agent: host ports: %w", err)
		}
		if t != nil {
			out = append(out, t)
		}
	}
	return out, nil
}

func dropTables(ctx context.Context, ns *netns.NS, tables []*knft.Table) error {
	if len(tables) == 0 {
		return nil
	}
	k, err := knft.Open(ns)
	if err != nil {
		return fmt.Errorf("agent: host ports: %w", err)
	}
	defer k.Close()
	var ops []knft.Op
	for _, t := range tables {
		ops = append(ops, knft.Op{Kind: knft.DelTable, Table: t})
	}
	return k.Apply(ctx, ops)
}

// ownFiles are the CNI plugin, its configuration and what podway keeps.
func ownFiles(o CleanupOptions) (out []string) {
	paths := []string{filepath.Join(o.CNIConf, podnet.ConflistName), filepath.Join(o.CNIBin, podnet.PluginName)}
	if to, err := os.Readlink(filepath.Join(o.CNIBin, "loopback")); err == nil && to == podnet.PluginName {
		paths = append(paths, filepath.Join(o.CNIBin, "loopback"))
	}
	paths = append(paths, o.RunDir, o.Podnet.StoreDir)
	for _, p := range paths {
		if _, err := os.Lstat(p); p != "" && !errors.Is(err, fs.ErrNotExist) {
			out = append(out, p)
		}
	}
	return out
}

func removeFiles(o CleanupOptions, files []string) error {
	err := podnet.Uninstall(o.CNIBin, o.CNIConf)
	for _, dir := range []string{o.RunDir, o.Podnet.StoreDir} {
		if slices.Contains(files, dir) {
			err = errors.Join(err, os.RemoveAll(dir))
		}
	}
	return err
}
