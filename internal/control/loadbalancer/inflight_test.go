package loadbalancer

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/podway/podway/internal/control/controltest"
)

// slow is an API server that takes its time for the status of one Service.
type slow struct {
	kubernetes.Interface
	name string
}

func (s slow) CoreV1() typedcorev1.CoreV1Interface { return slowCore{s.Interface.CoreV1(), s.name} }

type slowCore struct {
	typedcorev1.CoreV1Interface
	name string
}

func (s slowCore) Services(ns string) typedcorev1.ServiceInterface {
	return slowServices{s.CoreV1Interface.Services(ns), s.name}
}

type slowServices struct {
	typedcorev1.ServiceInterface
	name string
}

func (s slowServices) UpdateStatus(ctx context.Context, svc *corev1.Service, o metav1.UpdateOptions) (*corev1.Service, error) {
	if svc.Name == s.name {
		time.Sleep(time.Second)
	}
	return s.ServiceInterface.UpdateStatus(ctx, svc, o)
}

func TestAnAddressThatIsBeingWrittenIsNotGivenToAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := controltest.New()
		l := &lab{t: t, server: s, feed: controltest.NewFeed()}
		ctx, stop := context.WithCancel(context.Background())
		var done sync.WaitGroup
		defer func() { stop(); done.Wait() }()
		if err := l.feed.Follow(ctx, s, &done); err != nil {
			t.Fatal(err)
		}
		done.Go(func() { _ = (&Controller{Client: slow{s, "b"}}).Run(ctx, l.feed.C) })
		synctest.Wait()
		l.feed.Put(pool("p", "192.0.2.1-192.0.2.9"))
		l.create("b")
		l.create("a") // of the same second, and before b by name: it would get b's address
		time.Sleep(500 * time.Millisecond)
		l.want("a", "192.0.2.2 True IPAllocated: has 192.0.2.2")
		time.Sleep(5 * time.Second)
		l.want("a", "192.0.2.2 True IPAllocated: has 192.0.2.2")
		l.want("b", "192.0.2.1 True IPAllocated: has 192.0.2.1")
	})
}
