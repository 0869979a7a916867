package apiserver

import (
	"io"
	"net/http"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
)

// watcher is one watch.
type watcher struct {
	s     *Server
	st    *store
	k     kind
	match func(runtime.Object) bool
	out   *stream
	flush func()
}

// watch streams changes until the client goes, its time is over, or the version is forgotten.
func (s *Server) watch(w http.ResponseWriter, r *http.Request, st *store, k kind, match func(runtime.Object) bool, out *encoder) {
	q := r.URL.Query()
	end := make(<-chan time.Time)
	if n, err := strconv.Atoi(q.Get("timeoutSeconds")); err == nil && n > 0 {
		t := time.NewTimer(time.Duration(n) * time.Second)
		defer t.Stop()
		end = t.C
	}
	w.Header().Set("Content-Type", out.watchType)
	w.WriteHeader(http.StatusOK)
	flush := func() {}
	if f, ok := w.(http.Flusher); ok {
		flush = f.Flush
	}
	wt := watcher{s, st, k, match, out.stream(w), flush}
	version, err := wt.begin(q.Get("resourceVersion"), q.Get("sendInitialEvents") == "true")
	for err == nil {
		flush()
		var next <-chan struct{}
		version, next, err = wt.catchUp(version)
		if err != nil {
			break
		}
		flush()
		select {
		case <-next:
		case <-end:
			return
		case <-r.Context().Done():
			return
		}
	}
	flush()
}

// begin sends the initial state when it is asked for, and says from which version on events follow.
func (w *watcher) begin(from string, initial bool) (uint64, error) {
	version, err := strconv.ParseUint(from, 10, 64)
	if err == nil && version > 0 && !initial {
		return version, nil
	}
	w.s.lists.Add(1)
	version = w.s.now()
	for i, obj := range w.st.list(w.match) {
		if err := w.out.send(watch.Added, obj); err != nil {
			return 0, err
		}
		if i%500 == 0 {
			w.flush()
		}
	}
	if !initial {
		return version, nil
	}
	return version, w.bookmark(version)
}

// bookmark says that the initial state is complete.
func (w *watcher) bookmark(version uint64) error {
	obj, err := newObject(w.k)
	if err != nil {
		return err
	}
	m, err := meta.Accessor(obj)
	if err != nil {
		return err
	}
	m.SetResourceVersion(strconv.FormatUint(version, 10))
	m.SetAnnotations(map[string]string{metav1.InitialEventsAnnotationKey: "true"})
	return w.out.send(watch.Bookmark, obj)
}

// catchUp sends what happened since a version.
func (w *watcher) catchUp(version uint64) (uint64, <-chan struct{}, error) {
	events, next, gone := w.st.since(version)
	if gone {
		_ = w.out.send(watch.Error, statusOf(http.StatusGone, metav1.StatusReasonExpired, "too old resource version"))
		return 0, nil, io.EOF
	}
	for _, e := range events {
		typ := e.typ
		if !w.match(e.obj) {
			typ = watch.Deleted // it may have matched before
		}
		if err := w.out.send(typ, e.obj); err != nil {
			return 0, nil, err
		}
		version = e.version
	}
	return version, next, nil
}
