package corefile

import (
	"os"

	"github.com/podway/podway/internal/hop/dns/config"
)

// Follower reads a Corefile again when it, or a file that it imports, has changed. A ConfigMap that is mounted changes by a
// swapped link, so texts are compared, not files.
type Follower struct {
	path string
	o    Options
	last string
}

// Follow reads the Corefile for the first time.
func Follow(path string, o Options) (*Follower, *config.Config, error) {
	f := &Follower{path: path, o: FromDisk(o)}
	c, _, err := f.read()
	return f, c, err
}

// Changed returns what the Corefile says now, or its error, if that is not what was returned the last time; else nil.
func (f *Follower) Changed() (*config.Config, error) {
	c, changed, err := f.read()
	if !changed {
		return nil, nil
	}
	return c, err
}

func (f *Follower) read() (c *config.Config, changed bool, err error) {
	all := ""
	o := f.o
	o.ReadFile = func(path string) ([]byte, error) {
		b, err := os.ReadFile(path)
		all += path + "\x00" + string(b) + "\x00"
		return b, err
	}
	text, err := o.ReadFile(f.path)
	if err == nil {
		c, err = Parse(f.path, text, o)
	}
	if err != nil {
		all += err.Error()
	}
	changed = all != f.last
	f.last = all
	return c, changed, err
}
