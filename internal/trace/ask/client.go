package ask

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"

	"github.com/podway/podway/internal/flow"
	"github.com/podway/podway/internal/trace/sockets"
	"github.com/podway/podway/internal/trace/wire"
)

// Client asks over one connection. It is safe for concurrent use; the questions go one after another.
type Client struct{ wire *wire.Client }

// NewClient asks over a connection, a unix socket or the two streams of an exec.
func NewClient(conn io.ReadWriteCloser) *Client { return &Client{wire.NewClient(conn)} }

// Dial asks the process that listens at path.
func Dial(ctx context.Context, path string) (*Client, error) {
	c, err := new(net.Dialer).DialContext(ctx, "unix", path)
	if err != nil {
		return nil, fmt.Errorf("ask: %w", err)
	}
	return NewClient(c), nil
}

// Pipe joins stdin and stdout to the process that listens at path, until either side ends: the other half of an exec.
func Pipe(ctx context.Context, path string, stdin io.Reader, stdout io.Writer) error {
	c, err := new(net.Dialer).DialContext(ctx, "unix", path)
	if err != nil {
		return fmt.Errorf("ask: %w", err)
	}
	defer c.Close()
	stop := context.AfterFunc(ctx, func() { _ = c.Close() })
	defer stop()
	go func() {
		_, _ = io.Copy(c, stdin)
		_ = c.(*net.UnixConn).CloseWrite()
	}()
	if _, err := io.Copy(stdout, c); err != nil {
		return fmt.Errorf("ask: %w", err)
	}
	return nil
}

// Close ends the connection.
func (c *Client) Close() error { return c.wire.Close() }

// Programmed asks what the hop's live state would do with f. The error is ErrOff when the hop is switched off there.
func (c *Client) Programmed(ctx context.Context, hop string, f flow.Flow) (flow.Verdict, error) {
	a, err := c.ask(ctx, Request{Hop: &HopRequest{Name: hop, Flow: f}})
	if err != nil || a.Hop == nil {
		return flow.Verdict{}, incomplete(err)
	}
	return *a.Hop, nil
}

// Sockets asks what the Pod listens on.
func (c *Client) Sockets(ctx context.Context, podUID string) (sockets.Report, error) {
	a, err := c.ask(ctx, Request{Sockets: &SocketsRequest{PodUID: podUID}})
	if err != nil || a.Sockets == nil {
		return sockets.Report{}, incomplete(err)
	}
	return *a.Sockets, nil
}

// NodeSockets asks what the node itself listens on.
func (c *Client) NodeSockets(ctx context.Context) (sockets.Report, error) {
	a, err := c.ask(ctx, Request{Sockets: &SocketsRequest{Node: true}})
	if err != nil || a.Sockets == nil {
		return sockets.Report{}, incomplete(err)
	}
	return *a.Sockets, nil
}

// PodSockets asks what many Pods listen on.
func (c *Client) PodSockets(ctx context.Context, podUIDs []string) (PodSockets, error) {
	a, err := c.ask(ctx, Request{Sockets: &SocketsRequest{PodUIDs: podUIDs}})
	if err != nil || a.Pods == nil {
		return nil, incomplete(err)
	}
	return a.Pods, nil
}

// Status asks how the agent is.
func (c *Client) Status(ctx context.Context) (Status, error) {
	a, err := c.ask(ctx, Request{Status: &StatusRequest{}})
	if err != nil || a.Status == nil {
		return Status{}, incomplete(err)
	}
	return *a.Status, nil
}

func incomplete(err error) error {
	if err != nil {
		return err
	}
	return errors.New("ask: the answer is to another question: the node runs another version of podway")
}

// ask sends one request and waits for its answer. After an error that is no *Error the connection is spent.
func (c *Client) ask(ctx context.Context, r Request) (Answer, error) {
	var a Answer
	if err := c.wire.Ask(ctx, r, &a); err != nil {
		return a, fmt.Errorf("ask: %w", err)
	}
	if a.Error != nil {
		return a, a.Error
	}
	return a, nil
}
