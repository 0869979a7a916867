package api

import (
	"context"
	"net/http"
	"slices"
	"time"
)

// Node is what the lab wants to know of a node.
type Node struct {
	Name    string
	Ready   bool
	Reason  string // of not being ready
	PodCIDR string
	Seen    time.Time // when its kubelet said so; what is older than the node's start is about a former life
}

type nodeObject struct {
	Metadata struct {
		Name string `json:"name"`
	} `json:"metadata"`
	Spec struct {
		PodCIDR string `json:"podCIDR"`
	} `json:"spec"`
	Status struct {
		Conditions []condition `json:"conditions"`
	} `json:"status"`
}

type condition struct {
	Type              string    `json:"type"`
	Status            string    `json:"status"`
	Message           string    `json:"message"`
	LastHeartbeatTime time.Time `json:"lastHeartbeatTime"`
}

// Nodes lists the nodes by name.
func (c *Client) Nodes(ctx context.Context) ([]Node, error) {
	var list struct {
		Items []nodeObject `json:"items"`
	}
	if err := c.Get(ctx, "/api/v1/nodes", &list); err != nil {
		return nil, err
	}
	nodes := make([]Node, 0, len(list.Items))
	for _, o := range list.Items {
		n := Node{Name: o.Metadata.Name, PodCIDR: o.Spec.PodCIDR, Reason: "its kubelet has not reported yet"}
		for _, cond := range o.Status.Conditions {
			if cond.Type == "Ready" {
				n.Ready, n.Reason, n.Seen = cond.Status == "True", cond.Message, cond.LastHeartbeatTime
			}
		}
		nodes = append(nodes, n)
	}
	slices.SortFunc(nodes, func(a, b Node) int {
		if len(a.Name) != len(b.Name) { // node-2 before node-10
			return len(a.Name) - len(b.Name)
		}
		if a.Name < b.Name {
			return -1
		}
		return 1
	})
	return nodes, nil
}

// DeleteNode makes the cluster forget a node, with the pods on it.
func (c *Client) DeleteNode(ctx context.Context, name string) error {
	err := c.do(ctx, http.MethodDelete, "/api/v1/nodes/"+name, "", nil, nil)
	if notFound(err) {
		return nil
	}
	return err
}
