package cli

import (
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/podway/podway/internal/lab"
)

func TestTheLabsErrorsHaveTheirExitCodes(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		want int
	}{
		"a program's own code":      {fmt.Errorf("exec: %w", lab.Exit(7)), 7},
		"a program that is nowhere": {&lab.NotStarted{Code: 127, Err: errors.New("not found")}, 127},
		"a wrong argument":          {fmt.Errorf("up: %w", new(lab.Misuse)), ExitUsage},
		"anything else":             {errors.New("no space left"), ExitBroken},
		"nothing":                   {nil, ExitOK},
	} {
		if got := exitCode(asExit(c.err), io.Discard); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}
