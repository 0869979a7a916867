package trace

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/podway/podway/internal/flow"
)

// ParseSender reads the --from forms into q: "pod/NAME", "pod/NS/NAME", "node/NAME", "outside", "outside=ADDR". Other kinds
// ("deploy/web") are answered with ok = false: they need the cluster to become a Pod.
func (q *Question) ParseSender(s string) (ok bool, err error) {
	if rest, is := strings.CutPrefix(s, "outside"); is {
		q.From = flow.FromOutside
		if rest == "" {
			return true, nil
		}
		if q.Addr, err = netip.ParseAddr(strings.TrimLeft(rest, "=/ ")); err != nil {
			return false, fmt.Errorf("sender %q: %w", s, err)
		}
		return true, nil
	}
	kind, name, found := strings.Cut(s, "/")
	if !found || name == "" {
		return false, fmt.Errorf("sender %q is none of pod/NAME, deploy/NAME, node/NAME, outside[=ADDR]", s)
	}
	switch objectKind(kind) {
	case "pod":
		q.From, q.Sender = flow.FromPod, q.qualify(name)
	case "node":
		q.From, q.Sender, q.Node = flow.FromNode, name, name
	default:
		return false, nil
	}
	return true, nil
}

// qualify puts the question's namespace before a bare name.
func (q *Question) qualify(name string) string {
	if strings.Contains(name, "/") {
		return name
	}
	return q.namespace() + "/" + name
}

// namespace is where bare names are looked up.
func (q *Question) namespace() string {
	if q.Namespace != "" {
		return q.Namespace
	}
	if ns, _, ok := strings.Cut(q.Sender, "/"); ok && q.From == flow.FromPod {
		return ns
	}
	return "default"
}

func (q *Question) domain() string {
	if q.Domain != "" {
		return q.Domain
	}
	return DefaultDomain
}

// ParseLine reads the left side of an expectation of a scenario:
//
//	pod [NS/]NAME -> PROTO TARGET
//	node NAME -> PROTO TARGET
//	outside [ADDR] [via NODE] -> PROTO TARGET
//	get URL [from pod [NS/]NAME | from node NAME | from outside [ADDR] [via NODE]]
//	dig TYPE NAME [from pod [NS/]NAME | from node NAME]
//
// namespace is where bare names are looked up; "" = default.
func ParseLine(line, namespace string) (Question, error) {
	q := Question{Namespace: namespace}
	words := strings.Fields(line)
	if len(words) == 0 {
		return q, fmt.Errorf("an empty question")
	}
	var err error
	switch words[0] {
	case "get", "dig":
		err = q.parseAsk(words)
	default:
		err = q.parseArrow(words)
	}
	if err != nil {
		return q, fmt.Errorf("question %q: %w", line, err)
	}
	return q, nil
}

func (q *Question) parseArrow(words []string) error {
	i := index(words, "->")
	if i < 0 || len(words)-i != 3 {
		return fmt.Errorf("want SENDER -> PROTO TARGET")
	}
	if err := q.parseSenderWords(words[:i]); err != nil {
		return err
	}
	q.Proto, q.Target = flow.Proto(words[i+1]), words[i+2]
	switch q.Proto {
	case flow.TCP, flow.UDP, flow.SCTP:
	default:
		return fmt.Errorf("protocol %q is none of tcp, udp, sctp", q.Proto)
	}
	_, _, err := ParseTarget(q.Target)
	return err
}

// parseAsk reads "get URL ..." and "dig TYPE NAME ...".
func (q *Question) parseAsk(words []string) error {
	sender := []string{"outside"}
	if i := index(words, "from"); i >= 0 {
		sender, words = words[i+1:], words[:i]
	}
	switch {
	case words[0] == "get" && len(words) == 2:
		q.Proto, q.Target, q.Method = flow.TCP, words[1], "GET"
		if !strings.HasPrefix(q.Target, "http://") && !strings.HasPrefix(q.Target, "https://") {
			return fmt.Errorf("%q is no http:// or https:// URL", q.Target)
		}
		if _, _, err := ParseTarget(q.Target); err != nil {
			return err
		}
	case words[0] == "dig" && len(words) == 3:
		q.Proto, q.DNSType, q.Target = flow.UDP, strings.ToUpper(words[1]), words[2]
	default:
		return fmt.Errorf("want get URL [from SENDER] or dig TYPE NAME [from SENDER]")
	}
	return q.parseSenderWords(sender)
}

func (q *Question) parseSenderWords(words []string) error {
	if i := index(words, "via"); i >= 0 && i == len(words)-2 {
		q.Node, words = words[i+1], words[:i]
	}
	switch {
	case len(words) == 2 && words[0] == "pod":
		q.From, q.Sender = flow.FromPod, q.qualify(words[1])
	case len(words) == 2 && words[0] == "node":
		q.From, q.Sender, q.Node = flow.FromNode, words[1], words[1]
	case len(words) == 1 && words[0] == "outside":
		q.From = flow.FromOutside
	case len(words) == 2 && words[0] == "outside":
		q.From = flow.FromOutside
		a, err := netip.ParseAddr(words[1])
		if err != nil {
			return err
		}
		q.Addr = a.Unmap()
	default:
		return fmt.Errorf("sender %q is none of pod NAME, node NAME, outside [ADDR] [via NODE]", strings.Join(words, " "))
	}
	return nil
}

func index(words []string, w string) int {
	for i, x := range words {
		if x == w {
			return i
		}
	}
	return -1
}
