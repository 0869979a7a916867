package model

import (
	"net/netip"
	"testing"
)

func TestTheLastAddressOfAPrefix(t *testing.T) {
	for in, want := range map[string]string{
		"10.0.0.0/30": "10.0.0.3", "10.0.0.5/32": "10.0.0.5", "10.0.0.77/24": "10.0.0.255", "0.0.0.0/0": "255.255.255.255",
		"fd00::/126": "fd00::3", "fd00:1::/64": "fd00:1::ffff:ffff:ffff:ffff",
	} {
		if got := LastAddr(netip.MustParsePrefix(in)); got.String() != want {
			t.Errorf("%s: %s, want %s", in, got, want)
		}
	}
}
