package answers

import (
	"encoding/binary"

	"github.com/miekg/dns"
)

// soaPointers are the places in the cluster domain's SOA that point into the question: its owner, and the domain behind
// ns.dns and behind hostmaster.
var soaPointers = [3]int{0, 19, 32}

// appendSOA appends the zone's SOA; its owner is a pointer into the question's name. A View that knows no cluster makes none.
func (v *View) appendSOA(out []byte, q *Query, n *node) []byte {
	owner := uint16(0xc000 | headerSize + q.n - len(q.from(n.apex)))
	if n.in != Cluster {
		return v.makeSOA(out, owner, n.in)
	}
	at := len(out)
	out = append(out, v.soa...)
	for _, i := range soaPointers {
		binary.BigEndian.PutUint16(out[at+i:], owner)
	}
	return out
}

// makeSOA appends the SOA of a zone. In a reverse zone the cluster's domain is not in the question, so it stands here once.
func (v *View) makeSOA(out []byte, owner uint16, in Zone) []byte {
	out = binary.BigEndian.AppendUint16(out, owner)
	out = append(out, 0, byte(dns.TypeSOA), 0, dns.ClassINET)
	out = binary.BigEndian.AppendUint32(out, v.negative)
	size := len(out)
	out = append(out, 0, 0)
	out = append(out, "\x02ns\x03dns"...)
	if in == Reverse {
		owner = uint16(0xc000 | len(out))
		out = append(out, v.name...)
	} else {
		out = binary.BigEndian.AppendUint16(out, owner)
	}
	out = append(out, "\x0ahostmaster"...)
	out = binary.BigEndian.AppendUint16(out, owner)
	for _, n := range [5]uint32{v.serial, 7200, 1800, 86400, v.negative} { // refresh, retry, expire
		out = binary.BigEndian.AppendUint32(out, n)
	}
	binary.BigEndian.PutUint16(out[size:], uint16(len(out)-size-2))
	return out
}
