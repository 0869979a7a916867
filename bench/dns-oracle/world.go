package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"os"
	"sync/atomic"
	"time"

	"github.com/miekg/dns"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/podway/podway/bench/apiserver"
	"github.com/podway/podway/bench/dnspeer"
	"github.com/podway/podway/internal/cluster"
	hop "github.com/podway/podway/internal/hop/dns"
	"github.com/podway/podway/internal/model"
)

// world is both servers and what they watch.
type world struct {
	dir   string
	api   *apiserver.Server
	core  *dnspeer.Process
	ours  *hop.Hop
	names io.Closer // the world's own server
	up    netip.AddrPort
	last  atomic.Pointer[model.Snapshot]
	have  []runtime.Object // of the last case
	mark  int
	stop  context.CancelFunc
}

// open starts an API server without objects, and both servers on it.
func open(ctx context.Context, o options) (w *world, err error) {
	ctx, stop := context.WithCancel(ctx)
	w = &world{stop: stop}
	defer func() {
		if err != nil {
			w.close()
		}
	}()
	program := o.program
	if program == "" {
		root, err := dnspeer.Root()
		if err != nil {
			return w, err
		}
		if program, err = dnspeer.Build(ctx, root); err != nil {
			return w, err
		}
	}
	if w.dir, err = os.MkdirTemp("", "dns-oracle-"); err != nil {
		return w, err
	}
	if w.api, err = apiserver.Start("127.0.0.1:0"); err != nil {
		return w, err
	}
	if w.up, w.names, err = internet(); err != nil {
		return w, err
	}
	c := dnspeer.Corefile{API: w.api.URL(), Upstream: w.up, Pods: o.pods, NoCache: true}
	for _, a := range []*netip.AddrPort{&c.Listen, &c.Metrics, &c.Health, &c.Ready} {
		if *a, err = dnspeer.FreePort(); err != nil {
			return w, err
		}
	}
	if w.core, err = dnspeer.StartCorefile(ctx, program, w.dir, dnspeer.Place{}, c.Listen, c.Text()); err != nil {
		return w, err
	}
	return w, w.podway(ctx, o)
}

// podway starts podway's server in this process, fed as on a node.
func (w *world) podway(ctx context.Context, o options) (err error) {
	addr, err := dnspeer.FreePort()
	if err != nil {
		return err
	}
	w.ours, err = hop.New(hop.Options{Listen: []netip.AddrPort{addr}, Upstreams: []netip.AddrPort{w.up}, CIDRs: ranges, TTL: 30,
		PodRecords: o.pods != "disabled", PodsChecked: o.pods == "verified"})
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(&rest.Config{Host: w.api.URL(), QPS: -1})
	if err != nil {
		return err
	}
	watcher := &cluster.Watcher{Clients: cluster.Clients{Typed: client}, Log: slog.Default(),
		Kinds: []cluster.Kind{cluster.Services, cluster.EndpointSlices, cluster.Pods}}
	go func() {
		var have *model.Snapshot
		_ = watcher.Run(ctx, func(s *model.Snapshot) {
			if _, err := w.ours.Apply(ctx, s, model.Diff(have, s)); err != nil {
				slog.Error("dns", "err", err)
			}
			have = s
			w.last.Store(s)
		})
	}()
	return nil
}

var ranges = []netip.Prefix{netip.MustParsePrefix("10.96.0.0/12"), netip.MustParsePrefix("10.244.0.0/15"),
	netip.MustParsePrefix("fd00:10:96::/112"), netip.MustParsePrefix("fd00:10:244::/64")}

// internet is a server that knows one name.
func internet() (netip.AddrPort, io.Closer, error) {
	return dnspeer.UpstreamFunc(func(q dns.Question) []dns.RR {
		if dns.CanonicalName(q.Name) != "www.example.com." && dns.CanonicalName(q.Name) != "mixed.example.com." || q.Qtype != dns.TypeA {
			return nil
		}
		return []dns.RR{&dns.A{Hdr: dns.RR_Header{Name: q.Name, Rrtype: dns.TypeA, Class: dns.ClassINET, Ttl: 60}, A: []byte{192, 0, 2, 80}}}
	})
}

func (w *world) close() {
	w.stop()
	if w.ours != nil {
		_ = w.ours.Remove(context.Background())
	}
	if w.core != nil {
		w.core.Stop()
	}
	if w.names != nil {
		w.names.Close()
	}
	if w.api != nil {
		w.api.Close()
	}
	if w.dir != "" {
		os.RemoveAll(w.dir)
	}
}

