// Command podway is the whole way from a request to a Pod in one binary: see `podway --help`.
package main

import (
	"os"

	"github.com/podway/podway/internal/cli"
)

func main() { os.Exit(cli.Main(os.Args[1:], os.Stdout, os.Stderr)) }
