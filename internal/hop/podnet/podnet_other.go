//go:build !linux

package podnet

import (
	"errors"
	"fmt"
)

// New says that there are no nodes of this operating system.
func New(Options) (*Hop, error) {
	return nil, fmt.Errorf("podnet: %w: nodes run Linux", errors.ErrUnsupported)
}
