package wire

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"sync"
	"testing"
)

type message struct{ N int }

// doubling answers each number with its double until the connection ends.
func doubling(t *testing.T, c net.Conn) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer c.Close()
		for in, out := json.NewDecoder(c), json.NewEncoder(c); ; {
			var m message
			if in.Decode(&m) != nil || out.Encode(message{2 * m.N}) != nil {
				return
			}
		}
	}()
	t.Cleanup(func() { c.Close(); <-done })
}

func TestEveryQuestionGetsItsOwnAnswer(t *testing.T) {
	here, there := net.Pipe()
	doubling(t, there)
	c := NewClient(here)
	defer c.Close()
	var all sync.WaitGroup
	for n := range 20 {
		all.Go(func() {
			var got message
			if err := c.Ask(t.Context(), message{n}, &got); err != nil || got.N != 2*n {
				t.Errorf("%d: %d, %v", n, got.N, err)
			}
		})
	}
	all.Wait()
}

func TestAConnectionOnWhichAnAnswerIsMissingIsSpent(t *testing.T) {
	here, there := net.Pipe() // nobody answers
	defer there.Close()
	c := NewClient(here)
	ctx, stop := context.WithCancel(t.Context())
	stop()
	for range 2 {
		if err := c.Ask(ctx, message{1}, new(message)); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
		ctx = t.Context() // would wait for an answer
	}
}
