package scenario

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/podway/podway/internal/flow"
)

// Outcome is the right side of an expectation, or what a level found instead. What an expectation leaves out is not
// compared: From, Hop and, for HTTP, Pods, Cert and Location.
type Outcome struct {
	Result   string     // reached, refused, dropped, "no route", an rcode, NODATA, answer, status, node, nobody, slices, ok, broken, error
	Pods     []string   // reached: "namespace/name" of the Pods that may answer, sorted; others as "node NAME", "outside", "address A"
	From     string     // reached: whom they see, as "pod ns/name", "node name", "outside A" or "address A"
	Sticky   bool       // reached: one client always gets the same Pod
	Status   int        // HTTP
	Cert     string     // HTTPS: the first name of the certificate shown
	Location string     // HTTP: where a redirect leads
	Records  []string   // DNS, "TYPE data" without final dots, sorted
	Node     string     // announce
	Slices   []Endpoint // slices
	Code     flow.Code  // trace
	Hop      string     // trace
	Detail   string     // what a level adds for people; never compared
}

// Endpoint is one entry of "slices".
type Endpoint struct {
	Addr   netip.Addr
	Port   uint16 // 0 = not said
	States []string
	Hints  []string // "for-zone:east", "for-node:node-a", "no-hints"; none = not said
}

// The results that are one word.
const (
	reached = "reached"
	refused = "refused"
	dropped = "dropped"
	noRoute = "no route"
)

var rcodes = []string{"NXDOMAIN", "NODATA", "SERVFAIL", "REFUSED"}

func (n names) outcome(a Ask, text string) (Outcome, error) {
	w := strings.Fields(text)
	if len(w) == 0 {
		return Outcome{}, errors.New("nothing after =>")
	}
	switch a.Kind {
	case Connect:
		return n.connection(w)
	case Dig:
		return n.records(a.Question.DNSType, text)
	case Get:
		return n.status(w)
	case Announce:
		return n.announcer(w)
	case Slices:
		return n.endpoints(text)
	default:
		return cause(w)
	}
}

func (n names) connection(w []string) (Outcome, error) {
	if s := strings.Join(w, " "); slices.Contains([]string{refused, dropped, noRoute, "NXDOMAIN"}, s) {
		return Outcome{Result: s}, nil
	}
	o := Outcome{Result: reached}
	rest, err := n.ends(&o, w)
	if err == nil && len(o.Pods) == 0 {
		err = fmt.Errorf("want pod NAME..., node NAME, outside, refused, dropped, no route or NXDOMAIN%s", didYouMean(w[0], "pod", "node", "outside", refused, dropped))
	}
	if err == nil && len(rest) > 0 {
		err = fmt.Errorf("%q is not understood here", rest[0])
	}
	return o, err
}

// ends reads "pod A B", "node N", "outside", "address A", "from WHOM" and "sticky", in any number, and returns the rest.
func (n names) ends(o *Outcome, w []string) ([]string, error) {
	for len(w) > 0 {
		switch {
		case w[0] == "sticky":
			o.Sticky, w = true, w[1:]
		case w[0] == "outside":
			o.Pods, w = append(o.Pods, "outside"), w[1:]
		case w[0] == "from":
			var err error
			if o.From, w, err = n.whom(w[1:]); err != nil {
				return nil, err
			}
		case w[0] == "pod" && len(w) > 1:
			w = w[1:]
			for len(w) > 0 && !keyword(w[0]) {
				p, err := n.pod(w[0])
				if err != nil {
					return nil, err
				}
				o.Pods, w = append(o.Pods, p.String()), w[1:]
			}
		case w[0] == "node" && len(w) > 1:
			if _, err := n.node(w[1]); err != nil {
				return nil, err
			}
			o.Pods, w = append(o.Pods, "node "+w[1]), w[2:]
		case w[0] == "address" && len(w) > 1:
			a, err := netip.ParseAddr(w[1])
			if err != nil {
				return nil, err
			}
			o.Pods, w = append(o.Pods, "address "+a.String()), w[2:]
		default:
			slices.Sort(o.Pods)
			return w, nil
		}
	}
	slices.Sort(o.Pods)
	return nil, nil
}

func keyword(w string) bool {
	return slices.Contains([]string{"from", "sticky", "node", "outside", "address", "pod", "cert", "to"}, w)
}

