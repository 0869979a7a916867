package upstream

import (
	"log/slog"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/podway/podway/internal/hop/dns/upstream/link"
)

// recheck is how often resolv.conf is looked at.
const recheck = 5 * time.Second

// server is one upstream server.
type server struct {
	Server
	addr     netip.AddrPort
	link     *link.Link
	loops    atomic.Bool  // what is sent to it comes back to us
	gone     atomic.Bool  // no longer in the list
	rtt      atomic.Int64 // smoothed round trip in nanoseconds, 0 = not known
	dev      atomic.Int64 // and how far round trips are from it
	fails    atomic.Int32 // in a row
	checking atomic.Bool
}

func newServer(x Server, o *Options) *server {
	return &server{Server: x, addr: x.Addr, link: link.New(link.Options{Addr: x.Addr, Proto: x.Proto, TLS: x.TLS, Idle: o.Idle, In: o.In})}
}

func (s *server) proto() string { return s.Proto.String() }

// servers is the list in use. It follows resolv.conf when that file changes.
type servers struct {
	o       Options
	probe   func(*server) // tests one for a loop
	mu      sync.Mutex
	list    []*server
	loaded  bool
	checked time.Time
	stamps  []fileStamp   // of the files that name servers
	probed  chan struct{} // closed when the list has been tested for loops
}

type fileStamp struct {
	mod  time.Time
	size int64
}

// get returns the list, read again when resolv.conf has changed, and the channel that is closed when it may be used.
func (s *servers) get(now time.Time) ([]*server, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.loaded && now.Sub(s.checked) < recheck {
		return s.list, s.probed
	}
	s.checked = now
	stamps := s.stampsNow()
	if s.loaded && slices.Equal(stamps, s.stamps) {
		return s.list, s.probed
	}
	s.stamps = stamps
	s.load()
	return s.list, s.probed
}

func (s *servers) stampsNow() []fileStamp {
	var out []fileStamp
	for _, x := range s.o.Servers {
		if x.File == "" {
			continue
		}
		var stamp fileStamp
		if i, err := os.Stat(x.File); err == nil {
			stamp = fileStamp{i.ModTime(), i.Size()}
		}
		out = append(out, stamp)
	}
	return out
}

// wanted is the list with files read; false when one cannot be read and the last good list is to stay.
func (s *servers) wanted() ([]Server, bool) {
	var out []Server
	for _, x := range s.o.Servers {
		if x.File == "" {
			out = append(out, x)
			continue
		}
		addrs, err := readResolvConf(x.File)
		if err != nil {
			if s.loaded {
				return nil, false
			}
			slog.Warn("upstream DNS servers cannot be read", "hop", "dns", "file", x.File, "error", err)
		}
		for _, a := range addrs {
			out = append(out, Server{Addr: a, Proto: x.Proto})
		}
	}
	return out, true
}

// load makes the list anew; servers that were in the old one keep their state.
func (s *servers) load() {
	want, ok := s.wanted()
	if !ok {
		return
	}
	old, own := s.list, s.own()
	s.list, s.loaded, s.probed = nil, true, make(chan struct{})
	for _, x := range want {
		if own(x.Addr) {
			slog.Warn("upstream DNS server is this server itself: not used", "hop", "dns", "server", x.Addr)
			continue
		}
		i := slices.IndexFunc(old, func(y *server) bool { return y.addr == x.Addr && y.Proto == x.Proto && y.TLS == x.TLS })
		if i >= 0 {
			s.list = append(s.list, old[i])
			continue
		}
		s.list = append(s.list, newServer(x, &s.o))
	}
	for _, y := range old {
		if !slices.Contains(s.list, y) {
			y.gone.Store(true)
			y.link.Close()
		}
	}
	slog.Info("upstream DNS servers", "hop", "dns", "servers", len(s.list))
	go s.probeAll(s.list, s.probed)
}

// now returns the list as it is.
func (s *servers) now() []*server {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.list
}

// probeAll tests all servers at once and then opens the list for use.
func (s *servers) probeAll(list []*server, done chan struct{}) {
	var wg sync.WaitGroup
	for _, x := range list {
		wg.Go(func() { s.probe(x) })
	}
	wg.Wait()
	close(done)
}

// own returns a test whether an address is one that we listen on ourselves.
func (s *servers) own() func(netip.AddrPort) bool {
	var local []netip.Addr
	_ = s.o.In(func() error {
		addrs, err := net.InterfaceAddrs()
		for _, a := range addrs {
			if p, ok := a.(*net.IPNet); ok {
				if ip, ok := netip.AddrFromSlice(p.IP); ok {
					local = append(local, ip.Unmap())
				}
			}
		}
		return err
	})
	return func(a netip.AddrPort) bool {
		for _, l := range s.o.Own {
			if l.Port() != a.Port() {
				continue
			}
			if l.Addr() == a.Addr() || l.Addr().IsUnspecified() && (a.Addr().IsUnspecified() || slices.Contains(local, a.Addr())) {
				return true
			}
		}
		return false
	}
}
