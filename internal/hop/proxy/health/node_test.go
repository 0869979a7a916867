package health

import (
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"reflect"
	"testing"
	"testing/synctest"
	"time"
)

func askNode(t *testing.T, n *Node, path string) (int, nodeBody) {
	t.Helper()
	w := httptest.NewRecorder()
	n.Handler().ServeHTTP(w, httptest.NewRequest("GET", path, nil))
	var b nodeBody
	if err := json.Unmarshal(w.Body.Bytes(), &b); err != nil {
		t.Fatalf("%s: %v: %s", path, err, w.Body)
	}
	return w.Code, b
}

func TestTheOldestChangeThatWaitsTooLongMakesTheProxyUnhealthy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := NewNode(time.Minute)
		n.SetEligible(true)
		want := func(when string, healthz, livez int) {
			t.Helper()
			h, b := askNode(t, n, "/healthz")
			l, _ := askNode(t, n, "/livez")
			if h != healthz || l != livez {
				t.Errorf("%s: healthz %d, livez %d; want %d, %d", when, h, l, healthz, livez)
			}
			if well := h == 200; b.LastUpdated.Equal(b.CurrentTime) != well {
				t.Errorf("%s: lastUpdated %v at %v", when, b.LastUpdated, b.CurrentTime)
			}
		}
		want("before anything came", 200, 200)
		n.Queued()
		time.Sleep(59 * time.Second)
		n.Queued() // newer changes do not make the oldest younger
		want("a change waits", 200, 200)
		time.Sleep(2 * time.Second)
		want("a change waits too long", 503, 503)
		n.Updated("IPv4", "IPv6")
		want("it is in the rules", 200, 200)
		time.Sleep(time.Hour)
		want("nothing came for an hour", 200, 200)
		n.SetEligible(false)
		if code, b := askNode(t, n, "/healthz"); code != 503 || !b.Healthy || *b.NodeEligible {
			t.Errorf("a node that goes: %d, %+v", code, b)
		}
		if code, b := askNode(t, n, "/livez"); code != 200 || b.NodeEligible != nil || len(b.Status) != 2 || !b.Status["IPv6"].Healthy {
			t.Errorf("livez of a node that goes: %d, %+v", code, b)
		}
	})
}

func TestEachAnswerIsCountedByItsStatus(t *testing.T) {
	n := NewNode(time.Minute)
	var got []string
	n.Answered(func(path string, code int) { got = append(got, fmt.Sprint(path, code)) })
	askNode(t, n, "/healthz")
	askNode(t, n, "/livez")
	if want := []string{"healthz503", "livez200"}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
