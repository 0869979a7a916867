package oracle

import (
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/podway/podway/internal/scenario"
)

// Options say what is compared with what, and on which cases.
type Options struct {
	Podway, Peer scenario.KernelOptions
	PeerName     string
	Seed         uint64
	First, Cases int      // the cases First, First+1, ...
	Replay       []string // scenario files to play in place of generated cases
	AtOnce       int      // cases at the same time
	Dir          string   // where scenarios of unexplained differences are written
	Shrink       bool
	Share        int // percent of the questions that are asked, chosen by chance; cases that are made small ask all
}

// Summary is what a run found.
type Summary struct {
	Cases, States, Questions, Connections int
	Explained                             map[string]int
	Unexplained, Errors                   int
	Lost                                  int // cases that lost packets once and not again: a busy machine
}

// String is the last line of a run.
func (s *Summary) String() string {
	text := fmt.Sprintf("%d cases, %d states, %d questions, %d connections: %d unexplained differences, %d errors", s.Cases, s.States, s.Questions, s.Connections, s.Unexplained, s.Errors)
	if s.Lost > 0 {
		text += fmt.Sprintf(", %d cases lost packets once", s.Lost)
	}
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(s.Explained)) {
		parts = append(parts, fmt.Sprintf("%s %d", k, s.Explained[k]))
	}
	if len(parts) > 0 {
		text += "; on purpose: " + strings.Join(parts, ", ")
	}
	return text
}

// Good reports whether nothing is unexplained.
func (s *Summary) Good() bool { return s.Unexplained+s.Errors == 0 && s.Cases > 0 }

// runner plays cases on several pairs of worlds.
type runner struct {
	Options
	out io.Writer

	mu    sync.Mutex
	sum   Summary
	begun time.Time
}

// Run plays the cases and prints what differs, then what differences on purpose did not occur, then the Summary alone on
// the last line.
func Run(ctx context.Context, out io.Writer, o Options) (*Summary, error) {
	r := &runner{Options: o, out: out, sum: Summary{Explained: map[string]int{}}, begun: time.Now()}
	cases, err := o.cases()
	if err != nil {
		return nil, err
	}
	queue := make(chan *Case)
	var running sync.WaitGroup
	errs := make([]error, max(1, o.AtOnce))
	for i := range errs {
		running.Go(func() { errs[i] = r.work(ctx, queue) })
	}
	go func() {
		defer close(queue)
		for c := range cases {
			select {
			case queue <- c:
			case <-ctx.Done():
				return
			}
		}
	}()
	running.Wait()
	for range queue { // all workers may have ended early
	}
	for _, err := range errs {
		if err != nil {
			return &r.sum, err
		}
	}
	r.unseen()
	fmt.Fprintln(out, &r.sum)
	return &r.sum, ctx.Err()
}

// cases are the generated ones or those of the files.
func (o *Options) cases() (func(func(*Case) bool), error) {
	if len(o.Replay) == 0 {
		return func(yield func(*Case) bool) {
			for i := range o.Cases {
				if !yield(Generate(o.Seed, o.First+i)) {
					return
				}
			}
		}, nil
	}
	var all []*Case
	for _, path := range o.Replay {
		c, err := load(path)
		if err != nil {
			return nil, err
		}
		all = append(all, c)
	}
	return slices.Values(all), nil
}

// work plays cases on one pair of worlds until there are no more.
func (r *runner) work(ctx context.Context, queue <-chan *Case) error {
	var p *pair
	defer func() {
		if p != nil {
			_ = p.close()
		}
	}()
	for c := range queue {
		if ctx.Err() != nil {
			return nil
		}
		var err error
		if p == nil {
			if p, err = openPair(r.Podway, r.Peer, r.Share); err != nil {
				p = nil
				return err
			}
		}
		o, err := p.run(ctx, c)
		if ctx.Err() != nil {
			return nil
		}
		wrong := err != nil || len(o.unexplained()) > 0
		if wrong || c.raw != nil { // whatever is wrong must not go on
			_ = p.close()
			p = nil
		}
		if wrong && err == nil {
			o = r.again(ctx, c, o)
		}
		r.report(ctx, c, o, err)
	}
	return nil
}

