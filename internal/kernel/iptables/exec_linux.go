package iptables

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/podway/podway/internal/kernel/netns"
	"github.com/podway/podway/internal/kernel/nft"
)

const (
	// patience is how long one run of a tool may take: a full load of a very large cluster takes minutes.
	patience = 10 * time.Minute
	// lockSeconds is how long a tool of the variant legacy waits for others that have the lock of the tables.
	lockSeconds = "5"
	// chunk bounds the chains of one COMMIT for the variant nft, which looks each up in a list of those named so far.
	chunk = 768
)

// Exec is the Door of a real network namespace, through the tools of one variant.
type Exec struct {
	ns      *netns.NS
	variant Variant
	tools   map[Family]string // "/usr/sbin/iptables-nft", and the same with -restore and -save
	six     bool              // the kernel knows IPv6

	mu  sync.Mutex
	nft *nft.Conn // for the generation of the variant nft
}

// Open opens the door of a namespace, which must stay open; nil is this process's own. want is the variant of the tools,
// or "" for the one that the host's other programs use.
func Open(ns *netns.NS, want Variant) (*Exec, error) {
	e := &Exec{ns: ns}
	have := installed()
	if len(have) == 0 {
		return nil, fmt.Errorf("iptables: no command iptables-restore in PATH: install the package iptables (Debian, Ubuntu, Alpine, Fedora: iptables), or use proxy mode nftables: %w", errors.ErrUnsupported)
	}
	if want == "" {
		want = e.detect(have)
	}
	tools, ok := have[want]
	if !ok {
		return nil, fmt.Errorf("iptables: the tools of variant %s are not installed: %w", want, errors.ErrUnsupported)
	}
	e.variant, e.tools = want, tools
	if e.six = e.hasIPv6(); e.six && tools[IPv6] == "" {
		return nil, fmt.Errorf("iptables: no command ip6tables-restore in PATH, but the kernel has IPv6: install it (Alpine: ip6tables): %w", errors.ErrUnsupported)
	}
	if want == NFT {
		c, err := nft.Open(ns)
		if err != nil {
			return nil, fmt.Errorf("iptables: %w", err)
		}
		e.nft = c
	}
	return e, nil
}

// Close closes the door; nothing in the kernel changes.
func (e *Exec) Close() error {
	if e.nft != nil {
		return e.nft.Close()
	}
	return nil
}

// Variant is the variant of the tools.
func (e *Exec) Variant() Variant { return e.variant }

// Has implements Door.
func (e *Exec) Has(f Family) bool { return f == IPv4 || e.six }

// Chunk implements Door.
func (e *Exec) Chunk() int {
	if e.variant == NFT {
		return chunk
	}
	return 0 // each COMMIT writes the whole table
}

// Restore implements Door.
func (e *Exec) Restore(ctx context.Context, f Family, input []byte) error {
	tool := e.tools[f] + "-restore"
	out, err := e.run(ctx, bytes.NewReader(input), tool, "-w", lockSeconds, "--noflush")
	if err != nil {
		return fmt.Errorf("iptables: %w%s", err, badLine(err.Error()+out, input))
	}
	return nil
}

var lineNumber = regexp.MustCompile(`line:? (\d+)`)

// badLine shows the line of the input that a tool complains about.
func badLine(message string, input []byte) string {
	m := lineNumber.FindStringSubmatch(message)
	if m == nil {
		return ""
	}
	n, _ := strconv.Atoi(m[1])
	lines := bytes.Split(input, []byte("\n"))
	if n < 1 || n > len(lines) {
		return ""
	}
	return fmt.Sprintf(" (%s)", lines[n-1])
}

// run starts a tool in the namespace and returns what it printed.
func (e *Exec) run(ctx context.Context, in io.Reader, tool string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var out, complaint strings.Builder
	cmd := exec.CommandContext(ctx, tool, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = in, &out, &complaint
	cmd.Env = []string{"LC_ALL=C", "PATH=" + path()}
	if err := e.in(cmd.Start); err != nil {
		return "", fmt.Errorf("start %s: %w", tool, err)
	}
	if err := cmd.Wait(); err != nil {
		return out.String(), fmt.Errorf("%s: %w: %s", tool, err, strings.Join(strings.Fields(complaint.String()), " "))
	}
	return out.String(), nil
}

// in calls f on a thread in the namespace: a process that it starts is there too.
func (e *Exec) in(f func() error) error {
	if e.ns == nil {
		return f()
	}
	return e.ns.Do(f)
}
