package controlplane

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"

	"github.com/podway/podway/internal/lab/api"
)

// Probe returns what to ask of a component until it answers nil. Connections are opened with dial, from inside the
// control plane's network.
func Probe(component string, client *api.Client, dial api.Dial) func(context.Context) error {
	switch component {
	case APIServer:
		return client.Ready
	case Etcd:
		return get(dial, "http://127.0.0.1:2379/health")
	case ControllerManager:
		healthy := get(dial, "https://127.0.0.1:10257/healthz")
		return func(ctx context.Context) error {
			// It is healthy long before its controllers work. Without this account the first pod is refused.
			if err := healthy(ctx); err != nil {
				return err
			}
			return client.Get(ctx, "/api/v1/namespaces/default/serviceaccounts/default", nil)
		}
	case Scheduler:
		return get(dial, "https://127.0.0.1:10259/readyz")
	default:
		return nil
	}
}

func get(dial api.Dial, url string) func(context.Context) error {
	// One connection per question: a kept one would hold a component's end open when that is replaced.
	c := &http.Client{Transport: &http.Transport{
		DialContext: dial, DisableKeepAlives: true,
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // loopback, and only "is it up" is asked
	}}
	return func(ctx context.Context) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		resp, err := c.Do(req)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			body, _ := io.ReadAll(io.LimitReader(resp.Body, 512))
			return fmt.Errorf("%s: %s", resp.Status, body)
		}
		return nil
	}
}
