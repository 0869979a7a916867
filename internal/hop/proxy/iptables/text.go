package iptables

import (
	"math"
	"net/netip"
	"strconv"
	"strings"
	"sync"

	"github.com/podway/podway/internal/flow"
)

// pen writes rules, letter by letter as iptables-save prints them, so that what is wanted and what is read back can be
// compared as text. Options stand in its order: -s, -d, -i, -p, then the matches in the order in which they were given.
type pen struct{ b []byte }

// start begins a rule of a chain.
func (p *pen) start(chain string) *pen { return p.s("-A ").s(chain) }

func (p *pen) s(text string) *pen {
	p.b = append(p.b, text...)
	return p
}

// not writes the exclamation mark before an option.
func (p *pen) not(yes bool) *pen {
	if yes {
		p.b = append(p.b, " !"...)
	}
	return p
}

func (p *pen) from(pre netip.Prefix) *pen { return p.prefix(" -s ", pre) }
func (p *pen) to(pre netip.Prefix) *pen   { return p.prefix(" -d ", pre) }
func (p *pen) host(a netip.Addr) *pen     { return p.to(netip.PrefixFrom(a, a.BitLen())) }

// prefix writes an option with a range, nothing for the range of all addresses.
func (p *pen) prefix(option string, pre netip.Prefix) *pen {
	if pre.Bits() == 0 {
		return p
	}
	p.s(option)
	p.b = pre.AppendTo(p.b)
	return p
}

func (p *pen) proto(t flow.Proto) *pen { return p.s(" -p ").s(string(t)) }

// comment writes a comment that needs quotes, as any with a space or a slash does; names of Kubernetes objects have
// nothing that must be escaped in them.
func (p *pen) comment(parts ...string) *pen {
	p.s(` -m comment --comment "`)
	for _, x := range parts {
		p.s(x)
	}
	return p.s(`"`)
}

// port writes the match of a destination port.
func (p *pen) port(t flow.Proto, n uint16) *pen {
	p.s(" -m ").s(string(t)).s(" --dport ")
	p.b = strconv.AppendUint(p.b, uint64(n), 10)
	return p
}

func (p *pen) mark(m uint32) *pen {
	p.s("0x")
	p.b = strconv.AppendUint(p.b, uint64(m), 16)
	return p
}

// recent writes the match of the list of senders that an endpoint has.
func (p *pen) recent(what, list string, is4 bool) *pen {
	mask := "255.255.255.255"
	if !is4 {
		mask = "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"
	}
	return p.s(" -m recent ").s(what).s(" --name ").s(list).s(" --mask ").s(mask).s(" --rsource")
}

// jump ends a rule.
func (p *pen) jump(target string) *pen { return p.s(" -j ").s(target).s("\n") }

// refuse ends a rule that answers with an ICMP message.
func (p *pen) refuse(is4 bool) *pen {
	if is4 {
		return p.jump("REJECT --reject-with icmp-port-unreachable")
	}
	return p.jump("REJECT --reject-with icmp6-port-unreachable")
}

// dnat ends a rule that translates to an endpoint.
func (p *pen) dnat(e netip.AddrPort) *pen {
	p.s(" -j DNAT --to-destination ")
	p.b = e.AppendTo(p.b)
	return p.s("\n")
}

// chances are the texts of 1/n, by n.
var chances sync.Map

// chance writes a match that holds once in n times. The kernel keeps the probability in 31 bits, and iptables-save prints
// what it keeps.
func (p *pen) chance(n int) *pen {
	text, ok := chances.Load(n)
	if !ok {
		const whole = 1 << 31
		text = strconv.FormatFloat(math.Round(whole/float64(n))/whole, 'f', 11, 64)
		chances.Store(n, text)
	}
	return p.s(" -m statistic --mode random --probability ").s(text.(string))
}

// take returns what was written and begins anew.
func (p *pen) take() string {
	out := string(p.b)
	p.b = p.b[:0]
	return out
}

// seconds is a duration as the recent match wants it: at least one, for the kernel refuses zero.
func seconds(n int64) string { return strconv.FormatInt(max(n, 1), 10) }

// portName is how kube-proxy calls a port of a Service: namespace/name:port.
func portName(namespace, name, port string) string {
	var b strings.Builder
	b.Grow(len(namespace) + len(name) + len(port) + 2)
	b.WriteString(namespace)
	b.WriteByte('/')
	b.WriteString(name)
	if port != "" {
		b.WriteByte(':')
		b.WriteString(port)
	}
	return b.String()
}
