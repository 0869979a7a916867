package ingress

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/podway/podway/internal/hop/ingress/routes"
	"github.com/podway/podway/internal/model"
)

func TestFindingsThatWerePutOffAreOwedUntilTheyAreGathered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := model.NewBuilder(nil)
		broken.Put(&model.Ingress{Name: model.N("shop", "lost"), Class: "nowhere"})
		sound, bad := routes.Build(routes.Config{}, &model.Snapshot{}), routes.Build(routes.Config{}, broken.Snapshot(time.Now()))
		f := findings{}
		if n := len(f.of(bad, true)); n != 1 || f.due(time.Now()) {
			t.Fatalf("%d findings, owed %t", n, f.due(time.Now()))
		}
		f.took = time.Second // as of a large table
		if n := len(f.of(sound, true)); n != 1 {
			t.Fatalf("%d findings: they are not put off", n)
		}
		if f.due(time.Now()) {
			t.Error("owed at once")
		}
		time.Sleep(findingsShare * time.Second)
		if !f.due(time.Now()) {
			t.Error("put off for ever")
		}
		if n := len(f.of(sound, false)); n != 0 || f.due(time.Now()) {
			t.Errorf("%d findings of a sound table", n)
		}
	})
}
