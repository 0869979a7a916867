//go:build !linux

package scenario

import (
	"errors"
	"fmt"
)

// KernelOptions are what level kernel needs beside the scenario.
type KernelOptions struct {
	Program  string
	NodeArgs []string
	Env      []string
	// ProxyMode is the backend of the hop proxy on every node; "" = the default.
	ProxyMode string
}

// KernelWorld says that network namespaces are Linux's.
func KernelWorld(KernelOptions) (Maker, error) {
	return nil, fmt.Errorf("scenario: level kernel needs Linux: %w", errors.ErrUnsupported)
}
