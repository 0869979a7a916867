package cli

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/podway/podway/internal/lab"
)

func newKubectl() *cobra.Command {
	return &cobra.Command{
		Use:   "kubectl [--dir DIR] ARGS...",
		Short: "kubectl for the cluster of `podway up`",
		Long: `Runs the kubectl that comes with the cluster. It talks to the cluster of --dir DIR, which must stand in front; without that,
to what $KUBECONFIG names, if it is set, as trace and doctor do; else to the cluster of $` + lab.DirVariable + ` or ` + lab.DefaultDir + `.
Everything else behind "kubectl" is its own, flags too.`,
		DisableFlagParsing: true,
		RunE: func(c *cobra.Command, args []string) error {
			own := len(args) > 0 && strings.HasPrefix(args[0], "--dir")
			dir, args, err := leadingDir(args)
			if err != nil {
				return err
			}
			program, first, env, err := lab.Kubectl(dir)
			if err != nil {
				switch {
				case errors.Is(err, os.ErrPermission):
					return needsRoot(c)
				case len(args) == 0 || slices.Contains([]string{"--help", "-h", "help"}, args[0]):
					return c.Help() // the cluster's kubectl, which has help of its own, is not there
				}
				return err
			}
			if os.Getenv("KUBECONFIG") != "" && !own {
				env = slices.DeleteFunc(env, func(e string) bool { return strings.HasPrefix(e, "KUBECONFIG=") })
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
