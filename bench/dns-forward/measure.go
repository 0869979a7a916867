package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/podway/podway/bench/dnspeer"
)

// figures are one server's, a value for each round.
type figures struct {
	qps, cpu map[string][]float64 // by mix; microseconds for each answer
	p50, p99 []float64            // microseconds
	lost     int
}

// mixes are the lists of questions, in the order of the table.
var mixes = []string{"uniform", "zipf"}

// bench is the servers under measurement.
type bench struct {
	options
	servers []*dnspeer.Process
	of      map[string]*figures
}

func measure(ctx context.Context, o options) error {
	p := &peers{options: o}
	if o.coredns {
		root, err := dnspeer.Root()
		if err != nil {
			return err
		}
		fmt.Println("building CoreDNS (a minute the first time)")
		if p.coredns, err = dnspeer.Build(ctx, root); err != nil {
			return err
		}
	}
	var err error
	if p.dir, err = os.MkdirTemp("", "bench-dns-forward-"); err != nil {
		return err
	}
	defer os.RemoveAll(p.dir)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if p.world, err = serveWorld(ctx); err != nil {
		return err
	}
	b := &bench{options: o, of: map[string]*figures{}}
	defer func() {
		for _, s := range b.servers {
			s.Stop()
		}
	}()
	if err := b.start(ctx, p); err != nil {
		return err
	}
	fmt.Printf("%d names, all known: %s; no EDNS; podway's own generator, %d questions on their way over %d sockets; servers on processor %d, the rest on %d\n",
		o.names, kindsText, sockets*window, sockets, dnspeer.CPU(), dnspeer.LoadCPU())
	for n := range o.rounds {
		for _, s := range b.servers {
			if err := b.measure(ctx, s); err != nil {
				return fmt.Errorf("round %d: %s: %w", n+1, s.Name, err)
			}
		}
	}
	b.print()
	return nil
}

// start starts the servers and has each of them asked for every name, one after the other.
func (b *bench) start(ctx context.Context, p *peers) error {
	begin := []func(context.Context, netip.AddrPort) (*dnspeer.Process, error){p.podway, p.unbound}
	if b.coredns {
		begin = append(begin, p.core)
	}
	for _, f := range begin {
		addr, err := dnspeer.FreePort()
		if err != nil {
			return err
		}
		s, err := f(ctx, addr)
		if err != nil {
			return err
		}
		b.servers = append(b.servers, s)
		b.of[s.Name] = &figures{qps: map[string][]float64{}, cpu: map[string][]float64{}}
		wait, cancel := context.WithTimeout(ctx, time.Minute)
		err = s.Await(wait, questionOf(0))
		cancel()
		if err != nil {
			return err
		}
		if err := b.warm(ctx, s); err != nil {
			return err
		}
		s.Pause()
	}
	return nil
}

// warm asks for every name until all are answered rightly: what is asked at once while nothing is known may fail.
func (b *bench) warm(ctx context.Context, p *dnspeer.Process) error {
	const rate = 2500
	j := job{To: p.Addr, Names: b.names, Mix: "each", Rate: rate, For: time.Duration(b.names)*time.Second/rate + time.Second}
	for range 10 {
		if s, err := dnspeer.Generate(ctx, j, dnspeer.Alone(dnspeer.LoadCPU())); err != nil || s.Wrong == 0 && s.Lost == 0 {
			return err
		}
	}
	return fmt.Errorf("%s does not answer for all names\n%s", p.Name, p.Log())
}

// measure is one server's part of a round: as fast as it can with each mix, then at a given rate. The others stand still.
func (b *bench) measure(ctx context.Context, p *dnspeer.Process) error {
	p.Resume()
	defer p.Pause()
	time.Sleep(200 * time.Millisecond)
	f := b.of[p.Name]
	for _, mix := range mixes {
		fast, cpu, err := b.load(ctx, p, job{Mix: mix, Window: window, For: b.each})
		if err != nil {
			return err
		}
		f.qps[mix] = append(f.qps[mix], fast.QPS())
		f.cpu[mix] = append(f.cpu[mix], float64(cpu)/1e3)
		f.lost += fast.Lost
	}
	paced, _, err := b.load(ctx, p, job{Mix: "uniform", Rate: b.rate, For: b.each})
	if err != nil {
		return err
	}
	f.p50, f.p99 = append(f.p50, micros(paced.P50)), append(f.p99, micros(paced.P99))
	f.lost += paced.Lost
	return nil
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// job is what the generator is told.
type job struct {
	To           netip.AddrPort
	Mix          string
	Names        int
	Window, Rate int
	For          time.Duration
}

func (j job) questions() []dnspeer.Question {
	switch j.Mix {
	case "uniform":
		return uniform(j.Names)
	case "zipf":
		return zipf(j.Names)
	}
	return each(j.Names)
}

const (
	sockets = 16
	window  = 32
)

// load runs the generator and returns what it saw and the server's processor time for each answer.
func (b *bench) load(ctx context.Context, p *dnspeer.Process, j job) (dnspeer.Seen, time.Duration, error) {
	j.To, j.Names = p.Addr, b.names
	return p.Cost(ctx, j, dnspeer.Alone(dnspeer.LoadCPU()))
}

// generate is the generator's run.
func generate(o options) error {
	var j job
	if err := json.Unmarshal([]byte(o.generate), &j); err != nil {
		return err
	}
	n := sockets
	if j.Mix == "each" {
		n = 1 // so that IDs, and with them names, come in their order
	}
	return dnspeer.Report(dnspeer.Load{To: j.To, Questions: j.questions(), Sockets: n, Window: j.Window, Rate: j.Rate, For: j.For})
}

func median(in []float64) float64 {
	s := slices.Sorted(slices.Values(in))
	return s[len(s)/2]
}

func (b *bench) print() {
	fmt.Printf("%-8s %12s %12s %12s %12s %9s %9s %6s\n", "", "q/s uniform", "CPU us/q", "q/s zipf", "CPU us/q", "p50 us", "p99 us", "lost")
	for _, s := range b.servers {
		f := b.of[s.Name]
		fmt.Printf("%-8s %12.0f %12.2f %12.0f %12.2f %9.0f %9.0f %6d\n", s.Name, median(f.qps["uniform"]), median(f.cpu["uniform"]),
			median(f.qps["zipf"]), median(f.cpu["zipf"]), median(f.p50), median(f.p99), f.lost)
	}
	fmt.Printf("p50 and p99 at %d questions a second\n", b.rate)
	ours := b.of["podway"]
	fmt.Print("RESULT")
	for _, s := range b.servers[1:] {
		name, f := strings.ToLower(s.Name), b.of[s.Name]
		// the worse of the two mixes
		qps, cpu := 1e9, 1e9
		for _, mix := range mixes {
			qps = min(qps, median(ours.qps[mix])/median(f.qps[mix]))
			cpu = min(cpu, median(f.cpu[mix])/median(ours.cpu[mix]))
		}
		fmt.Printf(" qps_vs_%s=%.2f cpu_vs_%s=%.2f p50_vs_%s=%.2f p99_vs_%s=%.2f", name, qps, name, cpu, name, median(ours.p50)/median(f.p50), name, median(ours.p99)/median(f.p99))
	}
	fmt.Println()
}
