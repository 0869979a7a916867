package cluster

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/podway/podway/internal/model"
)

// Clients is what Load and Watch read from. Dynamic may be nil: then there are no pools.
type Clients struct {
	Typed   kubernetes.Interface
	Dynamic dynamic.Interface
	Contact *Contact // of both; nil = only failing watches tell that the API server is lost
}

// list is one kind and how to list it.
type list struct {
	kind string
	get  func() (runtime.Object, error)
}

// Load lists every kind that the model knows, once, and returns the snapshot. A kind that may not be listed (RBAC) or
// is not there is left empty and named in missing; only a failure of all kinds is an error.
func Load(ctx context.Context, c Clients) (s *model.Snapshot, missing []string, err error) {
	b := model.NewBuilder(nil)
	lists, failed := c.lists(ctx), 0
	for _, l := range lists {
		obj, lerr := l.get()
		if lerr == nil {
			lerr = meta.EachListItem(obj, func(o runtime.Object) error {
				if m := Convert(o); m != nil {
					b.Put(m)
				}
				return nil
			})
		}
		if lerr != nil {
			failed++
			missing, err = append(missing, fmt.Sprintf("%s: %v", l.kind, lerr)), lerr
		}
	}
	if failed < len(lists) {
		err = nil
	}
	return b.Snapshot(time.Now()), missing, err
}

func (c Clients) lists(ctx context.Context) []list {
	t := c.Typed
	all := metav1.ListOptions{ResourceVersion: "0"}
	tls := metav1.ListOptions{ResourceVersion: "0", FieldSelector: tlsSecrets}
	out := []list{
		{"Services", func() (runtime.Object, error) { return t.CoreV1().Services("").List(ctx, all) }},
		{"EndpointSlices", func() (runtime.Object, error) { return t.DiscoveryV1().EndpointSlices("").List(ctx, all) }},
		{"Nodes", func() (runtime.Object, error) { return t.CoreV1().Nodes().List(ctx, all) }},
		{"Pods", func() (runtime.Object, error) { return t.CoreV1().Pods("").List(ctx, all) }},
		{"Ingresses", func() (runtime.Object, error) { return t.NetworkingV1().Ingresses("").List(ctx, all) }},
		{"IngressClasses", func() (runtime.Object, error) { return t.NetworkingV1().IngressClasses().List(ctx, all) }},
		{"TLS Secrets", func() (runtime.Object, error) { return t.CoreV1().Secrets("").List(ctx, tls) }},
		{"Deployments", func() (runtime.Object, error) { return t.AppsV1().Deployments("").List(ctx, all) }},
		{"StatefulSets", func() (runtime.Object, error) { return t.AppsV1().StatefulSets("").List(ctx, all) }},
		{"DaemonSets", func() (runtime.Object, error) { return t.AppsV1().DaemonSets("").List(ctx, all) }},
	}
	if c.Dynamic != nil {
		out = append(out, list{"AddressPools", func() (runtime.Object, error) { return c.Dynamic.Resource(PoolResource).List(ctx, all) }})
	}
	return out
}
