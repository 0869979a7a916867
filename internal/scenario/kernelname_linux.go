package scenario

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"time"

	"github.com/miekg/dns"

	"github.com/podway/podway/internal/flow"
	hopdns "github.com/podway/podway/internal/hop/dns"
	"github.com/podway/podway/internal/model"
	"github.com/podway/podway/internal/nettest"
	"github.com/podway/podway/internal/trace"
	"github.com/podway/podway/internal/trace/probe"
)

var clusterDNS = model.N("kube-system", "kube-dns")

// dig asks the cluster's DNS as the sender's resolver would: by the Service kube-system/kube-dns when the scenario has it,
// else the hop of the sender's own node.
func (w *kernelWorld) dig(ctx context.Context, q trace.Question) Outcome {
	host, server, err := w.resolver(q)
	if err != nil {
		return failure(err)
	}
	var o Outcome
	for _, name := range searched(q) {
		m, err := exchange(host, server, name, q.DNSType)
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			return Outcome{Result: dropped, Detail: err.Error()}
		case err != nil:
			return Outcome{Result: refused, Detail: err.Error()}
		}
		o = answerOf(dns.RcodeToString[m.Rcode], recordsOf(m))
		if o.Result != "NXDOMAIN" {
			return o
		}
	}
	return o
}

func (w *kernelWorld) resolver(q trace.Question) (*nettest.Host, netip.AddrPort, error) {
	host, node := w.net.Outside(), w.firstNode
	if q.From != flow.FromOutside {
		var err error
		if host, _, err = w.senderHost(q); err != nil {
			return nil, netip.AddrPort{}, err
		}
		node = q.Sender
		if q.From == flow.FromPod {
			node = w.pods[nameOf(q.Sender)].node.name
		}
	}
	if svc := w.snapshot.Services.At(clusterDNS); svc != nil && svc.HasClusterIP() && q.From != flow.FromOutside {
		return host, netip.AddrPortFrom(svc.ClusterIPs[0], 53), nil
	}
	return host, netip.AddrPortFrom(w.nodes[node].host.Addrs[0], DNSPort), nil
}

// searched is the names that a resolver with a Pod's resolv.conf asks for, in order.
func searched(q trace.Question) []string {
	asked := flow.Question{Name: q.Target}
	if q.From != flow.FromOutside {
		ns, _, isPod := strings.Cut(q.Sender, "/")
		if !isPod {
			ns = "default"
		}
		d := trace.DefaultDomain
		asked.Search, asked.NDots = []string{ns + ".svc." + d, "svc." + d, d}, 5
	}
	return probe.Candidates(asked)
}

// exchange sends one question by UDP from the host, and by TCP when the answer was cut.
func exchange(host *nettest.Host, server netip.AddrPort, name, typ string) (m *dns.Msg, err error) {
	t, ok := dns.StringToType[typ]
	if !ok {
		return nil, fmt.Errorf("record type %s is unknown", typ)
	}
	q := new(dns.Msg).SetQuestion(dns.Fqdn(name), t)
	err = host.Do(func() error {
		c := &dns.Client{Timeout: patience}
		if m, _, err = c.Exchange(q, server.String()); err == nil && m.Truncated {
			c.Net = "tcp"
			m, _, err = c.Exchange(q, server.String())
		}
		return err
	})
	return m, err
}

func recordsOf(m *dns.Msg) []string {
	var out []string
	for _, rr := range m.Answer {
		out = append(out, hopdns.Record(rr))
	}
	return out
}

// announced asks by ARP who has the address. More than one answer is an error of its own.
func (w *kernelWorld) announced(ctx context.Context, a netip.Addr) Outcome {
	macs, err := w.net.Outside().WhoHas(ctx, a, arpWait)
	if err != nil {
		return failure(err)
	}
	var who []string
	for _, m := range macs {
		name := fmt.Sprintf("a stranger %x", m)
		for _, n := range w.nodes {
			if own, err := n.host.MAC(); err == nil && own == m {
				name = n.name
			}
		}
		who = append(who, name)
	}
	switch len(who) {
	case 0:
		return Outcome{Result: "nobody"}
	case 1:
		return Outcome{Result: "node", Node: who[0]}
	}
	return Outcome{Result: "error", Detail: "several answer: " + strings.Join(who, ", ")}
}

const arpWait = 300 * time.Millisecond
