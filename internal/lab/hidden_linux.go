package lab

import (
	"fmt"
	"log/slog"
	"os"
	"strconv"

	"github.com/podway/podway/internal/lab/node"
	"github.com/podway/podway/internal/lab/supervisor"
)

// RunHidden runs one of the commands by which podway starts itself: the supervisor, and a node's two stages.
func RunHidden(command string, args []string) error {
	slog.SetDefault(slog.New(slog.NewTextHandler(os.Stderr, nil)))
	switch {
	case command == supervisor.Command && len(args) == 1:
		return supervisor.Run(args[0])
	case command == node.BootCommand && len(args) == 2:
		index, err := strconv.Atoi(args[1])
		if err != nil {
			return fmt.Errorf("lab: %s: %w", command, err)
		}
		return node.Boot(args[0], index)
	case command == node.InitCommand && len(args) == 0:
		return node.Init()
	default:
		return fmt.Errorf("lab: %s is for podway's own use", command)
	}
}
