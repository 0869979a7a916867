package zones

import (
	"bytes"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/miekg/dns"

	"github.com/podway/podway/internal/hop/dns/config"
)

// mostZone is the largest zone file that is read, in bytes.
const mostZone = 256 << 20

// file is one zone of a `file`.
type file struct {
	c    *config.File
	zone string
	now  atomic.Pointer[records] // nil = could not be read yet
	file follower
}

// records are a zone's. They are never changed once made.
type records struct {
	soa   *dns.SOA
	names map[string]map[uint16][]dns.RR // absolute, lower case; a name without records is above one with some
}

func newFiles(c *config.File, zones []string) (out []*file) {
	if len(c.Zones) > 0 {
		zones = c.Zones
	}
	for _, z := range zones {
		out = append(out, &file{c: c, zone: z, file: follower{path: c.Path, every: c.Reload}})
	}
	return out
}

// refresh reads the file when it has changed. When it cannot be read, or is no zone, the last good one stays.
func (f *file) refresh(now time.Time) error {
	text, changed, err := f.file.read(now, mostZone)
	if err == nil && changed {
		var r *records
		if r, err = readZone(text, f.zone, f.c.Path); err == nil {
			f.now.Store(r)
		}
	}
	if err != nil {
		return fmt.Errorf("%s: file: %w", f.c.At, err)
	}
	return nil
}

// readZone reads a zone file (RFC 1035, section 5).
func readZone(text []byte, zone, path string) (*records, error) {
	r := &records{names: map[string]map[uint16][]dns.RR{}}
	p := dns.NewZoneParser(bytes.NewReader(text), zone, path)
	p.SetIncludeAllowed(true)
	for rr, ok := p.Next(); ok; rr, ok = p.Next() {
		name := dns.CanonicalName(rr.Header().Name)
		if !config.Under(name, zone) {
			continue // it is another zone's
		}
		if soa, is := rr.(*dns.SOA); is {
			if name != zone {
				return nil, fmt.Errorf("%s: the SOA is of %s, not of %s", path, name, zone)
			}
			if r.soa != nil {
				continue // a transfer ends with it
			}
			r.soa = soa
		}
		r.add(name, zone, rr)
	}
	if err := p.Err(); err != nil {
		return nil, err
	}
	if r.soa == nil {
		return nil, fmt.Errorf("%s: no SOA of %s", path, zone)
	}
	return r, nil
}

// add adds a record and the names above it.
func (r *records) add(name, zone string, rr dns.RR) {
	for n := name; ; {
		if r.names[n] == nil {
			r.names[n] = map[uint16][]dns.RR{}
		}
		if n == zone {
			break
		}
		_, n, _ = strings.Cut(n, ".")
		if n == "" {
			n = "."
		}
	}
	sets, typ := r.names[name], rr.Header().Rrtype
	sets[typ] = append(sets[typ], rr)
}

func (f *file) answer(w *walk, q *dns.Msg, name string) result {
	if !config.Under(name, f.zone) {
		return next
	}
	r := f.now.Load()
	if r == nil {
		return refuse(q, dns.RcodeServerFailure)
	}
	a := reply(q, dns.RcodeSuccess)
	a.Authoritative = true
	out := answered(a)
	asked := q.Question[0]
	owner := asked.Name
	for range mostCNAMEs {
		if cut := r.delegation(name, f.zone); cut != "" {
			a.Authoritative = len(a.Answer) > 0
			a.Ns = copies(r.names[cut][dns.TypeNS], "")
			a.Extra = r.glue(a.Ns)
			return out
		}
		sets, exists := r.find(name, f.zone)
		alias := sets[dns.TypeCNAME]
		switch {
		case !exists:
			a.Rcode, a.Ns = dns.RcodeNameError, []dns.RR{r.denial()}
			return out
		case len(alias) > 0 && asked.Qtype != dns.TypeCNAME && asked.Qtype != dns.TypeANY:
			a.Answer = append(a.Answer, copies(alias, owner)...)
			owner = alias[0].(*dns.CNAME).Target
			if name = dns.CanonicalName(owner); !config.Under(name, f.zone) {
				w.chase(&out, q, owner)
				return out
			}
			continue
		}
		found := copies(sets[asked.Qtype], owner)
		if asked.Qtype == dns.TypeANY {
			for _, set := range sets {
				found = append(found, copies(set, owner)...)
			}
		}
		if len(found) == 0 {
			a.Ns = []dns.RR{r.denial()}
			return out
		}
		shuffle(found)
		a.Answer = append(a.Answer, found...)
		a.Extra = r.glue(found)
		return out
	}
	return refuse(q, dns.RcodeServerFailure)
}

// find returns what a name has, its own or by the nearest wildcard (RFC 4592).
func (r *records) find(name, zone string) (map[uint16][]dns.RR, bool) {
	if sets, ok := r.names[name]; ok {
		return sets, true
	}
	for n := name; n != zone && n != "."; {
		_, n, _ = strings.Cut(n, ".")
		if n == "" {
			n = "."
		}
		if sets, ok := r.names["*."+n]; ok {
			return sets, true
		}
		if _, ok := r.names[n]; ok {
			return nil, false // the closest name that exists has no wildcard below it
		}
	}
	return nil, false
}

// delegation is the highest name below the zone's own, at or above name, that has name servers of its own, or "".
func (r *records) delegation(name, zone string) string {
	cut := ""
	for n := name; n != zone && n != "." && n != ""; _, n, _ = strings.Cut(n, ".") {
		if len(r.names[n][dns.TypeNS]) > 0 {
			cut = n
		}
	}
	return cut
}

// glue are the addresses of the names that records lead to, as far as the zone has them.
func (r *records) glue(rrs []dns.RR) (out []dns.RR) {
	for _, rr := range rrs {
		target := ""
		switch rr := rr.(type) {
		case *dns.NS:
			target = rr.Ns
		case *dns.MX:
			target = rr.Mx
		case *dns.SRV:
			target = rr.Target
		default:
			continue
		}
		sets := r.names[dns.CanonicalName(target)]
		out = append(append(out, copies(sets[dns.TypeA], "")...), copies(sets[dns.TypeAAAA], "")...)
	}
	return out
}

// denial is the SOA as a negative answer has it (RFC 2308).
func (r *records) denial() dns.RR {
	soa := *r.soa
	soa.Hdr.Ttl = min(soa.Hdr.Ttl, soa.Minttl)
	return &soa
}

// copies are records that may be changed, owned by another name if one is given.
func copies(in []dns.RR, owner string) []dns.RR {
	out := make([]dns.RR, len(in))
	for i, rr := range in {
		out[i] = dns.Copy(rr)
		if owner != "" {
			out[i].Header().Name = owner
		}
	}
	return out
}
