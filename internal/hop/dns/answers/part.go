package answers

import (
	"net/netip"

	"github.com/podway/podway/internal/model"
)

// Forward is the View without its reverse names: they are Foreign.
func (v *View) Forward() *View {
	next, z := *v, *v.zone
	z.reverse = nil
	next.zone, next.addrs, next.from = &z, model.Map[netip.Addr, *backNames]{}, nil
	return &next
}

// None is the View without any name: all are Foreign.
func (v *View) None() *View {
	next := v.Forward()
	next.zone.labels = len(Query{}.starts) // more than a question has
	return next
}
