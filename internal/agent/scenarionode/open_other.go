//go:build !linux

package scenarionode

import (
	"errors"
	"fmt"

	"github.com/podway/podway/internal/hop"
	"github.com/podway/podway/internal/scenario"
)

// Hops needs Linux.
func Hops(scenario.NodeOptions) ([]hop.Hop, error) {
	return nil, fmt.Errorf("scenario: level kernel needs Linux: %w", errors.ErrUnsupported)
}
