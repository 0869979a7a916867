package zones

import (
	"bufio"
	"bytes"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/miekg/dns"

	"github.com/podway/podway/internal/hop/dns/config"
)

// mostHosts is the largest hosts file that is read, in bytes.
const mostHosts = 64 << 20

// hosts is one `hosts`.
type hosts struct {
	c     *config.Hosts
	zones []string
	now   atomic.Pointer[hostTable]
	file  follower
}

// hostTable is never changed once made.
type hostTable struct {
	names map[string][]netip.Addr // absolute, lower case; may begin with *.
	addrs map[netip.Addr][]string
}

func newHosts(c *config.Hosts, zones []string) *hosts {
	h := &hosts{c: c, zones: zones, file: follower{path: c.File, every: c.Reload}}
	if len(c.Zones) > 0 {
		h.zones = c.Zones
	}
	h.now.Store(h.table(nil))
	return h
}

// refresh reads the file when it has changed. One that is not there is empty: the lines in the configuration count.
func (h *hosts) refresh(now time.Time) error {
	if h.c.File == "" {
		return nil
	}
	text, changed, err := h.file.read(now, mostHosts)
	if err != nil && !os.IsNotExist(err) {
		return fmt.Errorf("%s: hosts: %w", h.c.At, err)
	}
	if changed {
		h.now.Store(h.table(hostLines(text)))
	}
	return nil
}

// table makes the table of the lines in the configuration and those of the file; a name of the former has no others.
func (h *hosts) table(file []config.HostLine) *hostTable {
	t := &hostTable{names: map[string][]netip.Addr{}, addrs: map[netip.Addr][]string{}}
	t.add(h.c.Inline, nil)
	inline := make(map[string]bool, len(t.names))
	for name := range t.names {
		inline[name] = true
	}
	t.add(file, inline)
	return t
}

func (t *hostTable) add(lines []config.HostLine, but map[string]bool) {
	for _, l := range lines {
		for _, name := range l.Names {
			if but[name] || slices.Contains(t.names[name], l.Addr) {
				continue
			}
			t.names[name] = append(t.names[name], l.Addr)
			if !strings.HasPrefix(name, "*.") {
				t.addrs[l.Addr] = append(t.addrs[l.Addr], name)
			}
		}
	}
}

// hostLines reads hosts(5); lines that it cannot read count for nothing.
func hostLines(text []byte) (out []config.HostLine) {
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		line, _, _ := strings.Cut(lines.Text(), "#")
		fields := strings.Fields(line)
		if len(fields) < 2 {
			continue
		}
		a, err := netip.ParseAddr(fields[0])
		if err != nil {
			continue
		}
		l := config.HostLine{Addr: a.Unmap().WithZone("")}
		for _, f := range fields[1:] {
			if name := dns.CanonicalName(f); isName(name) {
				l.Names = append(l.Names, name)
			}
		}
		out = append(out, l)
	}
	return out
}

func isName(name string) bool {
	_, ok := dns.IsDomainName(name)
	return ok
}

// of returns the addresses of a name, its own or those of the wildcard above it.
func (t *hostTable) of(name string) ([]netip.Addr, bool) {
	if addrs, ok := t.names[name]; ok {
		return addrs, true
	}
	_, parent, _ := strings.Cut(name, ".")
	addrs, ok := t.names["*."+parent]
	return addrs, ok && parent != ""
}

func (h *hosts) answer(q *dns.Msg, name string) result {
	if config.Longest(h.zones, name) == "" {
		return next
	}
	asked := q.Question[0]
	a := reply(q, dns.RcodeSuccess)
	a.Authoritative = true
	t := h.now.Load()
	if addr, ok := reverseAddr(name); ok && asked.Qtype == dns.TypePTR && !h.c.NoReverse {
		for _, n := range t.addrs[addr] {
			a.Answer = append(a.Answer, &dns.PTR{Hdr: header(asked.Name, dns.TypePTR, h.c.TTL), Ptr: n})
		}
	}
	addrs, exists := t.of(name)
	for _, addr := range addrs {
		switch {
		case addr.Is4() && asked.Qtype == dns.TypeA:
			a.Answer = append(a.Answer, &dns.A{Hdr: header(asked.Name, dns.TypeA, h.c.TTL), A: addr.AsSlice()})
		case addr.Is6() && asked.Qtype == dns.TypeAAAA:
			a.Answer = append(a.Answer, &dns.AAAA{Hdr: header(asked.Name, dns.TypeAAAA, h.c.TTL), AAAA: addr.AsSlice()})
		}
	}
	switch {
	case len(a.Answer) > 0 || exists:
		shuffle(a.Answer)
		return answered(a)
	case h.c.Fall.Through(name):
		return next
	}
	a.Rcode = dns.RcodeNameError
	return answered(a)
}

// reverseAddr is the address that a reverse name (lower case) spells.
func reverseAddr(name string) (netip.Addr, bool) {
	if rest, ok := strings.CutSuffix(name, ".in-addr.arpa."); ok {
		l := strings.Split(rest, ".")
		slices.Reverse(l)
		a, err := netip.ParseAddr(strings.Join(l, "."))
		return a, err == nil && a.Is4()
	}
	rest, ok := strings.CutSuffix(name, ".ip6.arpa.")
	l := strings.Split(rest, ".")
	if !ok || len(l) != 32 {
		return netip.Addr{}, false
	}
	slices.Reverse(l)
	var b strings.Builder
	for i, nibble := range l {
		if i > 0 && i%4 == 0 {
			b.WriteByte(':')
		}
		b.WriteString(nibble)
	}
	a, err := netip.ParseAddr(b.String())
	return a, err == nil
}

// follower reads a file when it has changed.
type follower struct {
	path  string
	every time.Duration // 0 = once

	checked time.Time
	stamp   string // of the last look: "" = not there
	begun   bool
}

// read returns the file's text when it is not what it was at the last look. One that is gone is changed to nothing.
func (f *follower) read(now time.Time, most int64) (text []byte, changed bool, err error) {
	if f.begun && (f.every == 0 || now.Sub(f.checked) < f.every) {
		return nil, false, nil
	}
	first := !f.begun
	f.begun, f.checked = true, now
	info, err := os.Stat(f.path)
	if err != nil {
		changed = f.stamp != "" && os.IsNotExist(err)
		if changed {
			f.stamp = ""
		}
		return nil, changed, err
	}
	stamp := fmt.Sprint(info.Size(), info.ModTime().UnixNano())
	if stamp == f.stamp && !first {
		return nil, false, nil
	}
	if info.Size() > most || info.IsDir() {
		return nil, false, &fs.PathError{Op: "read", Path: f.path, Err: fs.ErrInvalid}
	}
	if text, err = os.ReadFile(f.path); err != nil {
		return nil, false, err
	}
	f.stamp = stamp
	return text, true, nil
}
