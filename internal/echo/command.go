package echo

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os/signal"
	"syscall"
	"time"
)

// Exit codes.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 3
)

// command is one subcommand; run gets what stands behind its name.
type command struct {
	name, use, about string
	run              func(ctx context.Context, c *call) error
}

// call is one run of a subcommand.
type call struct {
	flags *flag.FlagSet
	args  []string
	out   io.Writer
	err   io.Writer
}

// usageError is a wrong flag or argument.
type usageError struct{ error }

func commands() []command {
	return []command{
		{"serve", "", "serve; this is what happens without a subcommand", serve},
		{"get", "URL", "send HTTP requests and print the answers; an answer from 400 on is a failure", get},
		{"load", "URL", "send HTTP requests at a rate and say which failed and why", load},
		{"tcp", "HOST:PORT [TEXT]", "connect, print who answers, send a line and read it back", tcp},
		{"udp", "HOST:PORT [TEXT]", "send a datagram and print the answer", udp},
		{"grpc", "HOST:PORT [TEXT]", "call podway.echo.Echo/Say", rpc},
		{"ws", "URL [TEXT]", "send a message over WebSocket and print what comes back", ws},
		{"dig", "TYPE NAME [@SERVER]", "ask DNS, with the search list of /etc/resolv.conf", dig},
		{"ready", "on|off", "switch the readiness of the server on this machine", ready},
	}
}

// Main runs the command line and returns the exit code.
func Main(args []string, out, errOut io.Writer) int {
	name := "serve"
	if len(args) > 0 && args[0] != "" && args[0][0] != '-' {
		name, args = args[0], args[1:]
	}
	for _, c := range commands() {
		if c.name == name {
			return runCommand(c, args, out, errOut)
		}
	}
	code := exitUsage
	if name == "help" {
		code, errOut = exitOK, out
	}
	for _, c := range commands() {
		fmt.Fprintf(errOut, "echo %-6s %-22s %s\n", c.name, c.use, c.about)
	}
	return code
}

func runCommand(c command, args []string, out, errOut io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	fs := flag.NewFlagSet("echo "+c.name, flag.ContinueOnError)
	fs.SetOutput(errOut)
	fs.Usage = func() {
		fmt.Fprintf(errOut, "echo %s [flags] %s\n%s\n", c.name, c.use, c.about)
		fs.PrintDefaults()
	}
	err := c.run(ctx, &call{flags: fs, args: args, out: out, err: errOut})
	var wrong usageError
	switch {
	case err == nil, errors.Is(err, flag.ErrHelp):
		return exitOK
	case errors.As(err, &wrong):
		fmt.Fprintf(errOut, "echo %s: %v\n", c.name, err)
		return exitUsage
	}
	fmt.Fprintf(errOut, "echo %s: %v\n", c.name, err)
	return exitFailed
}

// parse reads flags, before and behind arguments, and returns least..most arguments.
func (c *call) parse(least, most int) ([]string, error) {
	var found []string
	for rest := c.args; ; {
		if err := c.flags.Parse(rest); err != nil {
			if errors.Is(err, flag.ErrHelp) {
				return nil, err
			}
			return nil, usageError{err}
		}
		if rest = c.flags.Args(); len(rest) == 0 {
			break
		}
		found, rest = append(found, rest[0]), rest[1:]
	}
	if len(found) < least || len(found) > most {
		c.flags.Usage()
		return nil, usageError{fmt.Errorf("got %d arguments", len(found))}
	}
	return found, nil
}

// list is a flag that may be given several times.
type list []string

func (l *list) String() string     { return fmt.Sprint(*l) }
func (l *list) Set(s string) error { *l = append(*l, s); return nil }

// serve runs the server until SIGTERM.
func serve(ctx context.Context, c *call) error {
	conf := Config{Who: Me()}
	c.flags.StringVar(&conf.HTTP, "http", ":8080", "address of HTTP/1.1, h2c, gRPC and WebSocket")
	c.flags.StringVar(&conf.TLS, "tls", "", "address of the same with TLS, such as :8443")
	c.flags.StringVar(&conf.Cert, "cert", "", "PEM file for -tls (default a certificate made at start)")
	c.flags.StringVar(&conf.Key, "key", "", "PEM file for -tls")
	c.flags.StringVar(&conf.TCP, "tcp", ":9000", "address of the TCP echo")
	c.flags.StringVar(&conf.UDP, "udp", ":9001", "address of the UDP echo")
	c.flags.DurationVar(&conf.Drain, "drain", 5*time.Second, "after SIGTERM: not ready, but served")
	c.flags.DurationVar(&conf.Grace, "grace", 20*time.Second, "after that: for requests under way")
	if _, err := c.parse(0, 0); err != nil {
		return err
	}
	s, err := Start(conf)
	if err != nil {
		return err
	}
	slog.Info("serving", "pod", conf.Who.Pod, "node", conf.Who.Node, "http", conf.HTTP, "tls", conf.TLS, "tcp", conf.TCP, "udp", conf.UDP)
	<-ctx.Done()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT) // a second ^C ends at once
	defer stop()
	if err := s.Stop(ctx); err != nil {
		slog.Warn("stopped with connections open", "err", err)
	}
	return nil
}
