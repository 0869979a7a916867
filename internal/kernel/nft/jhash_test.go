package nft

import "testing"

func TestTheHashIsThatOfTheKernel(t *testing.T) {
	// From the self test of lookup3.c: hashlittle of these strings.
	for _, c := range []struct {
		key  string
		seed uint32
		want uint32
	}{
		{"", 0, 0xdeadbeef}, {"", 0xdeadbeef, 0xbd5b7dde}, {"Four score and seven years ago", 0, 0x17770551}, {"Four score and seven years ago", 1, 0xcd628161},
	} {
		if got := JHash([]byte(c.key), c.seed); got != c.want {
			t.Errorf("jhash(%q, %#x) = %#x, want %#x", c.key, c.seed, got, c.want)
		}
	}
}
