package modes

import (
	"slices"
	"testing"

	"github.com/podway/podway/internal/hop/proxy/config"
)

func TestEveryModeOfAConfigurationHasABackend(t *testing.T) {
	if !slices.Equal(Names(), config.Modes) {
		t.Errorf("%v, want %v", Names(), config.Modes)
	}
	for _, name := range append(Names(), "") {
		if b := Backend(name); b == nil || name != "" && b.Name() != name {
			t.Errorf("%q has backend %v", name, b)
		}
	}
	if Backend("userspace") != nil {
		t.Error("an unknown mode has a backend")
	}
}
