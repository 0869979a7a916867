package oracle

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/podway/podway/internal/flow"
	"github.com/podway/podway/internal/kernel/conntrack"
	"github.com/podway/podway/internal/model"
	"github.com/podway/podway/internal/nettest"
	"github.com/podway/podway/internal/scenario"
)

// world is one side: a cluster of namespaces with one of the two proxies on its nodes.
type world struct {
	live   *scenario.Live
	st     *scenario.State
	tables map[string]*conntrack.Conn // by node
	port   uint16                     // of the last new UDP client
}

// sides are podway and the peer, in this order.
type sides [2]*world

func openWorld(o scenario.KernelOptions) (*world, error) {
	o.Without = []string{"dns", "announce"} // nobody asks them
	live, err := scenario.NewLive(o)
	if err != nil {
		return nil, err
	}
	w := &world{live: live, tables: map[string]*conntrack.Conn{}}
	f, err := bare().file()
	if err == nil {
		err = live.Load(f)
	}
	if err == nil {
		err = live.Step(context.Background(), 0)
	}
	for _, n := range []string{nodeA, nodeB} {
		if err == nil {
			err = talkative(live.Node(n))
		}
		if err == nil {
			w.tables[n], err = conntrack.Open(live.Node(n).NS())
		}
	}
	if err != nil {
		return nil, errors.Join(err, w.close())
	}
	return w, nil
}

// talkative lets a host say "refused" as often as there is reason to: the kernel rations that for each client.
func talkative(h *nettest.Host) error {
	return h.Do(func() error {
		for _, s := range []string{"ipv4/icmp_ratemask=0", "ipv4/icmp_ratelimit=0", "ipv6/icmp/ratemask=\n", "ipv6/icmp/ratelimit=0"} {
			key, value, _ := strings.Cut(s, "=")
			if err := os.WriteFile("/proc/sys/net/"+key, []byte(value), 0); err != nil {
				return err
			}
		}
		return nil
	})
}

func (w *world) close() error {
	for _, c := range w.tables {
		c.Close()
	}
	return w.live.Close()
}

// host is where a client's packets start.
func (w *world) host(c Client) *nettest.Host {
	switch c.From {
	case flow.FromNode:
		return w.live.Node(c.Name)
	case flow.FromPod:
		return w.live.Pod(model.N("default", c.Name))
	}
	return w.live.Outside()
}

// dial is a connection of a probe; i numbers those of an outside client, which sends from several addresses.
func (w *world) dial(p Probe, i int, timeout time.Duration) (nettest.Dial, error) {
	d := nettest.Dial{Proto: string(p.Proto), Dst: p.Addr, Timeout: timeout}
	if p.From != flow.FromOutside {
		return d, nil
	}
	is4 := p.Addr.Addr().Is4()
	d.Src = outsideClient(is4, i)
	for _, a := range w.live.Node(p.Node).Addrs {
		if a.Is4() == is4 {
			var err error
			d.Mark, err = w.live.Outside().Via(a)
			return d, err
		}
	}
	return d, fmt.Errorf("oracle: %s has no address of the family of %s", p.Node, p.Addr)
}

// owner says whose the address is that an answerer saw.
func (w *world) owner(d nettest.Dial, r nettest.Reply) string {
	if d.Src.IsValid() && r.Saw.Addr() == d.Src {
		return itself
	}
	return w.st.Owner(r.Saw.Addr())
}

// asked is one connection and which question it belongs to.
type asked struct {
	probe int
	d     nettest.Dial
	r     nettest.Reply
}

// send makes all connections at the same time, those of each host in one burst.
func (w *world) send(ctx context.Context, probes []Probe, all []*asked) {
	byHost := map[*nettest.Host][]*asked{}
	for _, a := range all {
		h := w.host(probes[a.probe].Client)
		byHost[h] = append(byHost[h], a)
	}
	var running sync.WaitGroup
	for h, mine := range byHost {
		running.Go(func() {
			dials := make([]nettest.Dial, len(mine))
			for i, a := range mine {
				dials[i] = a.d
			}
			for i, r := range h.Burst(ctx, dials) {
				mine[i].r = r
			}
		})
	}
	running.Wait()
}

// newPort is a port that no UDP client has had lately: the kernel would take a client of an earlier step's port for that one.
func (w *world) newPort() uint16 {
	const first, last = 33000, 64999 // above node ports and longFlows
	if w.port++; w.port < first || w.port > last {
		w.port = first
	}
	return w.port
}

// ask asks the questions, each as often as times says, and returns what was seen in their order.
func (w *world) ask(ctx context.Context, probes []Probe, times func(Probe) int, patience time.Duration) ([]Observation, error) {
	var all []*asked
	for i, p := range probes {
		for k := range times(p) {
			source := k % 4
			if p.Sticky {
				source = k / 2 // each twice, to see whether it stays
			}
			d, err := w.dial(p, source, patience)
			if err != nil {
				return nil, err
			}
			if p.Proto == flow.UDP {
				d.SrcPort = w.newPort()
			}
			all = append(all, &asked{probe: i, d: d})
		}
	}
	w.send(ctx, probes, all)
	sums := make([]*seen, len(probes))
	for i := range sums {
		sums[i] = newSeen()
	}
	for _, a := range all {
		sums[a.probe].add(a.r, a.d.Src.String(), w.owner(a.d, a.r))
	}
	out := make([]Observation, len(probes))
	for i := range out {
		out[i] = sums[i].observation(probes[i])
	}
	return out, nil
}

// health asks a node for the health of a Service, as a load balancer of the Service's first family does.
func (w *world) health(ctx context.Context, node string, svc *model.Service) string {
	is4 := svc.ClusterIPs[0].Is4()
	a := w.st.Snapshot.Nodes.At(node).Addr(is4)
	d := nettest.Dial{Dst: netip.AddrPortFrom(a, svc.HealthCheckNodePort), Src: outsideClient(is4, 0), Timeout: 3 * time.Second}
	r := w.live.Outside().Get(ctx, d, "http://health/", http.Header{})
	if r.Status == 0 {
		return string(r.Result)
	}
	return strings.TrimSpace(fmt.Sprintf("%d, weight %s", r.Status, r.Header.Get("X-Load-Balancing-Endpoint-Weight")))
}
