package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/podway/podway/internal/nettest/vm"
)

// runEmulated measures one Service with 1,000 endpoints in a machine whose kernel has IPVS.
func runEmulated(ctx context.Context) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	m := vm.Machine{Timeout: 20 * time.Minute, MiB: 1536, Out: os.Stdout,
		Args: []string{self, "-sizes", "1x1000", "-lanes", strings.Join(inMachine, ","), "-rounds", "5", "-window", "4s"}}
	code, err := m.Run(ctx)
	if err == nil && code != 0 {
		err = fmt.Errorf("in the machine it ended with exit code %d", code)
	}
	return err
}
