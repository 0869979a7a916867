package main

import (
	"errors"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	v1 "k8s.io/api/core/v1"
	discovery "k8s.io/api/discovery/v1"
	"k8s.io/component-base/metrics/legacyregistry"
)

// sync tells the proxier what changed, as informers would, and has it write that.
func (p *peer) sync(s *Sync) (Response, error) {
	p.tell(s)
	failed := failures()
	start, cpu := time.Now(), cpuTime()
	if !p.synced {
		p.proxier.OnServiceSynced() // writes nothing yet: the slices are said to be missing
		p.proxier.OnEndpointSlicesSynced()
		p.synced = true
	} else {
		p.proxier.OnServiceSynced() // writes at once, unlike Sync, which leaves it to a timer
	}
	r := Response{TookNS: time.Since(start).Nanoseconds(), CPUNS: (cpuTime() - cpu).Nanoseconds(), RSSKiB: rss()}
	if failures() != failed {
		return r, errors.New("the proxier could not write its rules; its log says why")
	}
	return r, nil
}

// tell hands over the objects: Services first, as a Service's slices mean nothing without it.
func (p *peer) tell(s *Sync) {
	if s.Node != nil {
		p.topology(s.Node)
	}
	for _, name := range s.DeletedSlices {
		p.dropSlice(name)
	}
	for _, name := range s.DeletedServices {
		p.dropService(name)
	}
	for i := range s.Services {
		now := &s.Services[i]
		name := now.Namespace + "/" + now.Name
		old := p.services[name]
		switch {
		case another(now):
			p.dropService(name)
			continue
		case old != nil:
			p.proxier.OnServiceUpdate(old, now)
		default:
			p.proxier.OnServiceAdd(now)
		}
		p.services[name] = now
	}
	for i := range s.Slices {
		now := &s.Slices[i]
		name := now.Namespace + "/" + now.Name
		old := p.slices[name]
		switch {
		case headless(now):
			p.dropSlice(name)
			continue
		case old != nil:
			p.proxier.OnEndpointSliceUpdate(old, now)
		default:
			p.proxier.OnEndpointSliceAdd(now)
		}
		p.slices[name] = now
	}
}

// another and headless tell what kube-proxy's informers leave out.
func another(s *v1.Service) bool {
	_, labelled := s.Labels["service.kubernetes.io/service-proxy-name"]
	return labelled || s.Spec.ClusterIP == v1.ClusterIPNone
}

func headless(s *discovery.EndpointSlice) bool {
	_, labelled := s.Labels[v1.IsHeadlessService]
	return labelled
}

func (p *peer) dropSlice(name string) {
	if old := p.slices[name]; old != nil {
		p.proxier.OnEndpointSliceDelete(old)
		delete(p.slices, name)
	}
}

func (p *peer) dropService(name string) {
	if old := p.services[name]; old != nil {
		p.proxier.OnServiceDelete(old)
		delete(p.services, name)
	}
}

// failures counts the writes that did not succeed, by the proxier's own metrics.
func failures() (n float64) {
	all, err := legacyregistry.DefaultGatherer.Gather()
	if err != nil {
		return 0
	}
	for _, f := range all {
		if strings.HasSuffix(f.GetName(), "_sync_failures_total") || strings.HasSuffix(f.GetName(), "restore_failures_total") {
			for _, m := range f.GetMetric() {
				n += m.GetCounter().GetValue()
			}
		}
	}
	return n
}

// cpuTime is what this process and the commands that it waited for have used.
func cpuTime() (total time.Duration) {
	for _, who := range []int{syscall.RUSAGE_SELF, syscall.RUSAGE_CHILDREN} {
		var u syscall.Rusage
		if syscall.Getrusage(who, &u) == nil {
			total += time.Duration(u.Utime.Nano() + u.Stime.Nano())
		}
	}
	return total
}

// rss is this process's resident memory in KiB, 0 when it is not known.
func rss() int64 {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(status)) {
		if v, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			n, _ := strconv.ParseInt(strings.Fields(v)[0], 10, 64)
			return n
		}
	}
	return 0
}
