package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/podway/podway/internal/agent/scenarionode"
	"github.com/podway/podway/internal/hop/proxy/config"
	"github.com/podway/podway/internal/scenario"
)

func newScenario() *cobra.Command {
	c := &cobra.Command{
		Use:   "scenario",
		Short: "Check what must reach what, from files: against the model, the rules or a real kernel",
		Long: `A scenario is a txtar file with the objects of a cluster and sentences about what must reach what (docs/scenarios.md).
The same file runs at three levels: the model alone, the rules that would be written, and real packets between network
namespaces (as root; nothing is made in the host's own network).`,
	}
	c.AddCommand(newScenarioRun(), newScenarioList(), newScenarioNode())
	return c
}

func newScenarioRun() *cobra.Command {
	level, mode, o := string(scenario.Model), "", scenario.Options{}
	c := &cobra.Command{
		Use:   "run FILE|FOLDER...",
		Short: "Run scenarios and print each expectation with ok or FAIL",
		Long: `Runs scenarios and prints one line for each expectation; the last line counts them. A folder stands for all its .txtar
files.

Exits with 0 when all expectations hold, 1 when one does not, 2 when the machine cannot run the level, 3 for a file that
cannot be read.`,
		Example: `  podway scenario run scenarios
  podway scenario run --level kernel scenarios/hairpin.txtar`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			var err error
			if o.Level, err = scenario.ParseLevel(level); err != nil {
				return usage("--level: %w", err)
			}
			files, err := scenarioFiles(args)
			if err != nil {
				return err
			}
			if mode != "" && !slices.Contains(config.Modes, mode) {
				return usage("--proxy-mode: %q is none of %s", mode, strings.Join(config.Modes, ", "))
			}
			if o.World, err = scenarioWorld(o.Level, mode); err != nil {
				return exitWith(ExitUnknown, err)
			}
			if o.AtOnce == 0 && o.Level == scenario.Kernel {
				o.AtOnce = runtime.GOMAXPROCS(0)
			}
			if !scenario.RunAll(cmd.Context(), cmd.OutOrStdout(), files, o) {
				return exitWith(ExitBroken, nil)
			}
			return nil
		},
	}
	c.Flags().StringVar(&level, "level", level, "model, rules or kernel")
	c.Flags().StringVar(&mode, "proxy-mode", "", "backend of the service proxy at levels rules and kernel (default nftables)")
	values(c, "level", string(scenario.Model), string(scenario.Rules), string(scenario.Kernel))
	values(c, "proxy-mode", config.Modes...)
	c.Flags().IntVar(&o.AtOnce, "parallel", 0, "files at the same time (default: one; at level kernel as many as processors)")
	c.Flags().BoolVarP(&o.Failures, "quiet", "q", false, "print only what fails")
	c.Flags().BoolVar(&o.Timings, "timings", false, "print how long each file took")
	return c
}

func newScenarioList() *cobra.Command {
	return &cobra.Command{
		Use:   "list FILE|FOLDER...",
		Short: "List scenarios with what each proves",
		Args:  cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			files, err := scenarioFiles(args)
			if err != nil {
				return err
			}
			for _, f := range files {
				n := 0
				for _, s := range f.Steps {
					n += len(s.Expect)
				}
				fmt.Fprintf(cmd.OutOrStdout(), "%s\t%s, %s\t%s\n", f.Name, plural(len(f.Steps), "step"), plural(n, "expectation"), strings.Join(strings.Fields(f.About), " "))
			}
			return nil
		},
	}
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

func newScenarioNode() *cobra.Command {
	return &cobra.Command{
		Use: "node", Short: "One node of a scenario at level kernel: requests on stdin, answers on stdout", Hidden: true, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if code := scenario.NodeMain(cmd.Context(), cmd.InOrStdin(), cmd.OutOrStdout(), scenarionode.Hops); code != 0 {
				return exitWith(code, errors.New("scenario node: input or output failed"))
			}
			return nil
		},
	}
}

// scenarioFiles reads all scenarios that the arguments name.
func scenarioFiles(args []string) ([]*scenario.File, error) {
	var files []*scenario.File
	var errs []error
	for _, a := range args {
		err := filepath.WalkDir(a, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || path != a && filepath.Ext(path) != ".txtar" {
				return err
			}
			f, err := scenario.Load(path)
			if err != nil {
				errs = append(errs, err)
				return nil
			}
			files = append(files, f)
			return nil
		})
		if err != nil {
			errs = append(errs, err)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, usage("%w", err)
	}
	if len(files) == 0 {
		return nil, usage("no .txtar file in %s", strings.Join(args, " "))
	}
	return files, nil
}

// scenarioWorld is how worlds of a level are made.
func scenarioWorld(l scenario.Level, proxyMode string) (scenario.Maker, error) {
	switch l {
	case scenario.Rules:
		return scenario.RulesWorld(proxyMode)
	case scenario.Kernel:
		self, err := os.Executable()
		if err != nil {
			return nil, fmt.Errorf("find podway's own program: %w", err)
		}
		return scenario.KernelWorld(scenario.KernelOptions{Program: self, NodeArgs: []string{"scenario", "node"}, ProxyMode: proxyMode})
	}
	return scenario.ModelWorld, nil
}
