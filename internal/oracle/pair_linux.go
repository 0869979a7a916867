package oracle

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"sync"
	"time"

	"github.com/podway/podway/internal/model"
	"github.com/podway/podway/internal/scenario"
)

const (
	silence  = 200 * time.Millisecond  // after which nothing more is expected; what differs is asked again with more patience
	patience = 3500 * time.Millisecond // a lost packet is sent again after one and after three seconds
	rounds   = 3
)

// pair is podway and the peer side by side.
type pair struct {
	sides sides
	modes modes
	share int  // percent of the questions that are asked
	past  bool // the kernels may remember UDP connections of an earlier case
}

// openPair makes both worlds.
func openPair(podway, peer scenario.KernelOptions, share int) (*pair, error) {
	p := &pair{modes: modesOf(podway, peer), share: share}
	err := p.both(func(i int, _ *world) (err error) {
		p.sides[i], err = openWorld([2]scenario.KernelOptions{podway, peer}[i])
		return err
	})
	if err != nil {
		return nil, errors.Join(err, p.close())
	}
	return p, nil
}

func (p *pair) close() error {
	return p.both(func(_ int, w *world) error {
		if w == nil {
			return nil
		}
		return w.close()
	})
}

// both runs f for the two sides at the same time.
func (p *pair) both(f func(i int, w *world) error) error {
	var errs [2]error
	var running sync.WaitGroup
	for i := range p.sides {
		running.Go(func() { errs[i] = f(i, p.sides[i]) })
	}
	running.Wait()
	for i, name := range []string{"podway", "the peer"} {
		if errs[i] != nil {
			errs[i] = fmt.Errorf("%s: %w", name, errs[i])
		}
	}
	return errors.Join(errs[:]...)
}

// Finding is one thing in which the two sides differ.
type Finding struct {
	Step         int
	Probe        Probe   // the question; the zero one when it is about something else
	Tracked      Tracked // the kind of connection that was tracked, likewise
	What         string  // what is compared, in words
	Podway, Peer string
	Rule         string // the key of the difference that explains it, "" = nothing does
	want         string // a line that the peer fulfils
	seen         [2]Observation
	long         bool // about a client that keeps its port
}

// String is for people.
func (f Finding) String() string {
	s := fmt.Sprintf("step %d: %s", f.Step, f.What)
	if f.Rule != "" {
		s += " [" + f.Rule + "]"
	}
	return fmt.Sprintf("%s\n    podway: %s\n    peer:   %s", s, f.Podway, f.Peer)
}

// Outcome is what became of a case.
type Outcome struct {
	Findings    []Finding
	States      int
	Questions   int
	Connections int
}

// unexplained are the findings that no difference explains.
func (o *Outcome) unexplained() (out []Finding) {
	for _, f := range o.Findings {
		if f.Rule == "" {
			out = append(out, f)
		}
	}
	return out
}

// run plays a case on both sides and compares after every step. An error means that a side could not be brought to a state.
func (p *pair) run(ctx context.Context, c *Case) (*Outcome, error) {
	if err := p.reset(ctx); err != nil {
		return nil, err
	}
	f, err := c.file()
	if err != nil {
		return nil, err
	}
	r := &playing{pair: p, file: f, out: &Outcome{}, long: newLongFlows()}
	if err := p.load(f); err != nil {
		return nil, err
	}
	defer func() { p.past = p.past || len(r.long.probes) > 0 }()
	for i := range f.Steps {
		if err := r.step(ctx, i); err != nil {
			return r.out, fmt.Errorf("step %d: %w", i, err)
		}
	}
	return r.out, nil
}

func (p *pair) load(f *scenario.File) error {
	return p.both(func(_ int, w *world) error { return w.live.Load(f) })
}

// reset takes away all Services and what the kernels remember of them.
func (p *pair) reset(ctx context.Context) error {
	f, err := bare().file()
	if err != nil {
		return err
	}
	return p.both(func(_ int, w *world) error {
		if err := w.live.Load(f); err != nil {
			return err
		}
		if err := w.live.Step(ctx, 0); err != nil || !p.past {
			return err
		}
		return w.forget(ctx)
	})
}

// playing is one run of a case.
type playing struct {
	*pair
	file   *scenario.File
	out    *Outcome
	long   *longFlows
	state  *scenario.State
	number int
}

func (r *playing) step(ctx context.Context, i int) error {
	r.number, r.state = i, r.file.Steps[i].State
	var kept [2]map[Tracked]string
	err := r.both(func(side int, w *world) error {
		w.st = r.state
		if err := w.live.Step(ctx, i); err != nil || len(r.long.probes) == 0 {
			return err
		}
		have, err := w.tracked(ctx)
		kept[side] = r.long.kept(side, w, have)
		return err
	})
	if err != nil {
		return err
	}
	r.out.States++
	for _, k := range unlike(kept[0], kept[1]) {
		r.find(Finding{What: "a tracked connection, " + k.String(), Tracked: k, Podway: kept[0][k], Peer: kept[1][k]})
	}
	probes := r.sample(Probes(r.state))
	r.long.follow(probes)
	for _, part := range []func(context.Context, []Probe) error{r.flows, r.connections, r.health} {
		if err := part(ctx, probes); err != nil {
			return err
		}
	}
	return nil
}

