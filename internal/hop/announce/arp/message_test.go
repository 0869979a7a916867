package arp

import (
	"bytes"
	"net/netip"
	"testing"
)

var (
	vip   = netip.MustParseAddr("10.8.0.200")
	ask   = netip.MustParseAddr("10.8.0.1")
	me    = mac{2, 0, 0, 0, 0, 1}
	other = mac{2, 0, 0, 0, 0, 9}
)

func TestAMessageIsReadBackAsItWasWritten(t *testing.T) {
	m := message{op: opRequest, senderMAC: other, sender: ask, target: vip}
	b := m.bytes()
	want := []byte{0, 1, 8, 0, 6, 4, 0, 1, 2, 0, 0, 0, 0, 9, 10, 8, 0, 1, 0, 0, 0, 0, 0, 0, 10, 8, 0, 200} // RFC 826
	if !bytes.Equal(b, want) {
		t.Errorf("got %v\nwant %v", b, want)
	}
	got, ok := parse(append(b, make([]byte, 18)...)) // frames are padded
	if !ok || got != m {
		t.Errorf("got %+v %v", got, ok)
	}
	if a := m.answer(me); a != (message{op: opReply, senderMAC: me, sender: vip, targetMAC: other, target: ask}) {
		t.Errorf("answer %+v", a)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte{})
	f.Add(message{op: opReply, senderMAC: me, sender: vip, targetMAC: other, target: ask}.bytes())
	f.Fuzz(func(t *testing.T, b []byte) {
		m, ok := parse(b)
		if ok && !bytes.Equal(m.bytes(), b[:messageLen]) {
			t.Errorf("%v is read as %+v", b, m)
		}
	})
}
