package netns

import (
	"net"
	"os"
	"testing"
)

func TestANewNamespaceIsEmptyAndTheCallerStaysWhereItWas(t *testing.T) {
	before, err := os.Readlink("/proc/thread-self/ns/net")
	if err != nil {
		t.Fatal(err)
	}
	ns, err := New()
	if err != nil {
		t.Fatal(err)
	}
	defer ns.Close()
	var links []net.Interface
	var inside string
	if err := ns.Do(func() (err error) {
		inside, _ = os.Readlink("/proc/thread-self/ns/net")
		links, err = net.Interfaces()
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if inside == before {
		t.Error("Do ran in the caller's namespace")
	}
	for _, l := range links {
		if l.Flags&net.FlagUp != 0 {
			t.Errorf("a new namespace has a device that is up: %s", l.Name)
		}
	}
	if after, _ := os.Readlink("/proc/thread-self/ns/net"); after != before {
		t.Errorf("the caller moved from %s to %s", before, after)
	}
}
