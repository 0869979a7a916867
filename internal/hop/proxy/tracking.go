package proxy

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/podway/podway/internal/flow"
	"github.com/podway/podway/internal/kernel/sysctl"
)

// Tracking is how the kernel tracks connections (KubeProxyConfiguration.conntrack). A zero field leaves the kernel's own
// setting alone.
type Tracking struct {
	// MaxPerCore is how many connections are tracked for each processor of the host, but not fewer than Min in all; 0 leaves
	// the limit alone whatever Min says.
	MaxPerCore, Min int
	// How long connections are remembered that send nothing.
	Established, CloseWait, UDP, UDPStream time.Duration
}

const (
	trackMost     = 1 << 20 // however many processors: an entry costs some 300 bytes
	trackMax      = "net/netfilter/nf_conntrack_max"
	trackBuckets  = "net/netfilter/nf_conntrack_buckets"
	perBucket     = 4
	trackTimeouts = "net/netfilter/nf_conntrack_"
)

// limit is the number of connections to track on a host, 0 = as it is.
func (t *Tracking) limit(cpus int) int {
	if t.MaxPerCore <= 0 {
		return 0
	}
	return max(min(t.MaxPerCore*cpus, trackMost), t.Min)
}

// Set writes the settings in the network namespace of the door. The limit and the size of the hash table, which are the whole
// host's, are only raised. Each setting that cannot be written is a finding; those that are right already need no permission.
func (t *Tracking) Set(d sysctl.Door, node string, cpus int) (out []flow.Finding) {
	put := func(key string, value int) {
		if err := d.Set(key, strconv.Itoa(value)); err != nil {
			f := finding(flow.TrackingNotSet, "node "+node, fmt.Sprintf("%s of node %s cannot be set to %d: %v.", key, node, value, err))
			f.Severity = flow.Warning
			out = append(out, f)
		}
	}
	if most := t.limit(cpus); most > 0 {
		if have, err := number(d, trackMax); err == nil && have < most {
			put(trackMax, most)
		}
		if have, err := number(d, trackBuckets); err == nil && have < most/perBucket {
			put(trackBuckets, most/perBucket)
		}
	}
	for _, s := range []struct {
		key   string
		value time.Duration
	}{
		{"tcp_timeout_established", t.Established}, {"tcp_timeout_close_wait", t.CloseWait},
		{"udp_timeout", t.UDP}, {"udp_timeout_stream", t.UDPStream},
	} {
		if s.value > 0 {
			put(trackTimeouts+s.key, int(s.value/time.Second))
		}
	}
	return out
}

func number(d sysctl.Door, key string) (int, error) {
	s, err := d.Get(key)
	if err != nil {
		return 0, err
	}
	n, err := strconv.Atoi(s)
	if err != nil {
		return 0, errors.New(key + " is no number: " + s)
	}
	return n, nil
}

// liberal is the setting that makes connection tracking translate TCP packets also when they are out of the window. Strict,
// it takes a late packet for none of its connection, so it goes on with the endpoint's address as source, and the client
// answers with a reset. Dropping such packets instead would hit connections that are not ours.
const liberal = "net/netfilter/nf_conntrack_tcp_be_liberal"

// BeLiberal switches that on, as far as this process may write it.
func BeLiberal(d sysctl.Door) error { return d.Set(liberal, "1") }

// track writes the settings of connection tracking. liberal is never switched off: others may rely on it by then.
func (p *Proxy) track() (out []flow.Finding) {
	if p.sysctl == nil {
		return nil
	}
	if p.tracking != nil {
		out = p.tracking.Set(p.sysctl, p.config.Node, p.cpus)
	}
	if err := BeLiberal(p.sysctl); err != nil {
		f := finding(flow.ConntrackStrict, "node "+p.config.Node, fmt.Sprintf("nf_conntrack_tcp_be_liberal of node %s is not 1 and cannot be set: %v.", p.config.Node, err))
		f.Severity = flow.Warning
		out = append(out, f)
	}
	return out
}
