package nettest

import (
	"net/netip"
	"testing"
	"time"
)

func TestABurstSeesWhatSingleConnectionsSee(t *testing.T) {
	Need(t)
	w, err := New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close() })
	node, err := w.AddNode("node-a", 0)
	if err != nil {
		t.Fatal(err)
	}
	pod, err := w.AddPod(node, "pod", netip.MustParseAddr("10.244.1.5"), netip.MustParseAddr("fd00:244:1::5"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := pod.Serve("web", Port{Proto: "tcp", Number: 80}, Port{Proto: "udp", Number: 80}); err != nil {
		t.Fatal(err)
	}
	via, err := w.Outside().Via(node.Addrs[0])
	if err != nil {
		t.Fatal(err)
	}
	client := netip.MustParseAddr("203.0.113.7")
	var dials []Dial
	var want []Result
	for i := range 500 {
		for _, proto := range []string{"tcp", "udp"} {
			dials = append(dials, Dial{Proto: proto, Dst: netip.MustParseAddrPort("10.244.1.5:80"), Src: client, Mark: via, Timeout: 5 * time.Second})
			want = append(want, Reached)
			if i < 3 { // the kernel sends few errors a second to one client
				dials = append(dials, Dial{Proto: proto, Dst: netip.MustParseAddrPort("10.244.1.5:81"), Src: client, Mark: via, Timeout: 5 * time.Second},
					Dial{Proto: proto, Dst: netip.MustParseAddrPort("198.51.100.1:80"), Src: client, Timeout: 100 * time.Millisecond})
				want = append(want, Refused, Dropped)
			}
		}
	}
	dials = append(dials, Dial{Proto: "tcp", Dst: netip.MustParseAddrPort("10.244.1.5:80"), Src: client, SrcPort: 4711, Mark: via, Timeout: 5 * time.Second})
	want = append(want, Reached)
	replies := w.Outside().Burst(t.Context(), dials)
	for i, r := range replies {
		if r.Result != want[i] || r.Result == Reached && (r.Who != "web" || r.Saw.Addr() != client) {
			t.Fatalf("connection %d to %s %s: %+v, want %s", i, dials[i].Proto, dials[i].Dst, r, want[i])
		}
	}
	if saw := replies[len(replies)-1].Saw; saw.Port() != 4711 {
		t.Errorf("the chosen port was not used: seen %s", saw)
	}
	six := node.Burst(t.Context(), []Dial{{Proto: "udp", Dst: netip.MustParseAddrPort("[fd00:244:1::5]:80"), SrcPort: 4712, Timeout: 5 * time.Second}})
	if six[0].Who != "web" || six[0].Saw.Port() != 4712 {
		t.Errorf("over IPv6: %+v", six[0])
	}
}
