package podnet

import (
	"net/netip"
	"slices"

	"github.com/podway/podway/internal/kernel/nft"
	"github.com/podway/podway/internal/model"
)

// span is From..To, both included and of one family.
type span struct{ from, to netip.Addr }

// spans joins prefixes to the fewest spans that do not touch each other, in order: the kernel refuses overlaps.
func spans(prefixes []netip.Prefix) []span {
	var all []span
	for _, p := range prefixes {
		all = append(all, span{p.Masked().Addr(), model.LastAddr(p)})
	}
	slices.SortFunc(all, func(a, b span) int { return a.from.Compare(b.from) })
	var out []span
	for _, s := range all {
		if n := len(out); n > 0 && touches(out[n-1].to, s.from) {
			if s.to.Compare(out[n-1].to) > 0 {
				out[n-1].to = s.to
			}
			continue
		}
		out = append(out, s)
	}
	return out
}

// touches reports whether a span that begins at from overlaps or follows one that ends at to.
func touches(to, from netip.Addr) bool {
	if to.BitLen() != from.BitLen() {
		return false
	}
	next := to.Next()
	return !next.IsValid() || from.Compare(next) <= 0
}

// elements are the spans as those of an interval set.
func elements(prefixes []netip.Prefix) map[string]string {
	out := map[string]string{}
	for _, s := range spans(prefixes) {
		out[nft.Key(nil).Addr(s.from).Addr(s.to).String()] = ""
	}
	return out
}

// ofFamily keeps the prefixes of one family.
func ofFamily(prefixes []netip.Prefix, is4 bool) []netip.Prefix {
	var out []netip.Prefix
	for _, p := range prefixes {
		if p.Addr().Is4() == is4 {
			out = append(out, p)
		}
	}
	return out
}

// contains reports whether any of the prefixes holds the address.
func contains(prefixes []netip.Prefix, a netip.Addr) bool {
	return slices.ContainsFunc(prefixes, func(p netip.Prefix) bool { return p.Contains(a) })
}

// single is the prefix of one address.
func single(a netip.Addr) netip.Prefix { return netip.PrefixFrom(a, a.BitLen()) }
