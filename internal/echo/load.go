package echo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"
)

// loadReport is what load found.
type loadReport struct {
	Requests int            `json:"requests"`
	Failed   int            `json:"failed"`
	Reasons  map[string]int `json:"reasons,omitempty"` // of failures
	Pods     map[string]int `json:"pods"`              // who answered
	Seconds  float64        `json:"seconds"`
	P50      float64        `json:"p50ms"`
	P99      float64        `json:"p99ms"`
	Max      float64        `json:"maxms"`
}

// pace is how requests are sent.
type pace struct {
	length time.Duration // how long, unless count says how many
	count  int
	rate   int // a second
	most   int // under way at a time; 0 = each is sent whether or not those before it were answered
}

// over reports whether the i-th request, due then, is not sent any more.
func (p pace) over(i int, due time.Duration) bool {
	if p.count > 0 {
		return i >= p.count
	}
	return due >= p.length
}

// load sends requests at a fixed rate, or more slowly where -most holds it back.
func load(ctx context.Context, c *call) error {
	var f httpFlags
	f.add(c.flags)
	var p pace
	c.flags.DurationVar(&p.length, "for", 10*time.Second, "how long")
	c.flags.IntVar(&p.count, "n", 0, "how many requests, in the place of -for")
	c.flags.IntVar(&p.rate, "rate", 200, "requests a second")
	c.flags.IntVar(&p.most, "most", 0, "requests under way at a time (default: no limit)")
	asJSON := c.flags.Bool("json", false, "print the report as JSON")
	args, err := c.parse(1, 1)
	if err != nil {
		return err
	}
	if p.rate < 1 || p.count < 0 || p.most < 0 {
		return usageError{errors.New("-rate is less than 1, or -n or -most less than 0")}
	}
	client, err := f.client()
	if err != nil {
		return err
	}
	if _, err := f.request(ctx, args[0]); err != nil {
		return err
	}
	r := runLoad(ctx, p, func() (string, error) {
		req, err := f.request(context.WithoutCancel(ctx), args[0])
		if err != nil {
			return "", err
		}
		return loadOne(client, req)
	})
	if *asJSON {
		err = json.NewEncoder(c.out).Encode(r)
	} else {
		r.print(c.out)
	}
	if err == nil && r.Failed > 0 {
		err = fmt.Errorf("%d of %d requests failed", r.Failed, r.Requests)
	}
	return err
}

// loadOne sends one request, reads all of its answer and returns the Pod that gave it.
func loadOne(client *http.Client, r *http.Request) (string, error) {
	resp, err := client.Do(r)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return "", fmt.Errorf("body cut short: %w", err)
	}
	if resp.StatusCode >= 400 {
		return "", errStatus(resp.StatusCode)
	}
	return resp.Header.Get(PodHeader), nil
}

type errStatus int

func (e errStatus) Error() string { return fmt.Sprintf("status %d", int(e)) }

// runLoad starts one request after the other at the rate and collects how they ended.
func runLoad(ctx context.Context, p pace, one func() (string, error)) loadReport {
	r := loadReport{Reasons: map[string]int{}, Pods: map[string]int{}}
	var mu sync.Mutex
	var wg sync.WaitGroup
	var took []time.Duration
	room := make(chan struct{}, max(p.most, 1))
	start := time.Now()
	for i := 0; ; i++ {
		due := time.Duration(i) * time.Second / time.Duration(p.rate)
		if p.over(i, due) || !pause(ctx, due-time.Since(start)) {
			break
		}
		if p.most > 0 {
			room <- struct{}{}
		}
		wg.Go(func() {
			if p.most > 0 {
				defer func() { <-room }()
			}
			began := time.Now()
			pod, err := one()
			mu.Lock()
			defer mu.Unlock()
			r.Requests++
			took = append(took, time.Since(began))
			if err != nil {
				r.Failed++
				r.Reasons[reason(err)]++
				return
			}
			r.Pods[pod]++
		})
	}
	wg.Wait()
	r.Seconds = time.Since(start).Seconds()
	slices.Sort(took)
	if n := len(took); n > 0 {
		ms := func(i int) float64 { return float64(took[i].Microseconds()) / 1000 }
		r.P50, r.P99, r.Max = ms(n/2), ms(n*99/100), ms(n-1)
	}
	return r
}

// reason is a failure without addresses, so that like ones count together.
func reason(err error) string {
	var status errStatus
	var dnsErr *net.DNSError
	switch {
	case errors.As(err, &status):
		return status.Error()
	case errors.As(err, &dnsErr):
		return "name: " + dnsErr.Err
	case errors.Is(err, syscall.ECONNREFUSED):
		return "connection refused"
	case errors.Is(err, syscall.ECONNRESET):
		return "connection reset"
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return "unreachable"
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, context.DeadlineExceeded):
		return "timeout"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "connection closed"
	}
	for inner := errors.Unwrap(err); inner != nil; inner = errors.Unwrap(err) {
		err = inner
	}
	return err.Error()
}

func (r loadReport) print(out io.Writer) {
	fmt.Fprintf(out, "%d requests in %.1f s, %d failed; p50 %.2f ms, p99 %.2f ms, max %.2f ms\n", r.Requests, r.Seconds, r.Failed, r.P50, r.P99, r.Max)
	for _, m := range []struct {
		what string
		of   map[string]int
	}{{"failed", r.Reasons}, {"pod", r.Pods}} {
		var keys []string
		for k := range m.of {
			keys = append(keys, k)
		}
		slices.Sort(keys)
		for _, k := range keys {
			fmt.Fprintf(out, "%-6s %6d  %s\n", m.what, m.of[k], k)
		}
	}
}
