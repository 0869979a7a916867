// Command dns-memory measures the resident memory of podway's DNS server and of CoreDNS, with its kubernetes plugin and the
// Corefile of kubeadm, on the same API server: at rest, and at the worst moment of a list that starts anew, as after a restart
// of the API server. It prints a table, then RESULT.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/podway/podway/bench/apiserver"
	"github.com/podway/podway/bench/dnspeer"
)

func main() {
	rest := flag.Duration("rest", 150*time.Second, "how long a server is left alone before it counts: the runtime returns memory two minutes after it was last used")
	large := flag.Bool("large", true, "measure 20,000 Services and 62,000 endpoints too")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *rest, *large); err != nil {
		fmt.Fprintln(os.Stderr, "dns-memory:", err)
		os.Exit(1)
	}
}

// figures are one server's at one size, in KiB.
type figures struct{ steady, relist, peak int }

func run(ctx context.Context, rest time.Duration, large bool) error {
	if ours, err := dnspeer.Serve(ctx); ours {
		return err
	}
	root, err := dnspeer.Root()
	if err != nil {
		return err
	}
	program, err := dnspeer.Build(ctx, root)
	if err != nil {
		return err
	}
	sizes := []dnspeer.Cluster{dnspeer.Medium}
	if large {
		sizes = append(sizes, dnspeer.Large)
	}
	fmt.Printf("%s; each server is left alone for %v, then the API server forgets its watches and both list anew\n\n", dnspeer.CoreDNSVersion(ctx, program), rest)
	fmt.Println("| Services, endpoints | server | RSS MiB at rest | most while listing anew | of it at rest | after |\n|---|---|---|---|---|---|")
	result := "RESULT"
	for _, c := range sizes {
		ours, core, err := measure(ctx, program, c, rest)
		if err != nil {
			return err
		}
		ours.print(c, "podway")
		core.print(c, "CoreDNS")
		result += fmt.Sprintf(" rss_vs_coredns_%dk=%.2f relist_peak_%dk=%.2f coredns_relist_peak_%dk=%.2f", c.Services/1000, float64(ours.steady)/float64(core.steady),
			c.Services/1000, float64(ours.peak)/float64(ours.steady), c.Services/1000, float64(core.peak)/float64(core.steady))
	}
	fmt.Println(result)
	return nil
}

func (f figures) print(c dnspeer.Cluster, name string) {
	mib := func(kib int) float64 { return float64(kib) / 1024 }
	fmt.Printf("| %d, %d | %s | %.1f | %.1f | %.2f | %.1f |\n", c.Services, c.Endpoints, name, mib(f.steady), mib(f.peak), float64(f.peak)/float64(f.steady), mib(f.relist))
}

// measure runs both servers on one API server, one core each.
func measure(ctx context.Context, program string, c dnspeer.Cluster, rest time.Duration) (ours, core figures, err error) {
	dir, err := os.MkdirTemp("", "bench-dns-memory-")
	if err != nil {
		return ours, core, err
	}
	defer os.RemoveAll(dir)
	api, err := apiserver.Start("127.0.0.1:0")
	if err != nil {
		return ours, core, err
	}
	defer api.Close()
	if err := api.Put(c.Objects()...); err != nil {
		return ours, core, err
	}
	up, closer, err := dnspeer.Upstream()
	if err != nil {
		return ours, core, err
	}
	defer closer.Close()
	a, err := dnspeer.StartPodway(ctx, dnspeer.Place{}, api.URL(), "")
	if err != nil {
		return ours, core, err
	}
	defer a.Stop()
	b, err := dnspeer.StartCoreDNS(ctx, program, dir, dnspeer.Place{}, api.URL(), up)
	if err != nil {
		return ours, core, err
	}
	defer b.Stop()
	err = watch(ctx, api, c, rest, map[*dnspeer.Process]*figures{a: &ours, b: &core})
	return ours, core, err
}

// watch measures the servers at rest and over a list that starts anew.
func watch(ctx context.Context, api *apiserver.Server, c dnspeer.Cluster, rest time.Duration, servers map[*dnspeer.Process]*figures) error {
	q := c.Questions(1)[0]
	wait, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	for p := range servers {
		if err := p.Await(wait, q); err != nil {
			return err
		}
	}
	time.Sleep(rest)
	for p, f := range servers {
		var err error
		if f.steady, err = p.Memory("VmRSS"); err != nil {
			return err
		}
		if err := p.ResetPeak(); err != nil {
			return err
		}
	}
	lists := api.Lists()
	api.Forget()
	for end := time.Now().Add(time.Minute); api.Lists() < lists+5; time.Sleep(50 * time.Millisecond) { // podway's two, CoreDNS's three kinds
		if time.Now().After(end) {
			return fmt.Errorf("only %d lists were asked for anew", api.Lists()-lists)
		}
	}
	time.Sleep(15 * time.Second)
	for p, f := range servers {
		if err := p.Await(wait, q); err != nil {
			return err
		}
		var err error
		if f.peak, err = p.Memory("VmHWM"); err != nil {
			return err
		}
		if f.relist, err = p.Memory("VmRSS"); err != nil {
			return err
		}
	}
	return nil
}
