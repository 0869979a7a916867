package api

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// Stuck is a container that does not come up.
type Stuck struct {
	Namespace, Pod, Container string
	Node                      string
	Restarts                  int
	Why                       string
}

func (s Stuck) String() string {
	return fmt.Sprintf("container %s of pod %s/%s on %s, %d restarts: %s", s.Container, s.Namespace, s.Pod, s.Node, s.Restarts, s.Why)
}

type containerStatus struct {
	Name         string `json:"name"`
	Ready        bool   `json:"ready"`
	RestartCount int    `json:"restartCount"`
	State        struct {
		Waiting *struct {
			Reason  string `json:"reason"`
			Message string `json:"message"`
		} `json:"waiting"`
		Terminated *struct {
			ExitCode int `json:"exitCode"`
		} `json:"terminated"`
	} `json:"state"`
}

// why says why a container is not ready; "" when it is, or is on its way.
func (c containerStatus) why() string {
	switch {
	case c.State.Terminated != nil && c.State.Terminated.ExitCode == 0:
		return ""
	case c.State.Terminated != nil:
		return fmt.Sprintf("exit status %d", c.State.Terminated.ExitCode)
	case c.State.Waiting != nil && c.State.Waiting.Reason != "PodInitializing" && c.State.Waiting.Reason != "ContainerCreating":
		return strings.TrimSpace(c.State.Waiting.Reason + " " + c.State.Waiting.Message)
	case c.State.Waiting == nil && !c.Ready:
		return "runs, but is not ready"
	}
	return ""
}

type podStatus struct {
	Metadata struct {
		Name      string `json:"name"`
		Namespace string `json:"namespace"`
	} `json:"metadata"`
	Spec struct {
		NodeName string `json:"nodeName"`
	} `json:"spec"`
	Status struct {
		Init       []containerStatus `json:"initContainerStatuses"`
		Containers []containerStatus `json:"containerStatuses"`
	} `json:"status"`
}

// StuckContainers lists the containers of a namespace that are not ready, with the reason.
func (c *Client) StuckContainers(ctx context.Context, namespace string) ([]Stuck, error) {
	var list struct {
		Items []podStatus `json:"items"`
	}
	if err := c.Get(ctx, "/api/v1/namespaces/"+namespace+"/pods", &list); err != nil {
		return nil, err
	}
	var out []Stuck
	for _, p := range list.Items {
		for _, s := range append(p.Status.Init, p.Status.Containers...) {
			if why := s.why(); why != "" {
				out = append(out, Stuck{p.Metadata.Namespace, p.Metadata.Name, s.Name, p.Spec.NodeName, s.RestartCount, why})
			}
		}
	}
	return out, nil
}

// Logs returns the last lines of what a container wrote, of its former run when it has restarted.
func (c *Client) Logs(ctx context.Context, s Stuck, lines int) (string, error) {
	url := fmt.Sprintf("%s/api/v1/namespaces/%s/pods/%s/log?container=%s&tailLines=%d&previous=%t",
		c.Server, s.Namespace, s.Pod, s.Container, lines, s.Restarts > 0)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", fmt.Errorf("api: %w", err)
	}
	resp, err := c.HTTP.Do(req)
	if err != nil {
		return "", fmt.Errorf("api: %w", err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	if err != nil {
		return "", fmt.Errorf("api: read log: %w", err)
	}
	if resp.StatusCode != http.StatusOK {
		return "", fmt.Errorf("api: read log: %w", &StatusError{resp.StatusCode, message(b)})
	}
	return string(bytes.TrimSpace(b)), nil
}
