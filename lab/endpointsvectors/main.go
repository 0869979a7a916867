// Command endpointsvectors writes what kube-controller-manager's endpoints and endpointslice-mirroring controllers make of
// random Services, Pods and hand-written Endpoints, as test data for podway's controller:
//
//	cd lab && go run ./endpointsvectors > ../internal/control/endpointslice/testdata/endpoints.json
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/controller/endpoint"
	"k8s.io/kubernetes/pkg/controller/endpointslicemirroring"
)

// vector is one cluster and what came of it.
type vector struct {
	Services []*corev1.Service
	Pods     []*corev1.Pod
	ByHand   []*corev1.Endpoints //nolint:staticcheck // deprecated, and what this is about

	Endpoints []corev1.Endpoints //nolint:staticcheck // as above
	Slices    []discoveryv1.EndpointSlice
}

func main() {
	cases := flag.Int("cases", 60, "how many clusters")
	seed := flag.Uint64("seed", 1, "the first seed")
	flag.Parse()
	klog.SetLogger(klog.New(nil))
	enc := json.NewEncoder(os.Stdout)
	for i := range *cases {
		v := random(*seed + uint64(i))
		if err := v.run(); err != nil {
			fmt.Fprintln(os.Stderr, "endpointsvectors:", err)
			os.Exit(1)
		}
		if err := enc.Encode(v); err != nil {
			fmt.Fprintln(os.Stderr, "endpointsvectors:", err)
			os.Exit(1)
		}
	}
}

// run lets both controllers work until nothing changes any more.
func (v *vector) run() error {
	var objs []runtime.Object
	for _, s := range v.Services {
		objs = append(objs, s)
	}
	for _, p := range v.Pods {
		objs = append(objs, p)
	}
	for _, e := range v.ByHand {
		objs = append(objs, e)
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	client := fake.NewClientset(objs...)
	made := 0
	client.PrependReactor("create", "endpointslices", func(a clienttesting.Action) (bool, runtime.Object, error) {
		s := a.(clienttesting.CreateAction).GetObject().(*discoveryv1.EndpointSlice)
		made++
		s.Name, s.UID = fmt.Sprintf("%s%04d", s.GenerateName, made), types.UID(fmt.Sprint("slice-", made))
		return false, nil, nil
	})
	inf := informers.NewSharedInformerFactory(client, 0)
	core, disc := inf.Core().V1(), inf.Discovery().V1()
	ep := endpoint.NewEndpointController(ctx, core.Pods(), core.Services(), core.Endpoints(), client, 0)
	mirror := endpointslicemirroring.NewController(ctx, core.Endpoints(), disc.EndpointSlices(), core.Services(), 1000, client, 0)
	inf.Start(ctx.Done())
	inf.WaitForCacheSync(ctx.Done())
	go ep.Run(ctx, 2)
	go mirror.Run(ctx, 2)
	for last, same := "", 0; same < 5; time.Sleep(50 * time.Millisecond) {
		eps, err := client.CoreV1().Endpoints("").List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		slices, err := client.DiscoveryV1().EndpointSlices("").List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		v.Endpoints, v.Slices = eps.Items, slices.Items
		now, err := json.Marshal([]any{eps.Items, slices.Items})
		if err != nil {
			return err
		}
		if same++; string(now) != last {
			last, same = string(now), 0
		}
	}
	return nil
}
