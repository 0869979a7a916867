package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"time"

	"github.com/podway/podway/bench/apiserver"
	"github.com/podway/podway/bench/dnspeer"
)

// seed of the questions.
const seed = 1

// bench is the servers under measurement and what feeds them.
type bench struct {
	options
	api     *apiserver.Server
	servers []*dnspeer.Process
	of      map[string]*figures
	round   int // of changes
}

// measure starts everything, measures, and prints.
func measure(ctx context.Context, o options) error {
	root, err := dnspeer.Root()
	if err != nil {
		return err
	}
	fmt.Println("building CoreDNS (a minute the first time)")
	program, err := dnspeer.Build(ctx, root)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "bench-dns-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	b := &bench{options: o, of: map[string]*figures{}}
	if b.api, err = apiserver.Start("127.0.0.1:0"); err != nil {
		return err
	}
	defer b.api.Close()
	if err := b.api.Put(o.cluster.Objects()...); err != nil {
		return err
	}
	defer b.stop()
	if err := b.start(ctx, program, dir); err != nil {
		return err
	}
	fmt.Printf("%d Services, %d endpoints; %s; no EDNS; podway's own generator, %d sockets, %d questions on their way\n%s, %s, podway and knot on processor %d, the rest on %d\n",
		o.cluster.Services, o.cluster.Endpoints, dnspeer.MixText, sockets, sockets*window, dnspeer.CoreDNSVersion(ctx, program), "kubeadm's Corefile", dnspeer.CPU(), dnspeer.LoadCPU())
	for n := range o.rounds {
		for _, p := range b.servers {
			if err := b.measure(ctx, p); err != nil {
				return fmt.Errorf("round %d: %s: %w", n+1, p.Name, err)
			}
		}
	}
	if o.scaling {
		if err := b.scale(ctx); err != nil {
			return err
		}
	}
	b.print()
	return nil
}

// start starts the servers and waits until each answers, one after the other.
func (b *bench) start(ctx context.Context, program, dir string) error {
	up, closer, err := dnspeer.Upstream()
	if err != nil {
		return err
	}
	context.AfterFunc(ctx, func() { closer.Close() })
	at := dnspeer.Alone(dnspeer.CPU())
	for _, begin := range []func() (*dnspeer.Process, error){
		func() (*dnspeer.Process, error) { return b.podway(ctx, at) },
		func() (*dnspeer.Process, error) { return dnspeer.StartCoreDNS(ctx, program, dir, at, b.api.URL(), up) },
		func() (*dnspeer.Process, error) { return dnspeer.StartKnot(ctx, dir, at, b.cluster) },
	} {
		p, err := begin()
		if err != nil {
			return err
		}
		b.servers = append(b.servers, p)
		b.of[p.Name] = &figures{}
		wait, cancel := context.WithTimeout(ctx, time.Minute)
		err = p.Await(wait, b.cluster.Questions(seed)[0])
		cancel()
		if err != nil {
			return err
		}
		p.Pause()
	}
	return nil
}

func (b *bench) podway(ctx context.Context, at dnspeer.Place) (*dnspeer.Process, error) {
	return dnspeer.StartPodway(ctx, at, b.api.URL(), b.profile)
}

func (b *bench) stop() {
	for _, p := range b.servers {
		p.Stop()
	}
}

// measure is one server's part of a round: as fast as it can, at a given rate, and as fast as it can under changes. The
// others stand still.
func (b *bench) measure(ctx context.Context, p *dnspeer.Process) error {
	p.Resume()
	defer p.Pause()
	time.Sleep(300 * time.Millisecond) // what changed while it stood still
	f := b.of[p.Name]
	fast, cpu, err := b.load(ctx, p, job{Window: window})
	if err != nil {
		return err
	}
	f.qps, f.cpu = append(f.qps, fast.QPS()), append(f.cpu, cpu)
	f.lost += fast.Lost
	paced, _, err := b.load(ctx, p, job{Rate: b.rate})
	if err != nil {
		return err
	}
	f.p50, f.p99 = append(f.p50, paced.P50), append(f.p99, paced.P99)
	f.lost += paced.Lost
	if p.Name == "knot" { // its zone is static
		return nil
	}
	stop := b.change(ctx)
	changing, cpu, err := b.load(ctx, p, job{Window: window})
	if e := stop(); err == nil {
		err = e
	}
	f.changing, f.changingCPU = append(f.changing, changing.QPS()), append(f.changingCPU, cpu)
	return err
}

// change changes Services until its result is called.
func (b *bench) change(ctx context.Context) (stop func() error) {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() {
		tick := time.NewTicker(time.Second / time.Duration(max(b.changes, 1)))
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				ended <- nil
				return
			case <-tick.C:
			}
			b.round++
			if err := b.api.Put(b.cluster.Service(b.round*7919%b.cluster.Services, b.round)); err != nil {
				ended <- err
				return
			}
		}
	}()
	return func() error { cancel(); return <-ended }
}

// job is what the generator is told.
type job struct {
	To           netip.AddrPort
	Cluster      dnspeer.Cluster
	Sockets      int
	Window, Rate int
	For          time.Duration
	First        uint64 // seed
}

const (
	sockets = 16
	window  = 32
)

// load runs the generator and returns what it saw and the server's processor time for each answer.
func (b *bench) load(ctx context.Context, p *dnspeer.Process, j job) (dnspeer.Seen, time.Duration, error) {
	return b.loadOn(ctx, p, j, dnspeer.Alone(dnspeer.LoadCPU()))
}

func (b *bench) loadOn(ctx context.Context, p *dnspeer.Process, j job, at dnspeer.Place) (dnspeer.Seen, time.Duration, error) {
	j.To, j.Cluster, j.Sockets, j.For, j.First = p.Addr, b.cluster, sockets, b.each, seed
	return p.Cost(ctx, j, at)
}

// generate is the generator's run.
func generate(o options) error {
	var j job
	if err := json.Unmarshal([]byte(o.generate), &j); err != nil {
		return err
	}
	return dnspeer.Report(dnspeer.Load{To: j.To, Questions: j.Cluster.Questions(j.First), Sockets: j.Sockets, Window: j.Window, Rate: j.Rate, For: j.For})
}
