// Package hop is the contract that every hop of the way keeps, and nothing else. The suite that checks it is hoptest.
package hop

import (
	"context"
	"time"

	"github.com/podway/podway/internal/flow"
	"github.com/podway/podway/internal/model"
)

// Hop is one stop on the way of a request: dns, announce, ingress, proxy, podnet. Its methods are called from one
// goroutine at a time, except Declared and Programmed, which may be called from any.
type Hop interface {
	Name() string

	// Apply makes the node's live state what s says. c hints at what differs from the last snapshot that was applied
	// without error; after an error, and the first time, it is Everything. Applying the same snapshot twice changes
	// nothing. An error leaves the old or the new state for each object, never less than that, and is retried.
	Apply(ctx context.Context, s *model.Snapshot, c model.Change) (Report, error)

	// Declared is what the API says should happen to f at this hop. It is pure: no I/O, no lock, any machine.
	Declared(s *model.Snapshot, f flow.Flow) flow.Verdict

	// Programmed is what the live state of this node would do to f; it reads, and never writes.
	Programmed(ctx context.Context, f flow.Flow) (flow.Verdict, error)

	// Remove takes away all that this hop ever made on this host, told by its marks alone, and leaves an empty host.
	Remove(ctx context.Context) error
}

// Report says what an Apply did.
type Report struct {
	Changed  int            // objects written to the kernel (or entries of a table swapped)
	Full     bool           // everything was rendered, not only what changed
	Took     time.Duration  // of the whole Apply
	Findings []flow.Finding // all that is wrong now, not only what is new; it did not stop the rest
}
