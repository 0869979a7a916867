package socket

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"testing"
	"time"
)

// echo answers each datagram with itself and a dot, by the Batch that open makes.
func echo(t testing.TB, addr string, open func(*net.UDPConn) (Batch, error)) *net.UDPConn {
	t.Helper()
	c, err := ListenUDP(t.Context(), netip.MustParseAddrPort(addr))
	if err != nil {
		t.Fatal(err)
	}
	b, err := open(c)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		for {
			n, err := b.Receive()
			if err != nil {
				ended <- err
				return
			}
			for i := range n {
				b.Answer(i, append(append(b.Room(i), b.Message(i)...), '.'))
			}
			_ = b.Send()
		}
	}()
	t.Cleanup(func() {
		c.Close()
		if err := <-ended; !errors.Is(err, net.ErrClosed) {
			t.Errorf("Receive ended with %v", err)
		}
	})
	return c
}

func batchOf(n int) func(*net.UDPConn) (Batch, error) {
	return func(c *net.UDPConn) (Batch, error) { return NewBatch(c, n, 512, 512) }
}

func one(c *net.UDPConn) (Batch, error) { return NewPlain(c, 512, 512), nil }

func TestEachClientGetsItsOwnAnswersFromTheAddressThatItAsked(t *testing.T) {
	for name, open := range map[string]func(*net.UDPConn) (Batch, error){"many": batchOf(8), "plain": one} {
		for listen, asked := range map[string][]string{"0.0.0.0:0": {"127.0.0.1", "127.0.0.77"}, "[::]:0": {"::1"}, "127.0.0.1:0": {"127.0.0.1"}} {
			c := echo(t, listen, open)
			port := netip.MustParseAddrPort(c.LocalAddr().String()).Port()
			var clients []net.Conn
			for i := range 20 {
				client, err := net.Dial("udp", netip.AddrPortFrom(netip.MustParseAddr(asked[i%len(asked)]), port).String())
				if err != nil {
					t.Fatal(err)
				}
				defer client.Close()
				client.SetDeadline(time.Now().Add(3 * time.Second))
				clients = append(clients, client)
			}
			for round := range 5 {
				for i, client := range clients {
					fmt.Fprintf(client, "%d-%d", round, i)
				}
				for i, client := range clients {
					buf := make([]byte, 16)
					if n, err := client.Read(buf); err != nil || string(buf[:n]) != fmt.Sprintf("%d-%d.", round, i) {
						t.Fatalf("%s on %s: client %d read %q, %v", name, listen, i, buf[:n], err)
					}
				}
			}
		}
	}
}

func TestABatchTakesWhatIsThere(t *testing.T) {
	c, err := ListenUDP(t.Context(), netip.MustParseAddrPort("127.0.0.1:0"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	client, err := net.Dial("udp", c.LocalAddr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	for i := range 11 {
		fmt.Fprint(client, i)
	}
	b, err := NewBatch(c, 8, 512, 512)
	if err != nil {
		t.Fatal(err)
	}
	want := 0
	for _, size := range []int{8, 3} {
		n, err := b.Receive()
		if err != nil || n != size {
			t.Fatalf("took %d, %v; %d were there", n, err, size)
		}
		for i := range n {
			from, _ := b.Peer(i)
			if string(b.Message(i)) != fmt.Sprint(want) || from.String() != client.LocalAddr().String() || b.IsV6(i) {
				t.Errorf("message %d is %q from %s", want, b.Message(i), from)
			}
			want++
		}
	}
}

func TestAnAnswerThatCannotBeSentHoldsBackNoOther(t *testing.T) {
	c, err := ListenUDP(t.Context(), netip.MustParseAddrPort("127.0.0.1:0"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	client, err := net.Dial("udp", c.LocalAddr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	client.SetDeadline(time.Now().Add(3 * time.Second))
	for range 3 {
		fmt.Fprint(client, "x")
	}
	b, err := NewBatch(c, 4, 512, 512)
	if err != nil {
		t.Fatal(err)
	}
	if n, err := b.Receive(); err != nil || n != 3 {
		t.Fatal(n, err)
	}
	b.Answer(0, []byte("first"))
	b.Answer(1, make([]byte, 70_000)) // EMSGSIZE
	b.Answer(2, []byte("last"))
	if err := b.Send(); err == nil {
		t.Error("no error for an answer that no datagram holds")
	}
	for _, want := range []string{"first", "last"} {
		buf := make([]byte, 16)
		if n, err := client.Read(buf); err != nil || string(buf[:n]) != want {
			t.Errorf("read %q, %v", buf[:n], err)
		}
	}
}

func TestABatchAllocatesNothing(t *testing.T) {
	c, err := ListenUDP(t.Context(), netip.MustParseAddrPort("127.0.0.1:0"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	client, err := net.Dial("udp", c.LocalAddr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	b, err := NewBatch(c, 8, 512, 512)
	if err != nil {
		t.Fatal(err)
	}
	buf, question := make([]byte, 16), []byte("question")
	allocs := testing.AllocsPerRun(100, func() {
		for range 4 {
			client.Write(question)
		}
		n, err := b.Receive()
		if err != nil || n == 0 {
			t.Fatal(n, err)
		}
		for i := range n {
			b.Answer(i, append(b.Room(i), b.Message(i)...))
		}
		_ = b.Send()
		for range n {
			client.Read(buf)
		}
	})
	if allocs != 0 {
		t.Errorf("%v allocations", allocs)
	}
}