// again plays a case in fresh worlds when all that differed were packets that were lost on one side. If nothing differs
// then, the machine was busy.
func (r *runner) again(ctx context.Context, c *Case, o *Outcome) *Outcome {
	for _, f := range o.unexplained() {
		if !strings.Contains(f.Podway+f.Peer, "dropped") {
			return o
		}
	}
	p, err := openPair(r.Podway, r.Peer, r.Share)
	if err != nil {
		return o
	}
	defer p.close()
	later, err := p.run(ctx, c)
	if err != nil || len(later.unexplained()) > 0 {
		return o
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sum.Lost++
	fmt.Fprintf(r.out, "LOST %s: not seen again: %s\n", c.Name, o.unexplained()[0])
	return later
}

// report counts what a case found, and tells what nobody expects.
func (r *runner) report(ctx context.Context, c *Case, o *Outcome, err error) {
	var bad []Finding
	small := c
	if o != nil {
		bad = o.unexplained()
	}
	if len(bad) > 0 && r.Shrink && c.raw == nil {
		small, bad = r.small(ctx, c, bad)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sum.Cases++
	if o != nil {
		r.sum.States, r.sum.Questions, r.sum.Connections = r.sum.States+o.States, r.sum.Questions+o.Questions, r.sum.Connections+o.Connections
		for _, f := range o.Findings {
			if f.Rule != "" {
				r.sum.Explained[f.Rule]++
			}
		}
		r.sum.Unexplained += len(o.unexplained())
	}
	if err != nil {
		r.sum.Errors++
		fmt.Fprintf(r.out, "ERROR %s: %v\n", c.Name, err)
	}
	if len(bad) > 0 {
		r.tell(small, bad)
	}
	if r.sum.Cases%25 == 0 {
		fmt.Fprintf(r.out, "# %s after %s\n", &r.sum, time.Since(r.begun).Round(time.Second))
	}
}

// most findings of one case that are printed.
const mostPrinted = 8

// tell prints findings and writes the scenario.
func (r *runner) tell(c *Case, bad []Finding) {
	fmt.Fprintf(r.out, "DIFFERENT %s\n", c.Name)
	for i, f := range bad {
		if i == mostPrinted {
			fmt.Fprintf(r.out, "  and %d more\n", len(bad)-i)
			break
		}
		fmt.Fprintf(r.out, "  %s\n", f)
	}
	for _, f := range bad {
		if s := &c.Steps[min(f.Step, len(c.Steps)-1)]; f.want != "" && len(s.Expect) < 20 {
			s.Expect = append(slices.Clone(s.Expect), f.want)
		}
	}
	c.About = fmt.Sprintf("%s\nThe lines say what %s does.", c.About, r.PeerName)
	path := filepath.Join(r.Dir, c.Name+".txtar")
	err := os.MkdirAll(r.Dir, 0o755)
	if err == nil {
		err = os.WriteFile(path, c.Text(), 0o644)
	}
	if err != nil {
		fmt.Fprintf(r.out, "  the scenario could not be written: %v\n", err)
		return
	}
	fmt.Fprintf(r.out, "  scenario: %s\n", path)
}

// small makes the case smaller as long as one of its findings is among the new ones.
func (r *runner) small(ctx context.Context, c *Case, bad []Finding) (*Case, []Finding) {
	alike := func(a, b Finding) bool {
		return a.Probe.String() == b.Probe.String() && a.Podway == b.Podway && a.Peer == b.Peer
	}
	found := bad
	last := bad[0].Step // later steps cannot matter
	c = c.clone()
	c.Steps = c.Steps[:last+1]
	small := shrink(ctx, c, func(ctx context.Context, x *Case) bool {
		p, err := openPair(r.Podway, r.Peer, 100)
		if err != nil {
			return false
		}
		defer p.close()
		o, err := p.run(ctx, x)
		if err != nil || o == nil {
			return false
		}
		now := o.unexplained()
		if slices.ContainsFunc(now, func(f Finding) bool { return alike(f, bad[0]) }) {
			found = now
			return true
		}
		return false
	})
	return small, found
}

// unseen says which differences on purpose did not occur, so that the list does not outlive its reasons.
func (r *runner) unseen() {
	for _, d := range Differences() {
		if r.sum.Explained[d.Key] == 0 && len(r.Replay) == 0 && d.may(modesOf(r.Podway, r.Peer)) {
			fmt.Fprintf(r.out, "NEVER SEEN %s: a difference of the list that no case showed\n", d.Key)
		}
	}
}
