package rtnl

import (
	"errors"
	"slices"
	"testing"

	"github.com/vishvananda/netlink"
)

func TestAListThatChangedWhileItWasReadIsReadAgain(t *testing.T) {
	refused := errors.New("not permitted")
	for name, c := range map[string]struct {
		answers []error
		reads   int
		want    error
	}{
		"at once":                   {[]error{nil}, 1, nil},
		"it changed twice":          {[]error{netlink.ErrDumpInterrupted, netlink.ErrDumpInterrupted, nil}, 3, nil},
		"another error is no cause": {[]error{refused}, 1, refused},
		"it changes all the time":   {slices.Repeat([]error{netlink.ErrDumpInterrupted}, 100), mostReads, netlink.ErrDumpInterrupted},
	} {
		reads := 0
		got, err := List(func() ([]int, error) {
			reads++
			return []int{reads}, c.answers[reads-1]
		})
		if !errors.Is(err, c.want) || reads != c.reads || !slices.Equal(got, []int{reads}) {
			t.Errorf("%s: %v after %d reads: %v; want %d reads and %v", name, got, reads, err, c.reads, c.want)
		}
	}
}
