package upstream

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/miekg/dns"
)

// probeWait is how long a server has to send our own question back to us.
const probeWait = 500 * time.Millisecond

// loopZone ends the names of probes; the root has no such domain.
const loopZone = ".podway-loop."

// loopProbe finds loops: a question with a name that only we know is sent to a server; if somebody asks us that very
// question, the server forwards to us, directly or by others.
type loopProbe struct{ nonce string }

func newLoopProbe() loopProbe { return loopProbe{strings.ToLower(rand.Text())} }

// name is the name of the probe of one server.
func (p loopProbe) name(s *server) string {
	return fmt.Sprintf("%s-%s%s", p.nonce, strings.NewReplacer(".", "-", ":", "-", "%", "-").Replace(s.addr.String()), loopZone)
}

// probe sends the probe and waits for an answer; what counts is whether Probed is called meanwhile, or later.
func (f *Forwarder) probe(s *server) {
	ctx, cancel := context.WithTimeout(context.Background(), probeWait)
	defer cancel()
	var q dns.Msg
	q.SetQuestion(f.loop.name(s), dns.TypeHINFO)
	_, _ = s.link.Exchange(ctx, &q)
}

// Probed takes a question that came from a client, and reports whether it is a probe of ours. If it is, the server that
// it was sent to is never asked again.
func (f *Forwarder) Probed(name string) bool {
	name = dns.CanonicalName(name)
	if !strings.HasSuffix(name, loopZone) || !strings.HasPrefix(name, f.loop.nonce) {
		return false
	}
	f.servers.mu.Lock()
	defer f.servers.mu.Unlock()
	for _, s := range f.servers.list {
		if f.loop.name(s) == name && !s.loops.Swap(true) {
			slog.Error("upstream DNS server sends our questions back to us: not used", "hop", "dns", "server", s.addr)
		}
	}
	return true
}
