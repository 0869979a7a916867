// Package rtnl is what the doors that list over rtnetlink have in common. It opens nothing and knows no object.
package rtnl

import (
	"errors"

	"github.com/vishvananda/netlink"
)

// mostReads bounds how often a list is read: on a host whose routes change all the time the last, torn one has to do.
const mostReads = 20

// List reads a list until the kernel says that it did not change meanwhile.
func List[T any](read func() ([]T, error)) (out []T, err error) {
	for range mostReads {
		if out, err = read(); !errors.Is(err, netlink.ErrDumpInterrupted) {
			break
		}
	}
	return out, err
}
