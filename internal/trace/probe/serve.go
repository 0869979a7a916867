package probe

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/podway/podway/internal/trace/wire"
)

// Serve sends the probes that it reads from in, one after another, and writes an answer for each, until in ends.
func Serve(ctx context.Context, proc string, in io.Reader, out io.Writer) error {
	dec, enc := json.NewDecoder(in), json.NewEncoder(out)
	for {
		var r Request
		err := dec.Decode(&r)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("probe: read request: %w", err)
		}
		if err := enc.Encode(Do(ctx, proc, r)); err != nil {
			return fmt.Errorf("probe: write answer: %w", err)
		}
	}
}

// Client has probes sent by a Serve at the other end of a connection.
type Client struct{ wire *wire.Client }

// NewClient speaks over the two streams of an exec.
func NewClient(conn io.ReadWriteCloser) *Client { return &Client{wire.NewClient(conn)} }

// Close ends the connection.
func (c *Client) Close() error { return c.wire.Close() }

// Do has one probe sent. After an error the connection is spent.
func (c *Client) Do(ctx context.Context, r Request) (a Answer, err error) {
	if err = c.wire.Ask(ctx, r, &a); err != nil {
		err = fmt.Errorf("probe: %w", err)
	}
	return a, err
}
