package dnspeer

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Build builds CoreDNS from the module bench/coredns into bin/ and returns the program's path. root is the folder of
// podway's go.mod. The first time takes a minute.
func Build(ctx context.Context, root string) (string, error) {
	out, err := filepath.Abs(filepath.Join(root, "bin", "coredns"))
	if err != nil {
		return "", err
	}
	c := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags", "-s -w", "-o", out, ".")
	c.Dir = filepath.Join(root, "bench", "coredns")
	c.Env = append(os.Environ(), "CGO_ENABLED=0")
	if b, err := c.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build CoreDNS: %w\n%s", err, b)
	}
	return out, nil
}

// Root is the folder of podway's go.mod, looked for upwards from the working directory.
func Root() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for at := dir; ; at = filepath.Dir(at) {
		if _, err := os.Stat(filepath.Join(at, "bench", "coredns", "go.mod")); err == nil {
			return at, nil
		}
		if at == filepath.Dir(at) {
			return "", fmt.Errorf("%s is not in podway's tree", dir)
		}
	}
}

// Corefile is what kubeadm writes, with ports and API server of a test. In pods stands disabled, insecure or verified;
// "" = insecure, as kubeadm has it.
type Corefile struct {
	Listen   netip.AddrPort
	API      string // URL
	Upstream netip.AddrPort
	Pods     string
	NoCache  bool // else answers of reverse zones are up to 30 s old
	Metrics  netip.AddrPort
	Health   netip.AddrPort
	Ready    netip.AddrPort
}

// Text is the file.
func (c Corefile) Text() string {
	pods := c.Pods
	if pods == "" {
		pods = "insecure"
	}
	cache := `cache 30 {
       disable success cluster.local
       disable denial cluster.local
    }`
	if c.NoCache {
		cache = ""
	}
	return fmt.Sprintf(`.:%d {
    bind %s
    errors
    health %s {
       lameduck 5s
    }
    ready %s
    kubernetes cluster.local in-addr.arpa ip6.arpa {
       endpoint %s
       pods %s
       fallthrough in-addr.arpa ip6.arpa
       ttl 30
    }
    prometheus %s
    forward . %s {
       max_concurrent 1000
    }
    %s
    loop
    reload
    loadbalance
}
`, c.Listen.Port(), c.Listen.Addr(), c.Health, c.Ready, c.API, pods, c.Metrics, c.Upstream, cache)
}

// StartCoreDNS starts CoreDNS with a Corefile of free ports in dir.
func StartCoreDNS(ctx context.Context, program, dir string, at Place, api string, upstream netip.AddrPort) (*Process, error) {
	c := Corefile{API: api, Upstream: upstream}
	for _, a := range []*netip.AddrPort{&c.Listen, &c.Metrics, &c.Health, &c.Ready} {
		var err error
		if *a, err = FreePort(); err != nil {
			return nil, err
		}
	}
	return StartCorefile(ctx, program, dir, at, c.Listen, c.Text())
}

// StartCorefile starts CoreDNS with any Corefile; listen is where it answers.
func StartCorefile(ctx context.Context, program, dir string, at Place, listen netip.AddrPort, text string) (*Process, error) {
	file := filepath.Join(dir, fmt.Sprintf("Corefile-%d", listen.Port()))
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		return nil, err
	}
	return Start(ctx, "CoreDNS", listen, at, nil, program, "-conf", file)
}

// CoreDNSVersion is what the program says of itself.
func CoreDNSVersion(ctx context.Context, program string) string {
	b, err := exec.CommandContext(ctx, program, "-version").Output()
	if err != nil {
		return "CoreDNS"
	}
	line, _, _ := strings.Cut(string(b), "\n")
	return line
}

// StartKnot starts knot (the Debian package knot) with the cluster as static zones.
func StartKnot(ctx context.Context, dir string, at Place, c Cluster) (*Process, error) {
	addr, err := FreePort()
	if err != nil {
		return nil, err
	}
	conf := fmt.Sprintf("server:\n  listen: %s@%d\n  rundir: %s\n  udp-workers: 1\n  tcp-workers: 1\n  background-workers: 1\n"+
		"database:\n  storage: %s\nlog:\n  - target: stderr\n    any: error\nzone:\n"+
		"  - domain: cluster.local\n    file: %s/zone\n  - domain: 10.in-addr.arpa\n    file: %s/reverse\n", addr.Addr(), addr.Port(), dir, dir, dir, dir)
	for name, text := range map[string]string{"zone": c.ZoneFile(), "reverse": c.ReverseFile(), "knot.conf": conf} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			return nil, err
		}
	}
	program, err := exec.LookPath("knotd")
	if err != nil {
		if program, err = exec.LookPath("/usr/sbin/knotd"); err != nil {
			return nil, fmt.Errorf("knot is missing (apt-get install knot): %w", err)
		}
	}
	return Start(ctx, "knot", addr, at, nil, program, "-c", filepath.Join(dir, "knot.conf"))
}
