// Command echo is the demo's server and client; see package internal/echo.
package main

import (
	"os"

	"github.com/podway/podway/internal/echo"
)

func main() { os.Exit(echo.Main(os.Args[1:], os.Stdout, os.Stderr)) }
