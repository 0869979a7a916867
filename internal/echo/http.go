package echo

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Reply is what the server says of a request, in JSON.
type Reply struct {
	Pod            string      `json:"pod"`
	Namespace      string      `json:"namespace,omitempty"`
	Node           string      `json:"node,omitempty"`
	Client         string      `json:"client"`
	Host           string      `json:"host"`
	Method         string      `json:"method"`
	Path           string      `json:"path"`
	Query          string      `json:"query,omitempty"`
	Proto          string      `json:"proto"`
	TLS            bool        `json:"tls"`
	ForwardedFor   string      `json:"forwardedFor,omitempty"`
	ForwardedProto string      `json:"forwardedProto,omitempty"`
	Headers        http.Header `json:"headers"`
	BodyBytes      int64       `json:"bodyBytes,omitempty"`
	Body           string      `json:"body,omitempty"` // its beginning
}

// PodHeader names the Pod in every answer, so that a client need not read the body.
const PodHeader = "Echo-Pod"

// maxBody is how much of a body is said back.
const maxBody = 4096

// handler serves all of HTTP. While draining it asks clients to come back over another connection.
func (s *Server) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/", s.echo)
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", s.readyz)
	mux.HandleFunc("POST /readyz/on", s.setReady(true))
	mux.HandleFunc("POST /readyz/off", s.setReady(false))
	mux.HandleFunc("/sleep", s.sleep)
	mux.HandleFunc("/bytes", s.bytes)
	mux.HandleFunc("/status", s.status)
	mux.Handle("/ws", webSocket(s.c.Who))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor == 2 && strings.HasPrefix(r.Header.Get("Content-Type"), "application/grpc") {
			s.grpc.ServeHTTP(w, r)
			return
		}
		w.Header().Set(PodHeader, s.c.Who.Pod)
		if s.draining.Load() && r.Header.Get("Upgrade") == "" {
			w.Header().Set("Connection", "close") // HTTP/2: GOAWAY
		}
		mux.ServeHTTP(w, r)
	})
}

func (s *Server) reply(r *http.Request) Reply {
	var body strings.Builder
	n, _ := io.Copy(&body, io.LimitReader(r.Body, maxBody))
	rest, _ := io.Copy(io.Discard, r.Body)
	return Reply{Pod: s.c.Who.Pod, Namespace: s.c.Who.Namespace, Node: s.c.Who.Node, Client: r.RemoteAddr, Host: r.Host, Method: r.Method,
		Path: r.URL.Path, Query: r.URL.RawQuery, Proto: r.Proto, TLS: r.TLS != nil, ForwardedFor: r.Header.Get("X-Forwarded-For"),
		ForwardedProto: r.Header.Get("X-Forwarded-Proto"), Headers: r.Header, BodyBytes: n + rest, Body: body.String()}
}

// echo says who answered and what it saw.
func (s *Server) echo(w http.ResponseWriter, r *http.Request) {
	reply := s.reply(r)
	if strings.Contains(r.Header.Get("Accept"), "application/json") || r.URL.Query().Get("format") == "json" {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(reply)
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = io.WriteString(w, reply.text())
}

func (r Reply) text() string {
	var b strings.Builder
	line := func(key, value string) {
		if value != "" {
			fmt.Fprintf(&b, "%-10s %s\n", key, value)
		}
	}
	line("pod", r.Pod)
	line("namespace", r.Namespace)
	line("node", r.Node)
	line("client", r.Client)
	line("host", r.Host)
	line("request", strings.TrimSpace(r.Method+" "+r.Path+" "+r.Query))
	line("protocol", r.Proto)
	line("tls", map[bool]string{true: "yes", false: "no"}[r.TLS])
	var names []string
	for name := range r.Headers {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		line("header", name+": "+strings.Join(r.Headers[name], ", "))
	}
	if r.BodyBytes > 0 {
		line("body", fmt.Sprintf("%d bytes: %s", r.BodyBytes, r.Body))
	}
	return b.String()
}

func (s *Server) readyz(w http.ResponseWriter, _ *http.Request) {
	if !s.ready.Load() {
		http.Error(w, "not ready", http.StatusServiceUnavailable)
		return
	}
	fmt.Fprintln(w, "ready")
}

func (s *Server) setReady(ready bool) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		s.ready.Store(ready && !s.draining.Load())
		fmt.Fprintf(w, "ready %v\n", s.ready.Load())
	}
}

// number reads a query parameter of 0..max.
func number(w http.ResponseWriter, r *http.Request, name string, most int) (int, bool) {
	n, err := strconv.Atoi(r.URL.Query().Get(name))
	if err != nil || n < 0 || n > most {
		http.Error(w, fmt.Sprintf("want ?%s=0..%d", name, most), http.StatusBadRequest)
		return 0, false
	}
	return n, true
}

func (s *Server) sleep(w http.ResponseWriter, r *http.Request) {
	ms, ok := number(w, r, "ms", 600_000)
	if !ok {
		return
	}
	select {
	case <-time.After(time.Duration(ms) * time.Millisecond):
		s.echo(w, r)
	case <-r.Context().Done():
	}
}

// bytes sends n bytes: lines of digits, so that a cut or a repetition shows.
func (s *Server) bytes(w http.ResponseWriter, r *http.Request) {
	n, ok := number(w, r, "n", 1<<31-1)
	if !ok {
		return
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Content-Length", strconv.Itoa(n))
	chunk := []byte(strings.Repeat("0123456789abcde\n", 2048))
	for n > 0 {
		m, err := w.Write(chunk[:min(n, len(chunk))])
		if err != nil {
			return
		}
		n -= m
	}
}

func (s *Server) status(w http.ResponseWriter, r *http.Request) {
	code, ok := number(w, r, "code", 599)
	if !ok {
		return
	}
	if code < 200 {
		http.Error(w, "want ?code=200..599", http.StatusBadRequest)
		return
	}
	w.WriteHeader(code)
	if code != http.StatusNoContent && code != http.StatusNotModified {
		fmt.Fprintf(w, "%d by pod %s\n", code, s.c.Who.Pod)
	}
}
