package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/podway/podway/examples"
)

// SoakOptions are what a soak is asked for.
type SoakOptions struct {
	Podway    string // the podway program; echo and podway-lab are beside it
	Dir       string // of the lab; it must not hold a lab that somebody uses
	Mode      string // of the service proxy
	Requests  int    // over each path, each over a new connection
	Rate      int    // requests a second over each path, where the machine can
	KillEvery time.Duration
	Out       io.Writer
}

// ErrLost says that at least one request of a soak failed; how many of which was printed.
var ErrLost = errors.New("demo: requests failed")

const (
	soakNamespace = "soak"
	soakNodePort  = "30081"
	// underWay bounds the requests at a time over each path: a machine that is too slow for the rate sends more slowly, and
	// does not count its own queue as lost.
	underWay = 32
)

// Soak starts a cluster and sends requests through a ClusterIP, a node port and a load balancer address, while the servers
// behind them are replaced one after the other again and again and the node agents are killed without warning. It prints a
// table and a last line that begins with RESULT.
func Soak(ctx context.Context, o SoakOptions) (err error) {
	u := &user{podway: o.Podway, dir: o.Dir, out: o.Out}
	defer func() {
		ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), time.Minute) // also after ^C
		defer stop()
		down, e := u.run(ctx, nil, "down", "--delete")
		if e != nil {
			err = errors.Join(err, fmt.Errorf("%w: %s", e, down))
		}
	}()
	if err := u.show(ctx, "up", "--nodes", "2", "--proxy-mode", o.Mode); err != nil {
		return err
	}
	s, err := newSoak(ctx, u, o)
	if err != nil {
		return err
	}
	if err := s.run(ctx); err != nil {
		return err
	}
	return s.report()
}

// load is what the echo program's load says with -json; times are milliseconds.
type load struct {
	Requests int            `json:"requests"`
	Failed   int            `json:"failed"`
	Why      map[string]int `json:"reasons"`
	P50      float64        `json:"p50ms"`
	P99      float64        `json:"p99ms"`
	Max      float64        `json:"maxms"`
}

// soak is one soak of a cluster that runs.
type soak struct {
	user     *user
	options  SoakOptions
	nodes    map[string]int // pid of the kubelet
	paths    []soakPath
	reports  []load // of the paths
	rollouts int
	kills    map[string]int // of agents, by node
	away     time.Duration  // the longest time that a node was without an agent that had written its rules
	took     time.Duration
}

// soakPath is a way to the servers; ask runs the echo program's client with arguments.
type soakPath struct {
	name, url string
	ask       func(context.Context, ...string) (string, error)
}

// newSoak deploys servers and clients and learns their addresses.
func newSoak(ctx context.Context, u *user, o SoakOptions) (*soak, error) {
	s := &soak{user: u, options: o, kills: map[string]int{}}
	if _, err := u.kubectlIn(ctx, examples.Soak, "apply", "-f", "-"); err != nil {
		return nil, err
	}
	for _, what := range []string{"deployment/server", "daemonset/client"} {
		if _, err := s.kubectl(ctx, "rollout", "status", "--timeout=90s", what); err != nil {
			return nil, err
		}
	}
	var err error
	if s.nodes, err = u.kubelets(ctx); err != nil {
		return nil, err
	}
	ip, err := s.kubectl(ctx, "get", "service", "server", "-o", "jsonpath={.spec.clusterIP}")
	if err != nil {
		return nil, err
	}
	lb, err := (&world{user: u}).loadBalancerIP(ctx, soakNamespace, "server")
	if err != nil {
		return nil, err
	}
	node, err := u.kubectl(ctx, "get", "nodes", "-o", `jsonpath={.items[0].status.addresses[?(@.type=="InternalIP")].address}`)
	if err != nil {
		return nil, err
	}
	inPod := func(ctx context.Context, args ...string) (string, error) {
		return s.kubectl(ctx, append([]string{"exec", "daemonset/client", "--", "/echo"}, args...)...)
	}
	outside := func(ctx context.Context, args ...string) (string, error) { return u.from(ctx, "client", args...) }
	s.paths = []soakPath{
		{"Pod -> ClusterIP", "http://" + ip + "/", inPod},
		{"outside -> NodePort", "http://" + node + ":" + soakNodePort + "/", outside},
		{"outside -> LoadBalancer address", "http://" + lb + "/", outside},
	}
	return s, nil
}

func (s *soak) kubectl(ctx context.Context, args ...string) (string, error) {
	return s.user.kubectl(ctx, append([]string{"-n", soakNamespace}, args...)...)
}

