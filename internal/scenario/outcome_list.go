package scenario

import (
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// records reads DNS data: values separated by commas (addresses also by blanks), each with or without its type.
func (n names) records(typ, text string) (Outcome, error) {
	if slices.Contains(rcodes, strings.TrimSpace(text)) {
		return Outcome{Result: strings.TrimSpace(text)}, nil
	}
	o := Outcome{Result: "answer"}
	for part := range strings.SplitSeq(text, ",") {
		w := strings.Fields(part)
		switch {
		case len(w) == 0:
			return o, errors.New("an empty record between commas")
		case w[0] == "pod":
			if err := n.podRecords(&o, typ, w[1:]); err != nil {
				return o, err
			}
		case recordType.MatchString(w[0]) && len(w) > 1:
			o.Records = append(o.Records, record(w[0], strings.Join(w[1:], " ")))
		case typ == "A" || typ == "AAAA":
			for _, x := range w {
				if _, err := netip.ParseAddr(x); err != nil {
					return o, fmt.Errorf("%q is neither an address nor one of %s%s", x, strings.Join(rcodes, ", "), didYouMean(x, rcodes...))
				}
				o.Records = append(o.Records, record(typ, x))
			}
		default:
			o.Records = append(o.Records, record(typ, strings.Join(w, " ")))
		}
	}
	slices.Sort(o.Records)
	return o, nil
}

var recordType = regexp.MustCompile(`^(A|AAAA|CNAME|PTR|SRV|TXT|SOA|NS)$`)

func (n names) podRecords(o *Outcome, typ string, w []string) error {
	for _, x := range w {
		name, err := n.pod(x)
		if err != nil {
			return err
		}
		for _, a := range n.Snapshot.Pods.At(name).Addrs {
			if a.Is4() == (typ == "A") {
				o.Records = append(o.Records, record(typ, a.String()))
			}
		}
	}
	return nil
}

// record is the form in which records are compared.
func record(typ, data string) string {
	w := strings.Fields(strings.ToLower(data))
	for i := range w {
		if len(w[i]) > 1 {
			w[i] = strings.TrimSuffix(w[i], ".")
		}
	}
	return typ + " " + strings.Join(w, " ")
}

// The words about hints.
const (
	forZone = "for-zone:"
	forNode = "for-node:"
	noHints = "no-hints"
)

var endpointStates = []string{"ready", "not-ready", "serving", "terminating"}

// endpoints reads "ADDRESS[:PORT] STATE..., ..." where "pod NAME" may stand for the address.
func (n names) endpoints(text string) (Outcome, error) {
	o := Outcome{Result: "slices"}
	if strings.TrimSpace(text) == "none" {
		return o, nil
	}
	for part := range strings.SplitSeq(text, ",") {
		e, err := n.endpoint(strings.Fields(part))
		if err != nil {
			return o, err
		}
		o.Slices = append(o.Slices, e)
	}
	slices.SortFunc(o.Slices, Endpoint.compare)
	return o, nil
}

func (n names) endpoint(w []string) (e Endpoint, err error) {
	if len(w) > 1 && w[0] == "pod" {
		if e, err = n.podEndpoint(w[1]); err != nil {
			return e, err
		}
		w = w[1:]
	} else if len(w) > 0 {
		if ap, perr := netip.ParseAddrPort(w[0]); perr == nil {
			e.Addr, e.Port = ap.Addr(), ap.Port()
		} else if e.Addr, err = netip.ParseAddr(w[0]); err != nil {
			return e, err
		}
	}
	if len(w) < 2 {
		return e, errors.New("want ADDRESS STATE..., or none")
	}
	for _, s := range w[1:] {
		if s == noHints || strings.HasPrefix(s, forZone) || strings.HasPrefix(s, forNode) {
			e.Hints = append(e.Hints, s)
			continue
		}
		if !slices.Contains(endpointStates, s) {
			return e, fmt.Errorf("state %q is none of %s%s", s, strings.Join(endpointStates, ", "), didYouMean(s, endpointStates...))
		}
		e.States = append(e.States, s)
	}
	slices.Sort(e.States)
	slices.Sort(e.Hints)
	return e, nil
}

// podEndpoint reads NAME[:PORT].
func (n names) podEndpoint(s string) (e Endpoint, err error) {
	name, port, hasPort := strings.Cut(s, ":")
	p, err := n.pod(name)
	if err != nil {
		return e, err
	}
	addrs := n.Snapshot.Pods.At(p).Addrs
	if len(addrs) == 0 {
		return e, fmt.Errorf("pod %s has no address", p)
	}
	e.Addr = addrs[0]
	if hasPort {
		num, perr := strconv.ParseUint(port, 10, 16)
		if perr != nil {
			return e, fmt.Errorf("port %q is no number from 1 to 65535", port)
		}
		e.Port = uint16(num)
	}
	return e, nil
}
