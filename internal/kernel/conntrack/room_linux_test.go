package conntrack

import (
	"os"
	"strconv"
	"strings"
	"testing"
)

func TestTheRoomIsWhatTheKernelSays(t *testing.T) {
	c, err := Open(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	got, err := c.Room(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile("/proc/sys/net/netfilter/nf_conntrack_max")
	if err != nil {
		t.Fatal(err)
	}
	if most, _ := strconv.Atoi(strings.TrimSpace(string(b))); got.Max != most || got.Entries > most {
		t.Errorf("got %+v, the kernel's limit is %d", got, most)
	}
}
