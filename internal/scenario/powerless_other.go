//go:build !linux

package scenario

import "errors"

func powerless(func()) error { return errors.ErrUnsupported }
