package iptables

import (
	"context"
	"os"
	"os/exec"
	"slices"
	"strings"
)

// Variant is one of the two ways in which the tools reach the kernel; each has tables of its own.
type Variant string

// The variants.
const (
	NFT    Variant = "nft"
	Legacy Variant = "legacy"
)

// directories are where the tools are, also when PATH lacks the system's.
var directories = []string{"/usr/local/sbin", "/usr/sbin", "/sbin", "/usr/local/bin", "/usr/bin", "/bin"}

func path() string {
	return strings.Join(append(directories, os.Getenv("PATH")), ":")
}

// look returns the path of a tool, "" when it is not installed.
func look(tool string) string {
	for _, d := range strings.Split(path(), ":") {
		if s, err := os.Stat(d + "/" + tool); err == nil && !s.IsDir() && s.Mode()&0o111 != 0 {
			return d + "/" + tool
		}
	}
	return ""
}

// trio returns the path of a family's command when it is there with its restore and save, else "".
func trio(name string) string {
	if look(name+"-restore") == "" || look(name+"-save") == "" {
		return ""
	}
	return look(name)
}

// installed finds the tools of each variant: the paths of iptables and ip6tables, to which -restore and -save
// are appended.
func installed() map[Variant]map[Family]string {
	have := map[Variant]map[Family]string{}
	for _, v := range []Variant{NFT, Legacy} {
		for _, f := range Families {
			if name := trio(f.String() + "-" + string(v)); name != "" {
				if have[v] == nil {
					have[v] = map[Family]string{}
				}
				have[v][f] = name
			}
		}
	}
	plain := map[Family]string{IPv4: trio("iptables"), IPv6: trio("ip6tables")}
	if len(have) > 0 || plain[IPv4] == "" {
		return have
	}
	v := Legacy // names without a variant: the version tells
	if out, err := exec.Command(plain[IPv4], "--version").Output(); err == nil && strings.Contains(string(out), "nf_tables") {
		v = NFT
	}
	have[v] = plain
	return have
}

// hints are chains that a kubelet makes with the tools of the host.
var hints = []string{"KUBE-IPTABLES-HINT", "KUBE-KUBELET-CANARY"}

// detect chooses the variant that the host's other programs use: rules of both would not know of each other. A kubelet's
// hint says it; else the one with more rules; else nft.
func (e *Exec) detect(have map[Variant]map[Family]string) Variant {
	var order []Variant
	for _, v := range []Variant{NFT, Legacy} {
		if have[v] != nil {
			order = append(order, v)
		}
	}
	rules := make([]int, len(order))
	for i, v := range order {
		o := &Exec{ns: e.ns, variant: v, tools: have[v]}
		for _, f := range Families {
			if have[v][f] == "" {
				continue
			}
			if text, err := o.save(context.Background(), f, Mangle); err == nil && hinted(text) {
				return v
			}
		}
		rules[i] = o.countRules()
	}
	return order[slices.Index(rules, slices.Max(rules))]
}

func hinted(save string) bool {
	return slices.ContainsFunc(hints, func(h string) bool { return strings.Contains(save, "\n:"+h+" ") })
}

func (e *Exec) countRules() (n int) {
	for _, f := range Families {
		if e.tools[f] == "" {
			continue
		}
		for _, table := range []string{NAT, Filter, Mangle, "raw"} {
			if text, err := e.save(context.Background(), f, table); err == nil {
				n += strings.Count(text, "\n-")
			}
		}
	}
	return n
}

// loaded reports whether the kernel has a table of the variant legacy: it makes one when somebody asks for it.
func (e *Exec) loaded(f Family, table string) bool {
	file := "ip_tables_names"
	if f == IPv6 {
		file = "ip6_tables_names"
	}
	return slices.Contains(strings.Fields(e.proc("net/"+file)), table)
}

// hasIPv6 reports whether the kernel has IPv6, at least on loopback.
func (e *Exec) hasIPv6() bool {
	return e.proc("sys/net/ipv6/conf/all/disable_ipv6") != ""
}

// proc reads a file of /proc as it is in the namespace.
func (e *Exec) proc(name string) string {
	var b []byte
	e.in(func() (err error) {
		if rest, ok := strings.CutPrefix(name, "net/"); ok {
			name = "thread-self/net/" + rest
		}
		b, err = os.ReadFile("/proc/" + name)
		return err
	})
	return string(b)
}
