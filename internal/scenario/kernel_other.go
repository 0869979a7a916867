//go:build !linux

package scenario

import (
	"errors"
	"fmt"
)

// KernelWorld says that network namespaces are Linux's.
func KernelWorld(KernelOptions) (Maker, error) {
	return nil, fmt.Errorf("scenario: level kernel needs Linux: %w", errors.ErrUnsupported)
}