// run sends all requests while servers are replaced and agents killed.
func (s *soak) run(ctx context.Context) error {
	for _, p := range s.paths {
		if err := s.answers(ctx, p); err != nil {
			return err
		}
	}
	if err := s.user.expectMode(ctx, s.options.Mode); err != nil {
		return err
	}
	start := time.Now()
	under, stop := context.WithCancel(ctx)
	defer stop()
	trouble, away := make(chan error, 2), make(chan time.Duration)
	go func() { trouble <- s.replace(under) }()
	go func() { trouble <- s.kill(under) }()
	for _, kubelet := range s.nodes {
		go func() { away <- absence(under, kubelet) }()
	}
	err := s.load(ctx)
	s.took = time.Since(start)
	stop()
	err = errors.Join(err, <-trouble, <-trouble)
	for range s.nodes {
		s.away = max(s.away, <-away)
	}
	if err != nil {
		return err
	}
	if _, err := s.user.kubectl(ctx, "-n", "kube-system", "rollout", "status", "daemonset/podway-node", "--timeout=60s"); err != nil {
		return err
	}
	return s.user.expectMode(ctx, s.options.Mode)
}

// answers waits until a path answers: a load balancer address takes a moment to be announced.
func (s *soak) answers(ctx context.Context, p soakPath) (err error) {
	for deadline := time.Now().Add(20 * time.Second); ; {
		if _, err = p.ask(ctx, "get", p.url); err == nil || time.Now().After(deadline) || ctx.Err() != nil {
			return err
		}
		time.Sleep(200 * time.Millisecond)
	}
}

// load sends the requests over all paths at the same time.
func (s *soak) load(ctx context.Context) error {
	s.reports = make([]load, len(s.paths))
	errs := make(chan error, len(s.paths))
	for i, p := range s.paths {
		go func() {
			out, err := p.ask(ctx, "load", "-json", "-new", "-rate", strconv.Itoa(s.options.Rate), "-n", strconv.Itoa(s.options.Requests),
				"-most", strconv.Itoa(underWay), p.url)
			if e := json.Unmarshal([]byte(out), &s.reports[i]); e != nil {
				errs <- fmt.Errorf("demo: %s: no report: %w: %w", p.name, e, err)
				return
			}
			errs <- nil
		}()
	}
	var err error
	for range s.paths {
		err = errors.Join(err, <-errs)
	}
	return err
}

// replace replaces the servers one after the other until ctx ends, and finishes what it began.
func (s *soak) replace(ctx context.Context) error {
	for ; ctx.Err() == nil; s.rollouts++ {
		whole := context.WithoutCancel(ctx)
		if _, err := s.kubectl(whole, "rollout", "restart", "deployment/server"); err != nil {
			return err
		}
		if _, err := s.kubectl(whole, "rollout", "status", "deployment/server", "--timeout=180s"); err != nil {
			return err
		}
	}
	return nil
}

// kill ends the agents of all nodes at the same time, as often as asked for. One that has not come up since is left until the
// next time: on a slow machine none would ever write a rule, and servers that are gone would stay in all of them.
func (s *soak) kill(ctx context.Context) error {
	tick := time.NewTicker(s.options.KillEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		running, err := agents(s.nodes)
		if err != nil {
			return err
		}
		for node, p := range running {
			if inForce(s.nodes[node]) == nil && p.Kill() == nil { // SIGKILL
				s.kills[node]++
			}
		}
	}
}

// report prints what became of the requests.
func (s *soak) report() error {
	sent, failed := 0, 0
	s.user.say("\n%-10s %-34s %9s %7s %8s %8s %9s", "mode", "path", "requests", "failed", "p50 ms", "p99 ms", "max ms")
	for i, p := range s.paths {
		r := s.reports[i]
		s.user.say("%-10s %-34s %9d %7d %8.2f %8.2f %9.2f", s.options.Mode, p.name, r.Requests, r.Failed, r.P50, r.P99, r.Max)
		for _, why := range slices.Sorted(maps.Keys(r.Why)) {
			s.user.say("%-10s %-34s %9s %7d %s", "", "", "", r.Why[why], why)
		}
		sent, failed = sent+r.Requests, failed+r.Failed
	}
	var kills []string
	for _, node := range slices.Sorted(maps.Keys(s.nodes)) {
		kills = append(kills, fmt.Sprintf("%s:%d", node, s.kills[node]))
	}
	s.user.say("RESULT soak mode=%s requests=%d failed=%d rollouts=%d agents_killed=%s longest_away_s=%.1f seconds=%.0f", s.options.Mode,
		sent, failed, s.rollouts, strings.Join(kills, ","), s.away.Seconds(), s.took.Seconds())
	if failed > 0 {
		return ErrLost
	}
	if want := s.options.Requests * len(s.paths); sent != want {
		return fmt.Errorf("demo: %d requests were sent, want %d", sent, want)
	}
	return nil
}