// sample leaves out questions by chance, the same of the same case, so that more cases can be played.
func (r *playing) sample(all []Probe) (out []Probe) {
	if r.share >= 100 {
		return all
	}
	for _, p := range all {
		h := fnv.New64a()
		fmt.Fprint(h, r.file.Name, r.number, p)
		if int(h.Sum64()%100) < r.share {
			out = append(out, p)
		}
	}
	return out
}

// find notes a difference and looks for what explains it.
func (r *playing) find(f Finding) {
	f.Step = r.number
	f.Rule = explain(r.modes, r.state, &f)
	r.out.Findings = append(r.out.Findings, f)
}

// flows compares what became of long-lived UDP clients.
func (r *playing) flows(ctx context.Context, _ []Probe) error {
	ask := r.long.probes
	for round := range rounds {
		var got [2]map[string]map[string]string
		err := r.both(func(side int, w *world) (err error) {
			got[side], err = r.long.ask(ctx, side, w, ask, wait(round))
			return err
		})
		if err != nil {
			return err
		}
		var differ []Probe
		for _, p := range ask {
			k := p.String()
			r.out.Connections += 2 * flowsEach
			for _, was := range unlike(got[0][k], got[1][k]) {
				f := Finding{Probe: p, What: fmt.Sprintf("a client that keeps its port, before at %q: %s (%s)", was, p, p.What), Podway: got[0][k][was], Peer: got[1][k][was], long: true}
				if round == rounds-1 || explain(r.modes, r.state, &f) != "" {
					r.find(f)
				} else if len(differ) == 0 || differ[len(differ)-1].String() != k {
					differ = append(differ, p)
				}
			}
		}
		if ask = differ; len(ask) == 0 {
			return nil
		}
	}
	return nil
}

func wait(round int) time.Duration {
	if round == 0 {
		return silence
	}
	return patience
}

// connections compares new connections. What differs is asked again, more often and with more patience: which Pod is
// chosen is chance, and a busy machine is slow.
func (r *playing) connections(ctx context.Context, probes []Probe) error {
	ask, sum := probes, [2][]Observation{}
	r.out.Questions += len(probes)
	for round := range rounds {
		var got [2][]Observation
		err := r.both(func(side int, w *world) (err error) {
			got[side], err = w.ask(ctx, ask, func(p Probe) int { return often(p, round) }, wait(round))
			return err
		})
		if err != nil {
			return err
		}
		var differ []Probe
		var rest [2][]Observation
		for i, p := range ask {
			var o [2]Observation
			for side := range o {
				o[side] = got[side][i]
				r.out.Connections += o[side].count
				if round > 0 {
					o[side] = sum[side][i].with(o[side])
				}
			}
			if o[0].equal(o[1]) {
				continue
			}
			f := Finding{Probe: p, What: fmt.Sprintf("%s (%s)", p, p.What), Podway: o[0].String(), Peer: o[1].String(), want: o[1].expectation(p), seen: o}
			if round == rounds-1 || explain(r.modes, r.state, &f) != "" {
				r.find(f)
				continue
			}
			differ = append(differ, p)
			for side := range o {
				rest[side] = append(rest[side], o[side])
			}
		}
		if ask, sum = differ, rest; len(ask) == 0 {
			return nil
		}
	}
	return nil
}

// often is how many connections tell the Pods of a question apart.
func often(p Probe, round int) int {
	n := 1
	if len(p.Allowed) > 1 {
		n = 4 * len(p.Allowed)
	}
	if p.Sticky && len(p.Allowed) > 1 {
		n = 8 * len(p.Allowed) // half of them from clients of their own
	}
	if round > 0 {
		n = 4 * max(n, 4)
	}
	return min(n, 200)
}

// health compares what healthCheckNodePorts answer.
func (r *playing) health(ctx context.Context, _ []Probe) error {
	for svc := range r.state.Snapshot.Services.Values() {
		if svc.HealthCheckNodePort == 0 || svc.Type != model.LoadBalancer || !svc.HasClusterIP() {
			continue
		}
		for _, n := range []string{nodeA, nodeB} {
			var got [2]string
			for try := 0; try < 10 && (try == 0 || got[0] != got[1]); try++ {
				if try > 0 {
					time.Sleep(50 * time.Millisecond) // kube-proxy opens the port a moment after it says that it is done
				}
				if err := r.both(func(side int, w *world) error { got[side] = w.health(ctx, n, svc); return nil }); err != nil {
					return err
				}
			}
			r.out.Questions++
			if got[0] != got[1] {
				r.find(Finding{What: fmt.Sprintf("healthCheckNodePort %d of %s on %s", svc.HealthCheckNodePort, svc.Name.Name, n), Podway: got[0], Peer: got[1]})
			}
		}
	}
	return nil
}
