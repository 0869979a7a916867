package observe

import (
	"bytes"
	"errors"
	"io"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestHealthSaysWhichCheckFails(t *testing.T) {
	s := &Server{Metrics: NewRegistry(), Live: map[string]Check{"proxy": func() error { return nil }},
		Ready: map[string]Check{"proxy": func() error { return nil }, "dns": func() error { return errors.New("no view yet") }}}
	for path, want := range map[string]struct {
		status int
		body   string
	}{
		"/healthz": {200, `"proxy":"ok"`}, "/livez": {200, `"proxy":"ok"`},
		"/readyz": {503, `"dns":"no view yet"`}, "/metrics": {200, "go_goroutines"}, "/other": {404, ""},
	} {
		w := httptest.NewRecorder()
		s.handler().ServeHTTP(w, httptest.NewRequest("GET", path, nil))
		body, _ := io.ReadAll(w.Result().Body)
		if w.Code != want.status || !strings.Contains(string(body), want.body) {
			t.Errorf("%s: got %d %.200s, want %d with %s", path, w.Code, body, want.status, want.body)
		}
	}
}

func TestAnAddressInUseIsAnErrorThatNamesIt(t *testing.T) {
	s := &Server{Addr: "127.0.0.1:99999", Metrics: NewRegistry()}
	if err := s.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "127.0.0.1:99999") {
		t.Errorf("got %v", err)
	}
}

func TestLogFormats(t *testing.T) {
	var b bytes.Buffer
	l, err := NewLogger(&b, "json", "info")
	if err != nil {
		t.Fatal(err)
	}
	l.Info("applied", "hop", "proxy")
	l.Debug("not shown")
	if got := b.String(); !strings.Contains(got, `"hop":"proxy"`) || strings.Contains(got, "not shown") {
		t.Error(got)
	}
	for _, c := range [][2]string{{"xml", "info"}, {"text", "loud"}} {
		if _, err := NewLogger(&b, c[0], c[1]); err == nil {
			t.Errorf("%v: want an error", c)
		}
	}
}