// play puts the objects of a case in the place of the last one's and asks.
func (w *world) play(ctx context.Context, o options, number int, t *tally) error {
	s := random(newRand(o.seed, number))
	next := s.objects()
	if err := w.api.Delete(w.have...); err != nil {
		return err
	}
	if err := w.api.Put(next...); err != nil {
		return err
	}
	w.have = next
	if err := w.settle(ctx); err != nil {
		return err
	}
	for range o.questions {
		q := s.question()
		t.questions++
		core, err := ask(ctx, w.core.Addr.String(), q)
		if err != nil {
			return fmt.Errorf("CoreDNS, %s: %w\n%s", q, err, w.core.Log())
		}
		our, err := ask(ctx, w.ours.Addrs()[0].String(), q)
		if err != nil {
			return fmt.Errorf("podway, %s: %w", q, err)
		}
		if core.equal(our) {
			continue
		}
		if key := explain(s, q, core, our); key != "" {
			t.known[key]++
			continue
		}
		if t.unexplained++; t.unexplained <= o.show {
			fmt.Printf("case %d: %s\n  CoreDNS %s\n  podway  %s\n%s", number, q, core, our, describe(q))
		}
	}
	return nil
}

// settle waits until both have seen all: a marker of each kind is put last, and watches keep their order.
func (w *world) settle(ctx context.Context) error {
	w.mark++
	name := fmt.Sprint("mark-", w.mark)
	ip := fmt.Sprintf("10.245.254.%d", 1+w.mark%250)
	ready := true
	marks := []runtime.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "mark"}},
		&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "mark", Name: name}, Spec: corev1.ServiceSpec{ClusterIP: "None", ClusterIPs: []string{"None"}}},
		&discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: "mark", Name: name, Labels: map[string]string{discoveryv1.LabelServiceName: name}},
			AddressType: discoveryv1.AddressTypeIPv4, Endpoints: []discoveryv1.Endpoint{{Addresses: []string{ip}, Conditions: discoveryv1.EndpointConditions{Ready: &ready}}}},
		&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "mark", Name: name}, Status: corev1.PodStatus{Phase: corev1.PodRunning, PodIP: ip, PodIPs: []corev1.PodIP{{IP: ip}}}},
	}
	if err := w.api.Put(marks...); err != nil {
		return err
	}
	defer func() { _ = w.api.Delete(marks[1:]...) }()
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	q := dnspeer.Question{Name: name + ".mark.svc.cluster.local.", Type: dns.TypeA, Answers: 1}
	if err := w.core.Await(ctx, q); err != nil {
		return err
	}
	for {
		s := w.last.Load()
		if s != nil && s.Services.At(model.N("mark", name)) != nil && s.Slices.At(model.N("mark", name)) != nil && s.Pods.At(model.N("mark", name)) != nil {
			break
		}
		if ctx.Err() != nil {
			return fmt.Errorf("podway does not see %s: %w", name, ctx.Err())
		}
		time.Sleep(time.Millisecond)
	}
	time.Sleep(5 * time.Millisecond) // CoreDNS's watch of Pods and Namespaces, which no question shows in every mode
	return nil
}

func describe(q question) string {
	if q.about == nil {
		return ""
	}
	return fmt.Sprintf("  %s/%s: type %s, IPs %v, external name %q, ports %v\n", q.about.Namespace, q.about.Name, q.about.Spec.Type, q.about.Spec.ClusterIPs, q.about.Spec.ExternalName, q.about.Spec.Ports)
}

// ask asks one server; an answer larger than what was offered is an error.
func ask(ctx context.Context, addr string, q question) (answer, error) {
	m := new(dns.Msg).SetQuestion(q.name, q.typ)
	if q.edns > 0 {
		m.SetEdns0(q.edns, false)
	}
	c := dns.Client{Timeout: 5 * time.Second, UDPSize: 4096}
	if q.tcp {
		c.Net = "tcp"
	}
	a, _, err := c.ExchangeContext(ctx, m, addr)
	if err != nil {
		return answer{}, err
	}
	if a.Question[0].Name != q.name {
		return answer{}, fmt.Errorf("the question came back as %s", a.Question[0].Name)
	}
	a.Compress = true // both sides compress: Len is then what was sent
	return read(a, a.Len()), nil
}
