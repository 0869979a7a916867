package routes

import (
	"slices"

	"github.com/podway/podway/internal/hop/ingress/certs"
	"github.com/podway/podway/internal/model"
)

// tlsHostsOf are the keys of the hosts that an Ingress has certificates for. An entry without hosts stands for the names
// in its certificate.
func (t *Table) tlsHostsOf(ing *model.Ingress) []string {
	var out []string
	for _, entry := range ing.TLS {
		for _, h := range t.entryHosts(ing, entry) {
			if k, ok := hostKey(h); ok && k != "" {
				out = append(out, k)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func (t *Table) entryHosts(ing *model.Ingress, entry model.IngressTLS) []string {
	if len(entry.Hosts) > 0 {
		return entry.Hosts
	}
	if c := t.cert(ing, entry); c != nil {
		return c.Names()
	}
	return nil
}

// cert is the certificate of a TLS entry; nil only for a table that was not made from the Ingress.
func (t *Table) cert(ing *model.Ingress, entry model.IngressTLS) *certs.Cert {
	if p := t.certs.At(model.N(ing.Name.Namespace, entry.Secret)); p != nil {
		return p.cert
	}
	return nil
}

// chooseTLS takes the oldest Ingress whose Secret can be used, or else the oldest: a second Ingress of the same host often
// stands in a namespace that lacks the Secret.
func (t *Table) chooseTLS(key string, m *members) *TLS {
	var first *TLS
	for _, ing := range m.ings {
		for _, entry := range ing.TLS {
			for _, h := range t.entryHosts(ing, entry) {
				if k, ok := hostKey(h); !ok || k != key {
					continue
				}
				e := &TLS{Host: h, Ingress: ing.Name, Cert: t.cert(ing, entry)}
				if e.Cert.Err == nil {
					return e
				}
				if first == nil {
					first = e
				}
			}
		}
	}
	return first
}
