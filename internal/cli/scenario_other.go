//go:build !linux

package cli

import (
	"errors"
	"fmt"

	"github.com/podway/podway/internal/hop"
	"github.com/podway/podway/internal/scenario"
)

func scenarioHops(scenario.NodeOptions) ([]hop.Hop, error) {
	return nil, fmt.Errorf("scenario: level kernel needs Linux: %w", errors.ErrUnsupported)
}
