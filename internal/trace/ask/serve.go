package ask

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/podway/podway/internal/hop"
	"github.com/podway/podway/internal/trace/sockets"
)

// Server answers for one podway process.
type Server struct {
	Hops   []hop.Hop     // those that are switched on
	Status func() Status // nil = only the hops' names are told
	Proc   string        // the host's process directory; "" = /host/proc or /proc
	Log    *slog.Logger  // nil = the default logger
}

// answerTimeout bounds one answer: reading a large rule-set takes a second.
const answerTimeout = 10 * time.Second

const acceptPause = 100 * time.Millisecond

// Serve answers on the unix socket at path until ctx ends. A socket that a former process left is replaced.
func Serve(ctx context.Context, path string, s Server) error {
	if s.Proc == "" {
		s.Proc = sockets.Procs()
	}
	if s.Log == nil {
		s.Log = slog.Default()
	}
	l, err := listen(path)
	if err != nil {
		return err
	}
	return s.serve(ctx, l)
}

// serve takes connections until ctx ends. One that cannot be taken, for lack of descriptors say, is no reason to end: the
// process has more to do than to answer trace.
func (s *Server) serve(ctx context.Context, l net.Listener) error {
	defer l.Close()
	stop := context.AfterFunc(ctx, func() { _ = l.Close() })
	defer stop()
	var wait sync.WaitGroup
	defer wait.Wait()
	for {
		c, err := l.Accept()
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, net.ErrClosed):
			return fmt.Errorf("ask: accept: %w", err)
		case err != nil:
			s.Log.Warn("connection of trace not taken", "err", err)
			time.Sleep(acceptPause)
		default:
			wait.Go(func() { s.converse(ctx, c) })
		}
	}
}

func listen(path string) (net.Listener, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, fmt.Errorf("ask: %w", err)
	}
	if info, err := os.Lstat(path); err == nil && info.Mode()&os.ModeSocket != 0 {
		_ = os.Remove(path)
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, fmt.Errorf("ask: %w", err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		_ = l.Close()
		return nil, fmt.Errorf("ask: %w", err)
	}
	return l, nil
}

// converse answers the requests of one connection in order.
func (s *Server) converse(ctx context.Context, c net.Conn) {
	defer c.Close()
	stop := context.AfterFunc(ctx, func() { _ = c.Close() })
	defer stop()
	in, out := json.NewDecoder(c), json.NewEncoder(c)
	for {
		var r Request
		err := in.Decode(&r)
		if errors.Is(err, io.EOF) || errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			_ = out.Encode(Answer{Error: &Error{codeFailed, "the request is not understood: " + err.Error()}})
			return
		}
		if err := out.Encode(s.answer(ctx, r)); err != nil {
			s.Log.Debug("trace client went away", "err", err)
			return
		}
	}
}

func (s *Server) answer(ctx context.Context, r Request) Answer {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	switch {
	case r.Hop != nil:
		return s.hop(ctx, *r.Hop)
	case r.Sockets != nil:
		return s.sockets(*r.Sockets)
	case r.Status != nil:
		return Answer{Status: s.status()}
	}
	return failed(errors.New("an empty request"))
}

func (s *Server) sockets(r SocketsRequest) Answer {
	if len(r.PodUIDs) > 0 {
		all, err := sockets.ReadAll(s.Proc, r.PodUIDs)
		if err != nil {
			return failed(err)
		}
		all[""] = sockets.Report{} // so that the answer is there when no Pod has a process
		return Answer{Pods: all}
	}
	read := func() (sockets.Report, error) { return sockets.Read(s.Proc, r.PodUID) }
	if r.Node {
		read = sockets.ReadNode
	}
	rep, err := read()
	if err != nil {
		return failed(err)
	}
	return Answer{Sockets: &rep}
}

func (s *Server) hop(ctx context.Context, r HopRequest) Answer {
	for _, h := range s.Hops {
		if h.Name() != r.Name {
			continue
		}
		v, err := h.Programmed(ctx, r.Flow)
		if err != nil {
			return failed(err)
		}
		return Answer{Hop: &v}
	}
	return failed(fmt.Errorf("%w: %s", ErrOff, r.Name))
}

func (s *Server) status() *Status {
	var st Status
	if s.Status != nil {
		st = s.Status()
	}
	if st.Hops == nil {
		for _, h := range s.Hops {
			st.Hops = append(st.Hops, h.Name())
		}
	}
	st.Conntrack = conntrack("/proc/sys/net/netfilter")
	return &st
}

// conntrack reads this network namespace's table; nil when there is none.
func conntrack(dir string) *Conntrack {
	read := func(name string) int {
		data, _ := os.ReadFile(filepath.Join(dir, name))
		n, _ := strconv.Atoi(strings.TrimSpace(string(data)))
		return n
	}
	c := &Conntrack{Count: read("nf_conntrack_count"), Max: read("nf_conntrack_max")}
	if c.Max == 0 {
		return nil
	}
	return c
}

func failed(err error) Answer {
	e := &Error{codeFailed, err.Error()}
	switch {
	case errors.Is(err, ErrOff):
		e.Code = codeOff
	case errors.Is(err, sockets.ErrNoProcess):
		e.Code = codeNoProcess
	}
	return Answer{Error: e}
}
