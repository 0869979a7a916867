package supervisor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/podway/podway/internal/lab/spec"
)

// inFolder calls f with a short path of the folder: a socket's path may be 107 bytes long, a folder's 4095.
func inFolder(dir string, f func(short string) error) error {
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("lab: %s: %w", dir, err)
	}
	defer unix.Close(fd)
	return f(fmt.Sprintf("/proc/self/fd/%d", fd))
}

// Listen opens the control socket. A former supervisor's is replaced: the lock says that it is gone.
func Listen(dir string) (net.Listener, error) {
	path := filepath.Join(dir, spec.SocketName)
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("lab: control socket: %w", err)
	}
	var l *net.UnixListener
	err := inFolder(dir, func(short string) (err error) {
		l, err = net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(short, spec.SocketName), Net: "unix"})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("lab: control socket: %w", err)
	}
	l.SetUnlinkOnClose(false) // its short path means something else by then
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, fmt.Errorf("lab: control socket: %w", err)
	}
	return l, nil
}

func (s *supervisor) serve(l net.Listener, stop func()) {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /status", func(w http.ResponseWriter, r *http.Request) {
		revision, err := strconv.Atoi(r.FormValue("after"))
		if err != nil {
			revision = -1
		}
		ctx, cancel := context.WithTimeout(r.Context(), 10*time.Second)
		defer cancel()
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(s.after(ctx, revision))
	})
	mux.HandleFunc("POST /stop", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusAccepted)
		stop()
	})
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		slog.Error("control socket ended", "error", err)
	}
}

// Remote asks the supervisor of a folder.
type Remote struct{ http http.Client }

// Connect makes a Remote. It does not say whether anybody answers.
func Connect(dir string) *Remote {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		var conn net.Conn
		err := inFolder(dir, func(short string) (err error) {
			conn, err = (&net.Dialer{}).DialContext(ctx, "unix", filepath.Join(short, spec.SocketName))
			return err
		})
		return conn, err
	}
	return &Remote{http.Client{Transport: &http.Transport{DialContext: dial}}}
}

// gone says whether the error of a question means that nobody is there to answer.
func gone(err error) bool {
	return errors.Is(err, unix.ECONNREFUSED) || errors.Is(err, unix.ENOENT)
}

// Status returns the first status after a revision (-1: the one there is), waiting up to ten seconds for it.
// ErrGone when there is no supervisor.
func (r *Remote) Status(ctx context.Context, after int) (Status, error) {
	var s Status
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://supervisor/status?after="+strconv.Itoa(after), nil)
	if err != nil {
		return s, fmt.Errorf("lab: %w", err)
	}
	resp, err := r.http.Do(req)
	if gone(err) {
		return s, ErrGone
	}
	if err != nil {
		return s, fmt.Errorf("lab: ask supervisor: %w", err)
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(&s); err != nil {
		return s, fmt.Errorf("lab: ask supervisor: %w", err)
	}
	return s, nil
}

// Stop tells the supervisor to take everything down. It returns at once.
func (r *Remote) Stop(ctx context.Context) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://supervisor/stop", nil)
	if err != nil {
		return fmt.Errorf("lab: %w", err)
	}
	resp, err := r.http.Do(req)
	if gone(err) {
		return ErrGone
	}
	if err != nil {
		return fmt.Errorf("lab: stop supervisor: %w", err)
	}
	return resp.Body.Close()
}

// ErrGone says that no supervisor runs in the folder.
var ErrGone = errors.New("no supervisor runs here")
