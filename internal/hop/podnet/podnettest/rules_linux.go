package podnettest

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"strconv"
	"strings"

	"github.com/podway/podway/internal/kernel/nft"
)

func (h *Host) rules(t *nft.Table) {
	h.t.Helper()
	k, err := nft.Open(h.NS)
	h.Must(err)
	defer k.Close()
	h.Must(k.Apply(context.Background(), nft.Create(t)))
}

// DropForwarded makes the host's firewall one that forwards nothing, as Docker's installation does.
func (h *Host) DropForwarded() {
	h.t.Helper()
	h.rules(nft.NewTable(nft.IPv4, "filter").AddChain(&nft.Chain{
		Name: "FORWARD", Base: &nft.Base{Type: "filter", Hook: nft.Forward, Drop: true},
	}))
}

// DropTable deletes an IPv4 table.
func (h *Host) DropTable(name string) error {
	k, err := nft.Open(h.NS)
	if err != nil {
		return err
	}
	defer k.Close()
	return k.Apply(context.Background(), []nft.Op{{Kind: nft.DelTable, Table: nft.NewTable(nft.IPv4, name)}})
}

// Translate is the least that a Service proxy does: connections to vip go to target, with the host's address as source.
func (h *Host) Translate(vip, target netip.AddrPort) {
	h.t.Helper()
	f := nft.IPv6
	if vip.Addr().Is4() {
		f = nft.IPv4
	}
	dnat := nft.R(nft.DstIn(netip.PrefixFrom(vip.Addr(), vip.Addr().BitLen())),
		nft.Immediate{Dst: 0, Data: nft.Key(nil).Addr(target.Addr()).String()},
		nft.Immediate{Dst: 4, Data: nft.Key(nil).Port(target.Port()).String()[:2]},
		nft.NAT{Family: f, AddrReg: 0, HasPort: true, PortReg: 4})
	t := nft.NewTable(f, "service")
	for _, hook := range []nft.Hook{nft.Prerouting, nft.Output} {
		t.AddChain(&nft.Chain{Name: hook.String(), Base: &nft.Base{Type: "nat", Hook: hook, Priority: nft.PriorityDstNAT}, Rules: []nft.Rule{dnat}})
	}
	h.rules(t.AddChain(&nft.Chain{
		Name: "postrouting", Base: &nft.Base{Type: "nat", Hook: nft.Postrouting, Priority: nft.PrioritySrcNAT - 1},
		Rules: []nft.Rule{nft.R(nft.Translated(), nft.Masquerade{FullyRandom: true})},
	}))
}

// Counter reads a network counter of the host: "Udp: InCsumErrors" of /proc/net/snmp, or a name of /proc/net/snmp6.
func (h *Host) Counter(name string) (value int) {
	h.t.Helper()
	h.Must(h.NS.Do(func() (err error) {
		if proto, field, ok := strings.Cut(name, " "); ok {
			value, err = snmp(proto, field)
			return err
		}
		b, err := os.ReadFile("/proc/thread-self/net/snmp6")
		for l := range strings.Lines(string(b)) {
			if f := strings.Fields(l); len(f) == 2 && f[0] == name {
				value, err = strconv.Atoi(f[1])
				return err
			}
		}
		return fmt.Errorf("no counter %s: %v", name, err)
	}))
	return value
}

// snmp reads a table of two lines for each protocol: names, values.
func snmp(proto, field string) (int, error) {
	b, err := os.ReadFile("/proc/thread-self/net/snmp")
	var names []string
	for l := range strings.Lines(string(b)) {
		f := strings.Fields(l)
		if f[0] != proto {
			continue
		}
		if names == nil {
			names = f
			continue
		}
		for i, n := range names {
			if n == field {
				return strconv.Atoi(f[i])
			}
		}
	}
	return 0, fmt.Errorf("no counter %s %s: %v", proto, field, err)
}
