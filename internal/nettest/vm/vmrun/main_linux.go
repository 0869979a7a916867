// Command vmrun runs a program of this machine in a virtual one (package vm), for example a test binary or a shell script
// with busybox. It decides nothing.
//
//	go run ./internal/nettest/vm/vmrun [flags] PROGRAM [ARGUMENT...]
//
// Its exit code is the program's; 124 = the program was too slow, 125 = the machine failed.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"

	"github.com/podway/podway/internal/nettest/vm"
)

func main() {
	m := vm.Machine{Out: os.Stdout, Files: map[string]string{}}
	flag.StringVar(&m.Kernel, "kernel", "", "`folder` of an unpacked kernel package")
	flag.StringVar(&m.Append, "append", "", "more words for the kernel's command line")
	flag.IntVar(&m.CPUs, "cpus", 1, "processors")
	flag.IntVar(&m.MiB, "mem", 1024, "memory in `MiB`")
	flag.DurationVar(&m.Timeout, "timeout", 0, "of the program (default 2m)")
	flag.DurationVar(&m.Silence, "silence", 0, "after which the machine counts as frozen (default 1m)")
	flag.StringVar(&m.Console, "console", "", "append what the kernel says to this `file`")
	flag.StringVar(&m.OutDir, "out", "", "`folder` for the files of /out")
	flag.BoolVar(&m.Steady, "steady", false, "the machine's clock counts instructions: no timeouts on a slow host")
	flag.StringVar(&m.Disk, "disk", "", "ext4 `image` that becomes the root; PROGRAM is then a path in it")
	flag.StringVar(&m.Dir, "dir", "", "working `directory`")
	flag.Func("m", "`modules` to load at once, separated by commas", func(s string) error {
		m.Modules = append(m.Modules, strings.Split(s, ",")...)
		return nil
	})
	flag.Func("f", "`HOST:GUEST` file or folder to copy (repeat)", func(s string) error {
		from, at, ok := strings.Cut(s, ":")
		if !ok {
			return fmt.Errorf("%q is not HOST:GUEST", s)
		}
		m.Files[at] = from
		return nil
	})
	flag.Func("e", "`K=V` for the program's environment (repeat)", func(s string) error {
		m.Env = append(m.Env, s)
		return nil
	})
	flag.Parse()
	m.Args = flag.Args()
	if len(m.Args) == 0 {
		flag.Usage()
		os.Exit(125)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	code, err := m.Run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 125
	}
	os.Exit(code)
}
