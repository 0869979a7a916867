package scenario

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
)

// World is a scenario's cluster at one level.
type World interface {
	// Step brings the world to the state of f.Steps[i]; steps come in order.
	Step(ctx context.Context, f *File, i int) error
	// Ask finds out what an expectation asks for. It may be called from several goroutines.
	Ask(ctx context.Context, st *State, a Ask, want Outcome) Outcome
	// Close takes the world down.
	Close() error
}

// Maker makes an empty World for each scenario.
type Maker func(ctx context.Context) (World, error)

// Result is one expectation that was checked.
type Result struct {
	File string
	Expectation
	Got Outcome
	OK  bool
}

// String is the line that the runner prints.
func (r Result) String() string {
	if r.OK {
		return fmt.Sprintf("ok   %s:%d  %s", r.File, r.Line, r.Text)
	}
	return fmt.Sprintf("FAIL %s:%d  %s: got %s, want %s", r.File, r.Line, r.Text, r.Got, r.Want)
}

// Summary counts what ran.
type Summary struct{ Passed, Failed int }

// String is the last line that the runner prints.
func (s Summary) String() string { return fmt.Sprintf("%d passed, %d failed", s.Passed, s.Failed) }

// Run checks every expectation of a file at a level, in order, and hands each result to report. An error means that the
// world could not be made or brought to a state; what was to be checked there counts as failed.
func Run(ctx context.Context, f *File, l Level, makeWorld Maker, report func(Result)) (Summary, error) {
	var sum Summary
	w, err := makeWorld(ctx)
	if err != nil {
		return sum, fmt.Errorf("scenario: %s: make the world: %w", f.Name, err)
	}
	defer w.Close()
	for i := range f.Steps {
		results, err := runStep(ctx, w, f, i, l)
		for _, r := range results {
			if r.OK {
				sum.Passed++
			} else {
				sum.Failed++
			}
			report(r)
		}
		if err != nil {
			return sum, err
		}
	}
	return sum, nil
}

// probesAtOnce bounds the questions asked at the same time: most of them wait for a silence to end.
const probesAtOnce = 16

func runStep(ctx context.Context, w World, f *File, i int, l Level) ([]Result, error) {
	step := &f.Steps[i]
	var results []Result
	mode := ""
	if m, ok := w.(interface{ ProxyMode() string }); ok {
		mode = m.ProxyMode()
	}
	for _, e := range step.Expect {
		if e.At(l) && e.In(mode) {
			results = append(results, Result{File: f.Name, Expectation: e})
		}
	}
	if err := w.Step(ctx, f, i); err != nil {
		for k := range results {
			results[k].Got = Outcome{Result: "error", Detail: err.Error()}
		}
		return results, fmt.Errorf("scenario: %s: %s: %w", f.Name, step.Name, err)
	}
	var all sync.WaitGroup
	slots := make(chan struct{}, probesAtOnce)
	for k := range results {
		r := &results[k]
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			r.Got = w.Ask(ctx, step.State, r.Ask, r.Want)
			r.OK = r.Want.Matches(r.Got)
		})
	}
	all.Wait()
	return results, nil
}

// Options of RunAll.
type Options struct {
	Level    Level
	World    Maker
	AtOnce   int  // files at the same time; 0 = one
	Timings  bool // print how long each file took
	Failures bool // print only what failed
}

// RunAll runs files, prints their results in the order of the files, then the summary alone on the last line. It reports
// whether all passed.
func RunAll(ctx context.Context, out io.Writer, files []*File, o Options) bool {
	texts, sums := make([]chan string, len(files)), make([]Summary, len(files))
	slots := make(chan struct{}, max(1, o.AtOnce))
	var all sync.WaitGroup
	for i := range files {
		texts[i] = make(chan string, 1)
	}
	all.Go(func() {
		for i, f := range files {
			slots <- struct{}{}
			all.Go(func() {
				defer func() { <-slots }()
				var text string
				text, sums[i] = o.file(ctx, f)
				texts[i] <- text
			})
		}
	})
	var total Summary
	for i := range files {
		fmt.Fprint(out, <-texts[i])
		total.Passed, total.Failed = total.Passed+sums[i].Passed, total.Failed+sums[i].Failed
	}
	all.Wait()
	fmt.Fprintln(out, total)
	return total.Failed == 0 && ctx.Err() == nil
}

// file runs one file and returns what is to be printed.
func (o Options) file(ctx context.Context, f *File) (string, Summary) {
	if ctx.Err() != nil {
		return "", Summary{}
	}
	var b strings.Builder
	start := time.Now()
	sum, err := Run(ctx, f, o.Level, o.World, func(r Result) {
		if !r.OK || !o.Failures {
			fmt.Fprintln(&b, r)
		}
	})
	if err != nil {
		fmt.Fprintf(&b, "FAIL %v\n", err)
		sum.Failed = max(1, sum.Failed)
	}
	if o.Timings {
		fmt.Fprintf(&b, "#    %s at level %s took %s\n", f.Name, o.Level, time.Since(start).Round(time.Millisecond))
	}
	return b.String(), sum
}
