package events

import (
	"testing"
	"time"

	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/podway/podway/internal/model"
)

func TestEventsNameTheNodeTheServiceAndTheReason(t *testing.T) {
	client := fake.NewClientset()
	r := New(t.Context(), client, "podway-proxy", "node-a")
	r.Node(false, "Starting", "StartKubeProxy", "")
	r.Service(model.N("shop", "cart"), "FailedToStartServiceHealthcheck", "Listen", "port 32100 is taken")
	var got []eventsv1.Event
	for end := time.Now().Add(10 * time.Second); len(got) < 2 && time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		list, err := client.EventsV1().Events("").List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		got = list.Items
	}
	seen := map[string]eventsv1.Event{}
	for _, e := range got {
		seen[e.Reason] = e
	}
	if e := seen["Starting"]; e.Regarding.Kind != "Node" || e.Regarding.Name != "node-a" || e.Type != "Normal" || e.ReportingController != "podway-proxy" || e.Action != "StartKubeProxy" {
		t.Errorf("got %+v", e)
	}
	if e := seen["FailedToStartServiceHealthcheck"]; e.Regarding.Name != "cart" || e.Namespace != "shop" || e.Type != "Warning" || e.Related == nil || e.Related.Name != "node-a" || e.Note != "port 32100 is taken" {
		t.Errorf("got %+v", e)
	}
}
