package lab

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/podway/podway/internal/lab/spec"
	"github.com/podway/podway/internal/lab/supervisor"
)

func TestWaitingForPodsEndsWhenTheSupervisorHas(t *testing.T) {
	dir := t.TempDir()
	u := &up{cluster: spec.Cluster{Dir: dir}, remote: supervisor.Connect(dir)}
	got := make(chan error, 1)
	go func() { got <- u.await(t.Context(), make(chan error)) }()
	select {
	case err := <-got:
		if err == nil || !strings.Contains(err.Error(), "the supervisor ended") {
			t.Errorf("got %v", err)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("it waits for pods of a cluster that is gone")
	}
}

func TestWaitingForPodsEndsWithWhatIsSaidOfThem(t *testing.T) {
	u := &up{remote: supervisor.Connect(t.TempDir())}
	applied, want := make(chan error, 1), errors.New("crashes")
	applied <- want
	if err := u.await(t.Context(), applied); !errors.Is(err, want) {
		t.Errorf("got %v", err)
	}
}
