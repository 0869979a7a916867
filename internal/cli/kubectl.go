package cli

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/podway/podway/internal/lab"
)

func newKubectl() *cobra.Command {
	return &cobra.Command{
		Use:   "kubectl [--dir DIR] ARGS...",
		Short: "kubectl for the cluster of `podway up`",
		Long: `Runs the kubectl that comes with the cluster, with the cluster's kubeconfig. Everything behind "kubectl" is its own,
flags too; only a --dir in front names another cluster's folder.`,
		DisableFlagParsing: true,
		RunE: func(_ *cobra.Command, args []string) error {
			dir, args, err := leadingDir(args)
			if err != nil {
				return err
			}
			program, first, env, err := lab.Kubectl(dir)
			if err != nil {
				return err
			}
			argv := append(append([]string{program}, first...), args...)
			err = syscall.Exec(program, argv, append(os.Environ(), env...))
			if errors.Is(err, os.ErrNotExist) {
				return fmt.Errorf("%s: %w; it is the program that podway up was started with", program, err)
			}
			return fmt.Errorf("%s: %w", program, err)
		},
	}
}

// leadingDir takes a --dir off the front of arguments that belong to another program.
func leadingDir(args []string) (dir string, rest []string, err error) {
	if len(args) == 0 {
		return labDir(""), args, nil
	}
	if value, ok := strings.CutPrefix(args[0], "--dir="); ok {
		return labDir(value), args[1:], nil
	}
	if args[0] != "--dir" {
		return labDir(""), args, nil
	}
	if len(args) == 1 {
		return "", nil, usage("--dir wants a folder")
	}
	return labDir(args[1]), args[2:], nil
}
