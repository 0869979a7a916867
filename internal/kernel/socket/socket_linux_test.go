package socket

import (
	"net"
	"net/netip"
	"testing"
	"time"
)

func TestAnAnswerLeavesFromTheAddressThatWasAsked(t *testing.T) {
	for listen, asked := range map[string][]string{"0.0.0.0:0": {"127.0.0.1", "127.0.0.77"}, "[::]:0": {"::1"}} {
		c, err := ListenUDP(t.Context(), netip.MustParseAddrPort(listen))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		go func() {
			buf, oob := make([]byte, 512), make([]byte, OOBSize)
			for {
				n, m, _, from, err := c.ReadMsgUDPAddrPort(buf, oob)
				if err != nil {
					return
				}
				c.WriteMsgUDPAddrPort(buf[:n], Reply(oob[:m]), from)
			}
		}()
		port := netip.MustParseAddrPort(c.LocalAddr().String()).Port()
		for _, to := range asked {
			client, err := net.Dial("udp", netip.AddrPortFrom(netip.MustParseAddr(to), port).String()) // takes only what comes from there
			if err != nil {
				t.Fatal(err)
			}
			defer client.Close()
			client.SetDeadline(time.Now().Add(3 * time.Second))
			client.Write([]byte("hello"))
			buf := make([]byte, 16)
			if n, err := client.Read(buf); err != nil || string(buf[:n]) != "hello" {
				t.Errorf("%s asked at %s: %q, %v", listen, to, buf[:n], err)
			}
		}
	}
}

func TestSeveralSocketsShareAnAddress(t *testing.T) {
	one, err := ListenUDP(t.Context(), netip.MustParseAddrPort("127.0.0.1:0"))
	if err != nil {
		t.Fatal(err)
	}
	defer one.Close()
	addr := netip.MustParseAddrPort(one.LocalAddr().String())
	two, err := ListenUDP(t.Context(), addr)
	if err != nil {
		t.Fatal(err)
	}
	two.Close()
	for range 2 {
		l, err := ListenTCP(t.Context(), addr)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
	}
}

func TestReplyOfNonsenseIsNothing(t *testing.T) {
	for _, oob := range [][]byte{nil, make([]byte, 3), make([]byte, 32), {200, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 8, 0, 0, 0}} {
		if got := Reply(oob); got != nil {
			t.Errorf("%x: got %x", oob, got)
		}
	}
}
