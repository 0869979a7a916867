package ask

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/podway/podway/internal/flow"
	"github.com/podway/podway/internal/hop"
	"github.com/podway/podway/internal/model"
	"github.com/podway/podway/internal/trace/sockets"
)

// echo is a hop whose live state sends everything to one target.
type echo struct{ target netip.AddrPort }

func (echo) Name() string { return "proxy" }
func (echo) Apply(context.Context, *model.Snapshot, model.Change) (hop.Report, error) {
	return hop.Report{}, errors.New("ask must never apply")
}
func (echo) Declared(*model.Snapshot, flow.Flow) flow.Verdict { return flow.Verdict{} }
func (e echo) Programmed(_ context.Context, f flow.Flow) (flow.Verdict, error) {
	if f.Proto == flow.SCTP {
		return flow.Verdict{}, errors.New("nft: list map: permission denied")
	}
	return flow.Verdict{Action: flow.Forward, Targets: []netip.AddrPort{e.target}, Via: f.Dst.Addr()}, nil
}
func (echo) Remove(context.Context) error { return errors.New("ask must never remove") }

func start(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "run", "agent.sock")
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- Serve(ctx, path, Server{Hops: []hop.Hop{echo{netip.MustParseAddrPort("10.244.1.5:8080")}}, Proc: "/proc",
			Status: func() Status { return Status{Node: "n1", Rev: 7, Synced: true, Lost: time.Minute} }})
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	for range 100 {
		if _, err := os.Stat(path); err == nil {
			return path
		}
		time.Sleep(5 * time.Millisecond)
	}
	t.Fatal("the server made no socket")
	return ""
}

func TestAQuestionGoesThroughTheSocketAndBack(t *testing.T) {
	path := start(t)
	c, err := Dial(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	f := flow.Flow{From: flow.FromPod, Proto: flow.TCP, Dst: netip.MustParseAddrPort("10.96.0.7:80")}
	v, err := c.Programmed(t.Context(), "proxy", f)
	if err != nil || v.String() != "forward 10.244.1.5:8080" || v.Via != f.Dst.Addr() {
		t.Errorf("got %v %v", v, err)
	}
	if _, err := c.Programmed(t.Context(), "dns", f); !errors.Is(err, ErrOff) {
		t.Errorf("a hop that is off: got %v, want ErrOff", err)
	}
	f.Proto = flow.SCTP
	if _, err := c.Programmed(t.Context(), "proxy", f); err == nil || errors.Is(err, ErrOff) || !strings.Contains(err.Error(), "permission denied") {
		t.Errorf("a hop that cannot read its state: got %v", err)
	}
	if _, err := c.Sockets(t.Context(), "no-such-pod"); !errors.Is(err, sockets.ErrNoProcess) {
		t.Errorf("a Pod that is not here: got %v, want ErrNoProcess", err)
	}
	st, err := c.Status(t.Context())
	if err != nil || st.Node != "n1" || st.Rev != 7 || st.Lost != time.Minute || len(st.Hops) != 1 {
		t.Errorf("status: %+v %v", st, err)
	}
}

func TestTheSocketIsForRootAlone(t *testing.T) {
	info, err := os.Stat(start(t))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("got %v %v, want 0600", info.Mode(), err)
	}
}

func TestPipeAnswersEveryRequestThenEnds(t *testing.T) {
	path := start(t)
	var out bytes.Buffer
	in := strings.NewReader(`{"status":{}}` + "\n" + `{"status":{}}` + "\n" + `{}`)
	if err := Pipe(t.Context(), path, in, &out); err != nil {
		t.Fatal(err)
	}
	if got := strings.Count(out.String(), "\n"); got != 3 || !strings.Contains(out.String(), "an empty request") {
		t.Errorf("got %d answers: %s", got, out.String())
	}
	if err := Pipe(t.Context(), path+".none", strings.NewReader(""), &out); err == nil {
		t.Error("no error without a server")
	}
}

func TestAnAnswerThatComesTooLateSpendsTheConnection(t *testing.T) {
	c, err := Dial(t.Context(), start(t))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.Status(ctx); err == nil {
		t.Error("want an error after cancel")
	}
	if _, err := c.Status(t.Context()); err == nil {
		t.Error("want the connection spent")
	}
}

func TestARestartReplacesTheSocketOfADeadProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.sock")
	for range 2 {
		l, err := listen(path)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
	}
	plain := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(plain, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := listen(plain); err == nil {
		t.Error("a plain file must not be replaced")
	}
}

// starved is a listener that cannot take the first connections.
type starved struct {
	net.Listener
	fail int
}

func (l *starved) Accept() (net.Conn, error) {
	if l.fail > 0 {
		l.fail--
		return nil, syscall.EMFILE
	}
	return l.Listener.Accept()
}

func TestAConnectionThatCannotBeTakenEndsNothing(t *testing.T) {
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	s := Server{Log: slog.New(slog.DiscardHandler)}
	go func() { done <- s.serve(ctx, &starved{Listener: l, fail: 2}) }()
	c, err := net.Dial("unix", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var a Answer
	if _, err := c.Write([]byte(`{"status":{}}`)); err != nil {
		t.Fatal(err)
	}
	c.SetReadDeadline(time.Now().Add(5 * time.Second))
	if err := json.NewDecoder(c).Decode(&a); err != nil || a.Status == nil {
		t.Errorf("answer %+v, %v", a, err)
	}
	stop()
	if err := <-done; err != nil {
		t.Errorf("the end that was asked for is an error: %v", err)
	}
}
