package proxy

import (
	"context"
	"errors"
	"fmt"
)

// Owner is a backend whose names other programs have too, kube-proxy above all. Owns tells whether the rules on the host are
// podway's, of whichever process: what is not is never removed.
type Owner interface {
	Owns(ctx context.Context) (bool, error)
}

// Left reports whether a backend has left rules of its own on the host, in whichever process. A host that cannot have such
// rules has none.
func Left(ctx context.Context, b Backend) (bool, error) {
	if o, ok := b.(Owner); ok {
		mine, err := o.Owns(ctx)
		return mine && err == nil, orUnsupported(err)
	}
	r, err := b.Read(ctx, Node{})
	if err != nil {
		return false, orUnsupported(err)
	}
	return r.Text() != "", nil
}

func orUnsupported(err error) error {
	if err == nil || errors.Is(err, errors.ErrUnsupported) {
		return nil
	}
	return fmt.Errorf("read what is left: %w", err)
}
