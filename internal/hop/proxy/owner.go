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

// Layered is a backend that keeps the rules of another backend, named Base, beside its own. RemoveOwn leaves those.
type Layered interface {
	Base() string
	RemoveOwn(ctx context.Context) error
}

// removeOwn removes what is a backend's alone.
func removeOwn(ctx context.Context, b Backend) error {
	if l, ok := b.(Layered); ok {
		return l.RemoveOwn(ctx)
	}
	return b.Remove(ctx)
}

// beside reports whether rules of another backend are part of b's own.
func beside(b, other Backend) bool {
	l, ok := b.(Layered)
	return ok && l.Base() == other.Name()
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
