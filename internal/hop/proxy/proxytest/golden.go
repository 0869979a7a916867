package proxytest

import (
	"flag"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/podway/podway/internal/hop/hoptest"
	"github.com/podway/podway/internal/hop/proxy"
	"github.com/podway/podway/internal/model"
)

var update = flag.Bool("update", false, "write testdata anew")

// Golden compares text with a file of testdata; with the flag -update it writes the file.
func Golden(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), got); d != "" {
		t.Errorf("run with -update if this is meant:\n%s", d)
	}
}

// Plans are the plans of two snapshots with two Services that differ in one endpoint of one: of shop/cart, which has also
// the endpoints in more.
func Plans(more ...string) (*proxy.Plan, *proxy.Plan) {
	var others []model.Endpoint
	for _, a := range more {
		others = append(others, hoptest.Ready(a))
	}
	cart := func(a string) *model.EndpointSlice {
		return hoptest.Slice("cart", append([]model.Endpoint{hoptest.Ready(a)}, others...)...)
	}
	c := hoptest.NewCluster().Put(hoptest.Service("cart", 7), cart("10.244.1.5"), hoptest.Service("web", 8))
	p := proxy.NewPlanner(hoptest.NodeA)
	one := c.Snapshot()
	two := c.Put(cart("10.244.2.6")).Snapshot()
	first, _ := p.Update(one, model.Everything())
	second, _ := p.Update(two, model.Diff(one, two))
	return first, second
}