// whom reads the source that was seen.
func (n names) whom(w []string) (string, []string, error) {
	if len(w) == 0 {
		return "", nil, errors.New("from whom? pod NAME, node NAME, outside ADDRESS or an address")
	}
	if a, err := netip.ParseAddr(w[0]); err == nil {
		return n.owner(a), w[1:], nil
	}
	if len(w) == 1 {
		return "", nil, fmt.Errorf("from %s: want pod NAME, node NAME, outside ADDRESS or an address", w[0])
	}
	switch w[0] {
	case "pod":
		p, err := n.pod(w[1])
		return "pod " + p.String(), w[2:], err
	case "node":
		_, err := n.node(w[1])
		return "node " + w[1], w[2:], err
	case "outside":
		a, err := netip.ParseAddr(w[1])
		return "outside " + a.String(), w[2:], err
	}
	return "", nil, fmt.Errorf("from %s: want pod NAME, node NAME, outside ADDRESS or an address", w[0])
}

// Owner says whose address it is: "pod NAMESPACE/NAME", "node NAME" or "outside ADDRESS".
func (s *State) Owner(a netip.Addr) string { return s.owner(a) }

// owner says whose address it is. The first of a node's Pod range is the node's own: its Pods' gateway.
func (s *State) owner(a netip.Addr) string {
	for n := range s.Snapshot.Nodes.Values() {
		gateway := func(p netip.Prefix) bool { return p.Masked().Addr().Next() == a }
		if slices.Contains(n.Addrs, a) || slices.ContainsFunc(n.PodCIDRs, gateway) {
			return "node " + n.Name
		}
	}
	for p := range s.Snapshot.Pods.Values() {
		if !p.Terminal() && slices.Contains(p.Addrs, a) {
			return "pod " + p.Name.String()
		}
	}
	return "outside " + a.String()
}

func (n names) status(w []string) (Outcome, error) {
	if s := strings.Join(w, " "); slices.Contains([]string{refused, dropped, noRoute, "NXDOMAIN"}, s) {
		return Outcome{Result: s}, nil
	}
	o := Outcome{Result: "status"}
	var err error
	if o.Status, err = strconv.Atoi(w[0]); err != nil || o.Status < 100 || o.Status > 599 {
		return o, fmt.Errorf("%q is neither an HTTP status nor refused, dropped, no route", w[0])
	}
	for w = w[1:]; len(w) > 0; {
		switch {
		case w[0] == "cert" && len(w) > 1:
			o.Cert, w = w[1], w[2:]
		case w[0] == "to" && len(w) > 1:
			o.Location, w = w[1], w[2:]
		default:
			before := len(w)
			if w, err = n.ends(&o, w); err != nil {
				return o, err
			}
			if len(w) == before {
				return o, fmt.Errorf("%q is not understood here: pod NAME, cert NAME, to URL, from WHOM", w[0])
			}
		}
	}
	return o, nil
}

func (n names) announcer(w []string) (Outcome, error) {
	switch {
	case len(w) == 1 && w[0] == "nobody":
		return Outcome{Result: "nobody"}, nil
	case len(w) == 2 && w[0] == "node":
		_, err := n.node(w[1])
		return Outcome{Result: "node", Node: w[1]}, err
	}
	return Outcome{}, errors.New("want node NAME or nobody")
}

func cause(w []string) (Outcome, error) {
	if len(w) == 1 && w[0] == "ok" {
		return Outcome{Result: "ok"}, nil
	}
	o := Outcome{Result: "broken", Code: flow.Code(w[0])}
	if _, known := flow.CauseOf(o.Code); !known {
		return o, fmt.Errorf("%q is neither ok nor a known code%s", w[0], didYouMean(w[0], codes()...))
	}
	if len(w) == 3 && w[1] == "at" {
		o.Hop = w[2]
		return o, hopName(w[2])
	}
	if len(w) != 1 {
		return o, errors.New("want ok, or CODE [at HOP]")
	}
	return o, nil
}

func hopName(s string) error {
	known := []string{"dns", "announce", "ingress", "proxy", "podnet", "process"}
	if !slices.Contains(known, s) {
		return fmt.Errorf("hop %q is none of %s%s", s, strings.Join(known, ", "), didYouMean(s, known...))
	}
	return nil
}

func codes() (out []string) {
	for _, c := range flow.Causes() {
		out = append(out, string(c.Code))
	}
	return out
}
