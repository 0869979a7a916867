package answers

import (
	"bytes"
	"net/netip"
	"slices"
	"time"

	"github.com/miekg/dns"

	"github.com/podway/podway/internal/model"
)

// View is all DNS answers of one snapshot. It is immutable and safe for concurrent use.
type View struct {
	*zone
	synced   bool
	rev      uint64
	time     time.Time
	serial   uint32
	soa      []byte                            // of the cluster domain, ready but for pointers into the question
	services model.Map[string, *service]       // by serviceKey
	spaces   model.Map[string, int]            // namespace label in wire format -> Services that have names
	addrs    model.Map[netip.Addr, *backNames] // reverse names
	podsOf   model.Map[model.Name, *model.Pod] // the Pods in podAddrs
	podAddrs model.Map[podKey, int]            // addresses of Pods -> how many Pods have them; where they are verified
	from     *model.Snapshot                   // set in a View that compiles what it is asked for: Of
}

// backNames is the reverse name of one address. More than one Service may own it.
type backNames struct {
	by    []owned // sorted by key, then target
	entry *entry
}

type owned struct {
	key    string // serviceKey
	target []byte
}

// New returns a View that has not seen the cluster: it answers SERVFAIL to every name of its zones.
func New(o Options) (*View, error) {
	z, err := newZone(o)
	if err != nil {
		return nil, err
	}
	return &View{zone: z, serial: 1}, nil
}

// Synced reports whether the View shows a cluster.
func (v *View) Synced() bool { return v.synced }

// Rev and Time are those of the snapshot that the View shows.
func (v *View) Rev() uint64 { return v.rev }

// Time is when the newest change in the snapshot was seen.
func (v *View) Time() time.Time { return v.time }

// Domain is the cluster domain with a final dot.
func (v *View) Domain() string { return v.domain }

// Services is the number of Services that have names.
func (v *View) Services() int { return v.services.Len() }

// Apply returns the View of a snapshot and the number of Services whose answers differ. It costs what the change names.
func (v *View) Apply(s *model.Snapshot, c model.Change) (*View, int) {
	next, changed := *v, 0
	names := c.Services
	if c.All || !v.synced {
		names = v.everything(s)
	}
	for _, name := range names {
		changed += next.put(name, next.compile(s.Services.At(name), s.Backends(name)))
	}
	next.applyPods(s, c, !v.synced)
	next.stamp(s)
	return &next, changed
}

// everything names all Services of the snapshot, and those that had names and are no more. Answers that are the same stay
// as they are, so that a new list of a large cluster costs no second copy of them.
func (v *View) everything(s *model.Snapshot) []model.Name {
	names := make([]model.Name, 0, s.Services.Len())
	for name := range s.Services.All() {
		names = append(names, name)
	}
	for key := range v.services.All() {
		if name := nameOfKey(key); s.Services.At(name) == nil {
			names = append(names, name)
		}
	}
	return names
}

func (v *View) stamp(s *model.Snapshot) {
	v.synced, v.rev, v.time = true, s.Rev, s.Time
	v.serial = max(1, uint32(s.Time.Unix()))
	v.soa = v.makeSOA(nil, 0, Cluster)
}

// put replaces the names of one Service; want is nil when it has none. It returns 1 when anything differs.
func (v *View) put(name model.Name, want *service) int {
	key := serviceKey(name)
	have := v.services.At(key)
	if have.equal(want) {
		return 0
	}
	space := string(appendLabel(nil, name.Namespace))
	var was, is []pointer
	if have != nil {
		was = have.ptrs
	}
	if want != nil {
		is = want.ptrs
		v.services = v.services.Set(key, want)
	} else {
		v.services = v.services.Delete(key)
	}
	switch n := v.spaces.At(space); {
	case have == nil:
		v.spaces = v.spaces.Set(space, n+1)
	case want == nil && n == 1:
		v.spaces = v.spaces.Delete(space)
	case want == nil:
		v.spaces = v.spaces.Set(space, n-1)
	}
	v.point(key, was, is)
	return 1
}

// point brings the reverse names in line; both lists are sorted by address, and only addresses that differ are touched.
func (v *View) point(key string, was, is []pointer) {
	for len(was) > 0 || len(is) > 0 {
		var addr netip.Addr
		if len(is) == 0 || len(was) > 0 && was[0].compare(is[0]) <= 0 {
			addr = was[0].addr
		} else {
			addr = is[0].addr
		}
		a, b := run(was, addr), run(is, addr)
		if !slices.EqualFunc(was[:a], is[:b], func(x, y pointer) bool { return bytes.Equal(x.target, y.target) }) {
			v.setBack(addr, key, is[:b])
		}
		was, is = was[a:], is[b:]
	}
}

// run counts the leading pointers of addr.
func run(p []pointer, addr netip.Addr) int {
	n := 0
	for n < len(p) && p[n].addr == addr {
		n++
	}
	return n
}

// setBack replaces what one Service says about an address.
func (v *View) setBack(addr netip.Addr, key string, ptrs []pointer) {
	var by []owned
	if old := v.addrs.At(addr); old != nil {
		by = slices.DeleteFunc(slices.Clone(old.by), func(o owned) bool { return o.key == key })
	}
	for _, p := range ptrs {
		by = append(by, owned{key, p.target})
	}
	if len(by) == 0 {
		v.addrs = v.addrs.Delete(addr)
		return
	}
	v.addrs = v.addrs.Set(addr, v.backOf(by))
}

func (z *zone) backOf(by []owned) *backNames {
	slices.SortFunc(by, func(a, b owned) int { return bytes.Compare(a.target, b.target) })
	var s set
	for _, o := range by {
		s.add(dns.TypePTR, z.ttl, o.target)
	}
	return &backNames{by: by, entry: newEntry(s)}
}
