package ingress

import (
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/podway/podway/internal/flow"
	"github.com/podway/podway/internal/kernel/netns"
	"github.com/podway/podway/internal/model"
)

func TestItServesAndReachesEndpointsInAnotherNetworkNamespace(t *testing.T) {
	ns, err := netns.New()
	if err != nil {
		t.Fatal(err)
	}
	defer ns.Close()
	var endpoint net.Listener
	err = ns.Do(func() error {
		lo, err := netlink.LinkByName("lo")
		if err != nil {
			return err
		}
		if err := netlink.LinkSetUp(lo); err != nil {
			return err
		}
		endpoint, err = net.Listen("tcp", "127.0.0.9:8080")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	defer endpoint.Close()
	go func() {
		for {
			c, err := endpoint.Accept()
			if err != nil {
				return
			}
			c.Read(make([]byte, 4096))
			c.Write([]byte("HTTP/1.1 200 OK\r\nContent-Length: 4\r\nConnection: close\r\n\r\ngood"))
			c.Close()
		}
	}()
	h, err := New(Options{HTTP: []netip.AddrPort{netip.MustParseAddrPort("0.0.0.0:80")}, In: ns.Do})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Remove(t.Context())
	b := model.NewBuilder(nil)
	for _, o := range []any{classOfOur,
		&model.Service{Name: model.N("shop", "web"), Ports: []model.ServicePort{{Name: "http", Protocol: model.TCP, Port: 80}}},
		&model.EndpointSlice{Name: model.N("shop", "web-1"), Service: model.N("shop", "web"), Ports: []model.EndpointPort{{Name: "http", Protocol: model.TCP, Port: 8080}},
			Endpoints: []model.Endpoint{{Addr: netip.MustParseAddr("127.0.0.9"), Ready: true, Serving: true}}},
		&model.Ingress{Name: model.N("shop", "web"), Class: "podway", Rules: []model.IngressRule{{Host: "shop.example", Paths: []model.IngressPath{
			{Path: "/", Type: model.PathPrefix, Backend: model.IngressBackend{Service: "web", Port: model.PortRef{Number: 80}}}}}}},
	} {
		b.Put(o)
	}
	if _, err := h.Apply(t.Context(), b.Snapshot(time.Now()), model.Everything()); err != nil {
		t.Fatal(err)
	}
	if v, err := h.Programmed(t.Context(), flow.Flow{HTTP: &flow.Request{Scheme: "http", Host: "shop.example"}}); err != nil || v.String() != "forward 127.0.0.9:8080" {
		t.Errorf("programmed: %s %v", v, err)
	}
	if v, _ := h.Programmed(t.Context(), flow.Flow{HTTP: &flow.Request{Scheme: "https", Host: "shop.example"}}); v.Action != flow.Refused {
		t.Errorf("no address is served for https: %s", v)
	}
	var got string
	err = ns.Do(func() error {
		c, err := net.Dial("tcp", "127.0.0.1:80")
		if err != nil {
			return err
		}
		defer c.Close()
		c.SetDeadline(time.Now().Add(5 * time.Second))
		c.Write([]byte("GET / HTTP/1.1\r\nHost: shop.example\r\nConnection: close\r\n\r\n"))
		buf := make([]byte, 4096)
		n, err := c.Read(buf)
		got = string(buf[:n])
		return err
	})
	if err != nil || len(got) < 12 || got[:12] != "HTTP/1.1 200" {
		t.Errorf("got %q %v", got, err)
	}
}
