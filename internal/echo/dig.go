package echo

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/miekg/dns"
)

// dig asks DNS and prints the records of the first name of the search list that has any.
func dig(ctx context.Context, c *call) error {
	tcp := c.flags.Bool("tcp", false, "ask by TCP")
	short := c.flags.Bool("short", false, "print the data only")
	conf := c.flags.String("conf", "/etc/resolv.conf", "where servers and search list are")
	timeout := c.flags.Duration("timeout", 5*time.Second, "for each answer")
	args, err := c.parse(1, 3)
	if err != nil {
		return err
	}
	q, err := readQuestion(args, *conf)
	if err != nil {
		return err
	}
	client := &dns.Client{Net: "udp", Timeout: *timeout, UDPSize: 1232}
	if *tcp {
		client.Net = "tcp"
	}
	last := errors.New("no name to ask for")
	for _, name := range q.names {
		a, err := q.ask(ctx, client, name)
		if err != nil {
			return err
		}
		if a.Rcode == dns.RcodeSuccess && len(a.Answer) > 0 {
			for _, rr := range a.Answer {
				text := rr.String()
				if *short {
					text = strings.TrimPrefix(text, rr.Header().String())
				}
				fmt.Fprintln(c.out, strings.ReplaceAll(text, "\t", " "))
			}
			return nil
		}
		last = fmt.Errorf("%s %s: %s, %d records", dns.TypeToString[q.typ], name, dns.RcodeToString[a.Rcode], len(a.Answer))
	}
	return last
}

// dnsQuestion is what to ask whom.
type dnsQuestion struct {
	typ     uint16
	names   []string
	servers []string
}

// readQuestion reads TYPE, NAME and @SERVER in any order; without a type it is A.
func readQuestion(args []string, conf string) (dnsQuestion, error) {
	q := dnsQuestion{typ: dns.TypeA}
	name := ""
	for _, a := range args {
		typ, known := dns.StringToType[strings.ToUpper(a)]
		switch {
		case strings.HasPrefix(a, "@"):
			q.servers = append(q.servers, withPort(a[1:], "53"))
		case known && !strings.Contains(a, "."):
			q.typ = typ
		case name == "":
			name = a
		default:
			return q, usageError{fmt.Errorf("two names: %s and %s", name, a)}
		}
	}
	if name == "" {
		return q, usageError{errors.New("no name")}
	}
	q.names = []string{dns.Fqdn(name)}
	file, err := dns.ClientConfigFromFile(conf)
	switch {
	case err != nil && len(q.servers) == 0:
		return q, err
	case err != nil:
		return q, nil
	}
	q.names = file.NameList(name)
	if len(q.servers) == 0 {
		for _, s := range file.Servers {
			q.servers = append(q.servers, net.JoinHostPort(s, file.Port))
		}
	}
	return q, nil
}

func withPort(host, port string) string {
	if _, _, err := net.SplitHostPort(host); err == nil {
		return host
	}
	return net.JoinHostPort(strings.Trim(host, "[]"), port)
}

// ask asks one server after the other, by TCP when an answer does not fit.
func (q dnsQuestion) ask(ctx context.Context, client *dns.Client, name string) (*dns.Msg, error) {
	m := new(dns.Msg).SetQuestion(name, q.typ)
	m.SetEdns0(1232, false)
	var errs []error
	for _, s := range q.servers {
		a, _, err := client.ExchangeContext(ctx, m, s)
		if err == nil && a.Truncated && client.Net == "udp" {
			a, _, err = (&dns.Client{Net: "tcp", Timeout: client.Timeout}).ExchangeContext(ctx, m, s)
		}
		if err == nil {
			return a, nil
		}
		errs = append(errs, fmt.Errorf("%s: %w", s, err))
	}
	return nil, errors.Join(errs...)
}
