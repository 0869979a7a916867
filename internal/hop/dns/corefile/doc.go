// Package corefile reads the language in which CoreDNS is configured and says what it means for podway: a config.Config.
// Nothing is passed over in silence: a plugin or an option that podway does not have is an error with file and line, all
// of them at once, and what needs nothing here is noted. It opens files only through Options and serves nothing.
package corefile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/podway/podway/internal/hop/dns/config"
)

// Options are what a Corefile refers to beside its text. A nil function finds nothing.
type Options struct {
	Env      func(name string) (string, bool)       // {$NAME} and {%NAME%}
	ReadFile func(path string) ([]byte, error)      // import
	Glob     func(pattern string) ([]string, error) // import with * or ?
	Port     uint16                                 // of keys without one; 0 = config.Port
	Domain   string                                 // of `kubernetes` whose zones name none; "" = an error
}

// Problem is one thing that is wrong.
type Problem struct {
	At     config.Position
	Plugin string // "" = the language itself
	Text   string
}

func (p *Problem) Error() string {
	if p.Plugin == "" {
		return fmt.Sprintf("%s: %s", p.At, p.Text)
	}
	return fmt.Sprintf("%s: %s: %s", p.At, p.Plugin, p.Text)
}

// Parse reads the text of a Corefile called name. The error joins one *Problem for each thing that is wrong.
func Parse(name string, text []byte, o Options) (*config.Config, error) {
	o.fill()
	blocks, problems := parse(name, text, o)
	r := &reader{o: o, conf: &config.Config{}, problems: problems}
	for _, b := range blocks {
		r.block(b)
	}
	r.whole()
	if len(r.problems) > 0 {
		slices.SortStableFunc(r.problems, func(a, b *Problem) int {
			if a.At.File != b.At.File {
				return 0
			}
			return a.At.Line - b.At.Line
		})
		errs := make([]error, len(r.problems))
		for i, p := range r.problems {
			errs[i] = p
		}
		return nil, errors.Join(errs...)
	}
	return r.conf, nil
}

// Load reads a Corefile from disk, with this process's environment.
func Load(path string, o Options) (*config.Config, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("corefile: %w", err)
	}
	return Parse(path, text, FromDisk(o))
}

// FromDisk fills in the functions that read this process's environment and files.
func FromDisk(o Options) Options {
	o.Env, o.ReadFile, o.Glob = os.LookupEnv, os.ReadFile, filepath.Glob
	return o
}

func (o *Options) fill() {
	if o.Env == nil {
		o.Env = func(string) (string, bool) { return "", false }
	}
	if o.ReadFile == nil {
		o.ReadFile = func(string) ([]byte, error) { return nil, fs.ErrNotExist }
	}
	if o.Glob == nil {
		o.Glob = func(string) ([]string, error) { return nil, nil }
	}
	if o.Port == 0 {
		o.Port = config.Port
	}
}

// Kubeadm is the Corefile that kubeadm writes.
const Kubeadm = `.:53 {
    errors
    health {
       lameduck 5s
    }
    ready
    kubernetes cluster.local in-addr.arpa ip6.arpa {
       pods insecure
       fallthrough in-addr.arpa ip6.arpa
       ttl 30
    }
    prometheus :9153
    forward . /etc/resolv.conf {
       max_concurrent 1000
    }
    cache 30 {
       disable success cluster.local
       disable denial cluster.local
    }
    loop
    reload
    loadbalance
}
`
