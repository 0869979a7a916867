package cluster

import (
	"net/netip"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"

	"github.com/podway/podway/internal/model"
)

const (
	annotationLegacyClass  = "kubernetes.io/ingress.class"
	annotationDefaultClass = "ingressclass.kubernetes.io/is-default-class"
)

func ingress(in *networkingv1.Ingress) *model.Ingress {
	out := &model.Ingress{Name: model.N(in.Namespace, in.Name), UID: string(in.UID), ResourceVersion: in.ResourceVersion,
		Created: in.CreationTimestamp.Time, Annotations: in.Annotations, Class: deref(in.Spec.IngressClassName)}
	if out.Class == "" {
		out.Class = in.Annotations[annotationLegacyClass]
	}
	if b := in.Spec.DefaultBackend; b != nil {
		d := ingressBackend(b)
		out.Default = &d
	}
	for _, r := range in.Spec.Rules {
		rule := model.IngressRule{Host: strings.ToLower(r.Host)}
		if r.HTTP != nil {
			for i := range r.HTTP.Paths {
				p := &r.HTTP.Paths[i]
				t := model.PathType(deref(p.PathType))
				if t == "" {
					t = model.PathSpecific
				}
				rule.Paths = append(rule.Paths, model.IngressPath{Path: p.Path, Type: t, Backend: ingressBackend(&p.Backend)})
			}
		}
		out.Rules = append(out.Rules, rule)
	}
	for _, t := range in.Spec.TLS {
		hosts := make([]string, 0, len(t.Hosts))
		for _, h := range t.Hosts {
			hosts = append(hosts, strings.ToLower(h))
		}
		out.TLS = append(out.TLS, model.IngressTLS{Hosts: hosts, Secret: t.SecretName})
	}
	for _, l := range in.Status.LoadBalancer.Ingress {
		if l.IP != "" {
			out.Addresses = append(out.Addresses, l.IP)
		} else if l.Hostname != "" {
			out.Addresses = append(out.Addresses, l.Hostname)
		}
	}
	return out
}

func ingressBackend(b *networkingv1.IngressBackend) model.IngressBackend {
	if b.Service == nil {
		if b.Resource == nil {
			return model.IngressBackend{}
		}
		return model.IngressBackend{Resource: b.Resource.Kind + "/" + b.Resource.Name}
	}
	return model.IngressBackend{Service: b.Service.Name,
		Port: model.PortRef{Name: b.Service.Port.Name, Number: uint16(b.Service.Port.Number)}}
}

func ingressClass(c *networkingv1.IngressClass) *model.IngressClass {
	return &model.IngressClass{Name: c.Name, Controller: c.Spec.Controller, Default: c.Annotations[annotationDefaultClass] == "true"}
}

// secret keeps TLS Secrets only; other types are nil.
func secret(s *corev1.Secret) *model.Secret {
	if s.Type != corev1.SecretTypeTLS {
		return nil
	}
	return &model.Secret{Name: model.N(s.Namespace, s.Name), ResourceVersion: s.ResourceVersion,
		Cert: s.Data[corev1.TLSCertKey], Key: s.Data[corev1.TLSPrivateKeyKey]}
}

// addrRange reads one entry of an AddressPool: a CIDR, "from-to" or one address.
func addrRange(s string) (model.AddrRange, bool) {
	s = strings.TrimSpace(s)
	if p, err := netip.ParsePrefix(s); err == nil {
		return model.AddrRange{From: p.Masked().Addr(), To: model.LastAddr(p)}, true
	}
	from, to, two := strings.Cut(s, "-")
	if !two {
		to = from
	}
	r := model.AddrRange{From: addr(from), To: addr(to)}
	ok := r.From.IsValid() && r.To.IsValid() && r.From.BitLen() == r.To.BitLen() && r.From.Compare(r.To) <= 0
	return r, ok
}
