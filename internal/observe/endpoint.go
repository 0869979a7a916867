package observe

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"
)

// retryListen is how soon an address that could not be opened is tried again.
const retryListen = 5 * time.Second

// Endpoint serves one handler on one address for as long as the process runs.
type Endpoint struct {
	Name    string // for the log and for errors: "healthz"
	Addr    string // "" = serves nothing
	Handler http.Handler
	// HardFail makes an address that cannot be opened the end of Run; otherwise it is tried again every 5 s.
	HardFail bool
	Log      *slog.Logger
	// Failed is told of an address that cannot be opened, once until it can; optional.
	Failed func(error)
}

// Run serves until ctx ends.
func (e *Endpoint) Run(ctx context.Context) error {
	if e.Addr == "" {
		return nil
	}
	for said := false; ; {
		err := e.serve(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if !said && e.Failed != nil {
			e.Failed(err)
		}
		if e.HardFail {
			return err
		}
		if !said {
			e.Log.Error("cannot serve; will retry", "what", e.Name, "err", err)
		}
		said = true
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(retryListen):
		}
	}
}

func (e *Endpoint) serve(ctx context.Context) error {
	l, err := net.Listen("tcp", e.Addr)
	if err != nil {
		return fmt.Errorf("observe: serve %s on %s: %w", e.Name, e.Addr, err)
	}
	srv := &http.Server{Handler: e.Handler, ReadHeaderTimeout: 5 * time.Second}
	stop := context.AfterFunc(ctx, func() { _ = srv.Close() })
	defer stop()
	if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("observe: serve %s on %s: %w", e.Name, e.Addr, err)
	}
	return nil
}
