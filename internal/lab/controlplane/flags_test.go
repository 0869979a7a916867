package controlplane

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/podway/podway/internal/lab/spec"
)

func TestPodwayReplacesTheEndpointControllersAndNoOther(t *testing.T) {
	for networking, want := range map[string]string{
		spec.NetworkingPodway: "--controllers=*,-endpoints-controller,-endpointslice-controller,-endpointslice-mirroring-controller",
		spec.NetworkingNone:   "--controllers=*",
	} {
		args := Args(spec.Cluster{Dir: "/lab", Networking: networking}, ControllerManager)
		if !slices.Contains(args, want) {
			t.Errorf("%s: %q lacks %s", networking, args, want)
		}
	}
}

func TestEveryComponentIsNamedFirstAndKeepsToTheLabsFolder(t *testing.T) {
	for _, component := range Components() {
		args := Args(spec.Cluster{Dir: "/lab"}, component)
		if args[0] != component || len(args) < 2 {
			t.Errorf("%s is started as %q", component, args)
		}
		for _, a := range args[1:] {
			_, value, _ := strings.Cut(a, "=")
			if strings.HasPrefix(value, "/") && !strings.HasPrefix(value, "/lab/") {
				t.Errorf("%s uses a file elsewhere: %s", component, a)
			}
		}
	}
}

func TestTheAPIServerIsKnownByAnAddressThatIsNotLoopback(t *testing.T) {
	args := Args(spec.Cluster{Dir: "/lab"}, APIServer)
	i := slices.IndexFunc(args, func(a string) bool { return strings.HasPrefix(a, "--advertise-address=") })
	if i < 0 || net.ParseIP(strings.TrimPrefix(args[i], "--advertise-address=")).IsLoopback() {
		t.Errorf("flags %q", args)
	}
}

func TestAComponentIsReadyWhenItAnswersWell(t *testing.T) {
	code := http.StatusInternalServerError
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/health" {
			t.Errorf("asked for %s", r.URL.Path)
		}
		w.WriteHeader(code)
	}))
	defer s.Close()
	probe := Probe(Etcd, nil, func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, s.Listener.Addr().String())
	})
	if err := probe(t.Context()); err == nil || !strings.Contains(err.Error(), "500") {
		t.Errorf("a failing etcd: %v", err)
	}
	code = http.StatusOK
	if err := probe(t.Context()); err != nil {
		t.Error(err)
	}
	s.Close()
	if err := probe(t.Context()); err == nil {
		t.Error("nobody answers, and it is ready")
	}
}
