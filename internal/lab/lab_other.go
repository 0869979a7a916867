//go:build !linux

package lab

import (
	"context"
	"errors"
	"fmt"
	"io"
)

var errNotLinux = fmt.Errorf("lab: a cluster is made of Linux namespaces and needs Linux: %w", errors.ErrUnsupported)

// Up needs Linux.
func Up(context.Context, Options, Manifests, io.Writer) error { return errNotLinux }

// Down needs Linux.
func Down(context.Context, string, bool, io.Writer) error { return errNotLinux }

// Exec needs Linux.
func Exec(context.Context, string, string, []string) error { return errNotLinux }

// LoadImage needs Linux.
func LoadImage(context.Context, string, string) ([]string, error) { return nil, errNotLinux }

// LoadBinary needs Linux.
func LoadBinary(context.Context, string, string, string) error { return errNotLinux }

// Inspect needs Linux.
func Inspect(context.Context, string) (Report, error) { return Report{}, errNotLinux }

// RunHidden knows no command on other systems.
func RunHidden(string, []string) error { return errNotLinux }
