package packets

import (
	"bytes"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/podway/podway/internal/model"
	"github.com/podway/podway/internal/nettest"
)

// BadPath tries a backend while all that Pods send is delayed, overtaken and lost in part: connections go on and stay with
// their endpoint, and clients with affinity stay with theirs. The kernel needs netem.
func BadPath(t *testing.T, s Subject) {
	l := New(t, s)
	path := nettest.Impairment{Delay: 4 * time.Millisecond, Jitter: 2 * time.Millisecond, Loss: 3, Reorder: 25}
	for _, pod := range l.Pods {
		l.OK(pod.Impair("eth0", path))
	}
	l.Apply(append(l.Slices("a1", "a2", "b1"), l.Service(Keeps))...)
	t.Run("a client with affinity keeps its endpoint", func(t *testing.T) { l.on(t).Stays(VIP4, 20) })
	t.Run("UDP stays one tracked connection", func(t *testing.T) { l.on(t).keepsDatagrams() })
	t.Run("a long transfer is whole", func(t *testing.T) { l.on(t).transfer() })
}

// on is the Lab for a subtest.
func (l *Lab) on(t *testing.T) *Lab {
	c := *l
	c.T = t
	return &c
}

// keepsDatagrams sends on one connection until enough answers have come through: datagrams that are lost stay lost.
func (l *Lab) keepsDatagrams() {
	var first nettest.Reply
	answers := 0
	for try := 0; answers < 15; try++ {
		if try == 100 {
			l.T.Fatalf("%d answers to %d datagrams", answers, try)
		}
		r := l.Pods["a3"].Connect(l.T.Context(), nettest.Dial{Proto: "udp", Dst: VIP4, Src: netip.MustParseAddr(PodAddrs["a3"][0]), SrcPort: 4010, Timeout: l.silence()})
		if r.Result != nettest.Reached {
			continue
		}
		if answers++; answers == 1 {
			first = r
		}
		if r.Who != first.Who || r.Saw != first.Saw {
			l.T.Fatalf("answer %d is of %s who saw %s, the first was of %s who saw %s", answers, r.Who, r.Saw, first.Who, first.Saw)
		}
	}
	before := l.tracked(VIP4).ID
	l.Restart()
	l.Apply()
	if now := l.tracked(VIP4).ID; now != before {
		l.T.Error("a restart deleted a valid connection")
	}
}

// transfer moves a megabyte from an endpoint on the other node to a Pod, and as much back. A packet out of the window that is
// not translated back would reset the connection.
func (l *Lab) transfer() {
	const size, bulk = 1 << 20, 9000
	vip := netip.MustParseAddrPort("10.96.0.9:80")
	svc := l.Service(func(s *model.Service) {
		s.Name.Name, s.Type, s.ClusterIPs = "bulk", model.ClusterIP, []netip.Addr{vip.Addr()}
		s.Ports = s.Ports[:1]
	})
	sl := l.Slices("b1")[0].(*model.EndpointSlice)
	sl.Name.Name, sl.Service.Name = "bulk-1", "bulk"
	sl.Ports = []model.EndpointPort{{Name: svc.Ports[0].Name, Protocol: model.TCP, Port: bulk}}
	l.Apply(svc, sl)
	data := make([]byte, size)
	r := rand.New(rand.NewPCG(1, 2))
	for i := range data {
		data[i] = byte(r.Uint32())
	}
	var server net.Listener
	l.OK(l.Pods["b1"].Do(func() (err error) {
		server, err = net.Listen("tcp4", ":9000")
		return err
	}))
	defer server.Close()
	go func() { // sends back what it gets
		c, err := server.Accept()
		if err != nil {
			return // the test ends
		}
		defer c.Close()
		_, _ = io.Copy(c, c) // the client tells what came of it
	}()
	var c net.Conn
	l.OK(l.Pods["a3"].Do(func() (err error) {
		c, err = net.DialTimeout("tcp4", vip.String(), 20*time.Second)
		return err
	}))
	defer c.Close()
	l.OK(c.SetDeadline(time.Now().Add(2 * time.Minute)))
	sent := make(chan error, 1)
	go func() {
		_, err := c.Write(data)
		sent <- err
	}()
	got := make([]byte, size)
	_, err := io.ReadFull(c, got)
	if e := <-sent; err == nil {
		err = e
	}
	if err != nil || !bytes.Equal(got, data) {
		l.T.Errorf("the transfer broke: %v; what came is what was sent: %v", err, bytes.Equal(got, data))
	}
}
