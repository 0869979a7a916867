// Package cli is podway's command line: one file per subcommand, each of which only parses flags, calls the room that
// does the work and prints. It owns exit codes and help texts, and no behaviour.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
)

// Exit codes, the same for every subcommand.
const (
	ExitOK      = 0 // as expected
	ExitBroken  = 1 // a broken hop, a failed expectation, or an operation that failed
	ExitUnknown = 2 // could not tell
	ExitUsage   = 3 // wrong flags or arguments
)

// exitError carries an exit code with the error that goes to stderr; a nil err prints nothing.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit %d", e.code)
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

// exitWith makes an error that ends the process with the given code.
func exitWith(code int, err error) error { return &exitError{code: code, err: err} }

// usage makes an error for wrong flags or arguments: exit code 3.
func usage(format string, args ...any) error {
	return &exitError{code: ExitUsage, err: fmt.Errorf(format, args...)}
}

// commands lists the subcommands in the order that help shows them.
func commands() []*cobra.Command {
	all := []*cobra.Command{
		newTrace(),
		newDoctor(),
		newAgent(),
		newScenario(),
		newUp(),
		newDown(),
		asRoot(newStatus()),
		newKubectl(),
		asRoot(newExec()),
		newImage(),
		asRoot(newDemo()),
		newDNS(),
		newVersion(),
	}
	all = append(all, newDaemons()...)
	all = append(all, newCNI())
	return append(all, newLabHidden()...)
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "podway",
		Short: "The whole way from a request to a Pod",
		Long: `podway is the whole way from a request to a Pod in Kubernetes: DNS, LoadBalancer address, Ingress, Service,
EndpointSlice, the kernel rules of the service proxy, and the pod network; and the command that shows that way
hop by hop and names the broken step.`,
		Version:                    version,
		SilenceUsage:               true,
		SilenceErrors:              true,
		SuggestionsMinimumDistance: 2,
		Args:                       noSubcommand,
		RunE:                       func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return usage("%w\nrun '%s --help' for the flags", err, c.CommandPath())
	})
	cobra.EnableCommandSorting = false // in the order of commands
	root.AddCommand(commands()...)
	root.InitDefaultCompletionCmd()
	for _, c := range root.Commands() {
		strict(c)
	}
	return root
}

// strict makes wrong arguments of a command, and of those below it, wrong usage, whoever checks them.
func strict(c *cobra.Command) {
	if c.HasSubCommands() && c.RunE == nil && c.Run == nil {
		c.Args, c.RunE = noSubcommand, func(c *cobra.Command, _ []string) error { return c.Help() }
	}
	if check := c.Args; check != nil {
		c.Args = func(c *cobra.Command, args []string) error {
			err := check(c, args)
			if _, said := errors.AsType[*exitError](err); err == nil || said {
				return err
			}
			return usage("%w\nrun '%s --help' for the arguments", err, c.CommandPath())
		}
	}
	for _, sub := range c.Commands() {
		strict(sub)
	}
}

// values are what the shell proposes for a flag.
func values(c *cobra.Command, flag string, all ...string) {
	_ = c.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(all, cobra.ShellCompDirectiveNoFileComp)) // the flag is there
}

// asRoot lets a command run for root only, and says so before anything else.
func asRoot(c *cobra.Command) *cobra.Command {
	run := c.RunE
	c.RunE = func(c *cobra.Command, args []string) error {
		if runtime.GOOS == "linux" && euid() != 0 {
			return needsRoot(c)
		}
		return run(c, args)
	}
	return c
}

func needsRoot(c *cobra.Command) error {
	return exitWith(ExitUnknown, fmt.Errorf("%s needs root, and this is another user: sudo %s", c.CommandPath(), c.CommandPath()))
}

var euid = os.Geteuid // for tests

// noSubcommand refuses what stands where a subcommand should.
func noSubcommand(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	text := fmt.Sprintf("unknown command %q", args[0])
	if near := c.SuggestionsFor(args[0]); len(near) > 0 {
		text += "; did you mean " + strings.Join(near, ", ") + "?"
	}
	return usage("%s\nrun '%s --help' for the commands", text, c.CommandPath())
}

// Main runs the command line and returns the exit code.
func Main(args []string, stdout, stderr io.Writer) int {
	if code, ran := cniMain(os.Args[0], args); ran {
		return code
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	root := newRoot()
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	return exitCode(root.ExecuteContext(ctx), stderr)
}

func exitCode(err error, stderr io.Writer) int {
	if err == nil {
		return ExitOK
	}
	var e *exitError
	if !errors.As(err, &e) {
		fmt.Fprintln(stderr, "podway:", err)
		return ExitBroken
	}
	if e.err != nil {
		fmt.Fprintln(stderr, "podway:", e.err)
	}
	return e.code
}
