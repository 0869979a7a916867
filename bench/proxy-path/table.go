package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// table holds all samples: by size, lane and kind of window.
type table map[cell][]sample

type cell struct {
	size      size
	lane, job string
}

func (t table) add(n size, lane, job string, s sample) {
	c := cell{n, lane, job}
	t[c] = append(t[c], s)
}

// median of a figure over the windows of a cell; 0 without any.
func (t table) median(c cell, of func(sample) float64) float64 {
	var v []float64
	for _, s := range t[c] {
		v = append(v, of(s))
	}
	if len(v) == 0 {
		return 0
	}
	slices.Sort(v)
	return v[len(v)/2]
}

func rate(s sample) float64 { return s.Rate }
func p50(s sample) float64  { return float64(s.P50) / float64(time.Microsecond) }
func p99(s sample) float64  { return float64(s.P99) / float64(time.Microsecond) }
func cpu(s sample) float64  { return float64(s.CPU) / float64(time.Microsecond) }

// ratio of a lane's figure to another lane's, as the median over the rounds of the ratios within a round: the two windows
// of a round lie side by side, so that a noisy moment hits both.
func (t table) ratio(n size, lane, to, job string, of func(sample) float64) float64 {
	a, b := t[cell{n, lane, job}], t[cell{n, to, job}]
	var v []float64
	for i := range min(len(a), len(b)) {
		if d := of(b[i]); d > 0 {
			v = append(v, of(a[i])/d)
		}
	}
	if len(v) == 0 {
		return 0
	}
	slices.Sort(v)
	return v[len(v)/2]
}

func (t table) print(out io.Writer, n size, lanes []string) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "%s\tconn/s (1)\tof direct\tp50 us\tp99 us\tCPU us\tconn/s (32)\tof direct\tp99 us\tUDP/s\tof direct\tMiB/s\tof direct\tfailed\t\n", n)
	one, many, udp, flood := jobs[0].name(), jobs[1].name(), jobs[2].name(), jobs[3].name()
	for _, l := range lanes {
		at := func(job string) cell { return cell{n, l, job} }
		if len(t[at(one)]) == 0 {
			fmt.Fprintf(w, "%s\tnot loaded in time\t\n", l)
			continue
		}
		failed := 0
		for _, j := range jobs {
			for _, s := range t[at(j.name())] {
				failed += s.Failed
			}
		}
		fmt.Fprintf(w, "%s\t%.0f\t%.2f\t%.0f\t%.0f\t%.0f\t%.0f\t%.2f\t%.0f\t%.0f\t%.2f\t%.0f\t%.2f\t%d\t\n", l,
			t.median(at(one), rate), t.ratio(n, l, direct, one, rate), t.median(at(one), p50), t.median(at(one), p99), t.median(at(one), cpu),
			t.median(at(many), rate), t.ratio(n, l, direct, many, rate), t.median(at(many), p99),
			t.median(at(udp), rate), t.ratio(n, l, direct, udp, rate), t.median(at(flood), rate), t.ratio(n, l, direct, flood, rate), failed)
	}
	w.Flush()
}

// result is the line for machines: new connections a second at 32 connections, and the 99th percentile of connecting with
// one; podway at the largest size, a peer beside it at the largest size that the peer loaded; then one Service with many
// endpoints, where the CPU for a connection counts.
func (t table) result(sizes []size) string {
	job, one := jobs[1].name(), jobs[0].name()
	var b strings.Builder
	b.WriteString("RESULT")
	put := func(key string, v float64) {
		if v > 0 {
			fmt.Fprintf(&b, " %s=%.3f", key, v)
		}
	}
	var growing, many []size
	for _, s := range sizes {
		if s.many() {
			many = append(many, s)
		} else {
			growing = append(growing, s)
		}
	}
	for _, n := range growing[max(0, len(growing)-1):] {
		fmt.Fprintf(&b, " services=%d", n.services)
		for _, mode := range []string{"nft", "iptables", "ebpf"} {
			put(mode+"_vs_direct", t.ratio(n, "podway-"+mode, direct, job, rate))
			put(mode+"_p99_vs_direct", t.ratio(n, "podway-"+mode, direct, one, p99))
		}
	}
	for _, mode := range []string{"nft", "iptables"} {
		for _, n := range slices.Backward(growing) {
			if v := t.ratio(n, "podway-"+mode, "kube-proxy-"+mode, job, rate); v > 0 {
				put(mode+"_vs_kubeproxy", v)
				fmt.Fprintf(&b, " kubeproxy_%s_services=%d", mode, n.services)
				break
			}
		}
	}
	for _, n := range many {
		for _, lane := range []string{"podway-nft", "podway-iptables", "podway-ipvs", "podway-ebpf", "kube-proxy-nft", "kube-proxy-iptables"} {
			put(fmt.Sprintf("%s_%dendpoints_cpu_vs_direct", strings.ReplaceAll(lane, "-", "_"), n.backends), t.ratio(n, lane, direct, one, cpu))
		}
	}
	return b.String()
}
