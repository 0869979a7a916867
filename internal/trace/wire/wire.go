// Package wire carries questions and their answers over one connection: JSON values one after another, the answers in the
// order of the questions. It owns the connection's end and knows no question.
package wire

import (
	"context"
	"encoding/json"
	"io"
	"sync"
)

// Client asks over one connection. It is safe for concurrent use; the questions go one after another.
type Client struct {
	mu   sync.Mutex
	conn io.ReadWriteCloser
	in   *json.Decoder
	out  *json.Encoder
	err  error // the connection is spent
}

// NewClient asks over a connection: a unix socket, or the two streams of an exec.
func NewClient(conn io.ReadWriteCloser) *Client {
	return &Client{conn: conn, in: json.NewDecoder(conn), out: json.NewEncoder(conn)}
}

// Close ends the connection.
func (c *Client) Close() error { return c.conn.Close() }

// Ask sends one question and waits for its answer. After an error the connection is spent, also when ctx ended first: the
// answer would be taken for the next one's. Every later question has the same error.
func (c *Client) Ask(ctx context.Context, question, answer any) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return c.err
	}
	stop := context.AfterFunc(ctx, func() { _ = c.conn.Close() })
	defer stop()
	err := c.out.Encode(question)
	if err == nil {
		err = c.in.Decode(answer)
	}
	if err != nil && ctx.Err() != nil {
		err = ctx.Err()
	}
	c.err = err
	return err
}
