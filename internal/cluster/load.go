package cluster

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
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

// list is one kind and how to list it. An optional one may be missing in a cluster where nothing is wrong.
type list struct {
	kind     string
	get      func() (runtime.Object, error)
	optional bool
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
		if l.optional && apierrors.IsNotFound(lerr) {
			continue
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
		{kind: "Services", get: func() (runtime.Object, error) { return t.CoreV1().Services("").List(ctx, all) }},
		{kind: "EndpointSlices", get: func() (runtime.Object, error) { return t.DiscoveryV1().EndpointSlices("").List(ctx, all) }},
		{kind: "Nodes", get: func() (runtime.Object, error) { return t.CoreV1().Nodes().List(ctx, all) }},
		{kind: "Pods", get: func() (runtime.Object, error) { return t.CoreV1().Pods("").List(ctx, all) }},
		{kind: "Ingresses", get: func() (runtime.Object, error) { return t.NetworkingV1().Ingresses("").List(ctx, all) }},
		{kind: "IngressClasses", get: func() (runtime.Object, error) { return t.NetworkingV1().IngressClasses().List(ctx, all) }},
		{kind: "TLS Secrets", get: func() (runtime.Object, error) { return t.CoreV1().Secrets("").List(ctx, tls) }},
		{kind: "ServiceCIDRs", get: func() (runtime.Object, error) { return t.NetworkingV1().ServiceCIDRs().List(ctx, all) }, optional: true},
		{kind: "Deployments", get: func() (runtime.Object, error) { return t.AppsV1().Deployments("").List(ctx, all) }},
		{kind: "StatefulSets", get: func() (runtime.Object, error) { return t.AppsV1().StatefulSets("").List(ctx, all) }},
		{kind: "DaemonSets", get: func() (runtime.Object, error) { return t.AppsV1().DaemonSets("").List(ctx, all) }},
	}
	if c.Dynamic != nil {
		out = append(out, list{kind: "AddressPools", get: func() (runtime.Object, error) { return c.Dynamic.Resource(PoolResource).List(ctx, all) }})
	}
	return out
}
