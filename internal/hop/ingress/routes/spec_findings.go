package routes

import (
	"fmt"
	"strings"

	"github.com/podway/podway/internal/flow"
	"github.com/podway/podway/internal/model"
)

// specFindings are the parts of an Ingress that are ignored: hosts and paths that are none, annotations of another
// controller.
func (t *Table) specFindings(ing *model.Ingress, add func(model.Name, flow.Finding)) {
	unsupported := func(s flow.Severity, fix, cause string, args ...any) {
		add(ing.Name, flow.Finding{
			Code: flow.IngressUnsupported, Severity: s, Object: object(ing.Name), Cause: fmt.Sprintf(cause, args...), Fix: fix,
		})
	}
	for i := range ing.Rules {
		rule := &ing.Rules[i]
		if _, ok := hostKey(rule.Host); !ok {
			unsupported(flow.Error, "use a DNS name, or *. before one", "host %q is no host name; its rule is ignored.", rule.Host)
			continue
		}
		for _, p := range rule.Paths {
			switch _, ok := rulePath(p.Path, p.Type); {
			case !ok:
				unsupported(flow.Error, "use a path that begins with / and has no . or .. elements",
					"path %q of host %s is no path that a request can have; it is ignored.", p.Path, orStar(rule.Host))
			case p.Type == model.PathSpecific && strings.ContainsAny(p.Path, "()[]*^$\\"):
				unsupported(flow.Warning, "use pathType Prefix or Exact with plain paths",
					"path %q of host %s looks like a pattern; it matches only as a plain prefix.", p.Path, orStar(rule.Host))
			}
		}
	}
	for _, entry := range ing.TLS {
		for _, h := range entry.Hosts {
			if k, ok := hostKey(h); !ok || k == "" {
				unsupported(flow.Error, "use a DNS name, or *. before one", "TLS host %q is no host name; it is ignored.", h)
			}
		}
	}
	if _, ok := forcedProtocol(ing); !ok {
		unsupported(flow.Error, "use HTTP, HTTPS, GRPC or GRPCS", "the backend protocol in the annotation is not known; the Service's appProtocol decides.")
	}
	if names := ignoredAnnotations(ing); len(names) > 0 {
		unsupported(flow.Warning, "remove the annotations, or ask for what they did in another way",
			"annotations of ingress-nginx are ignored: %s.", strings.Join(names, ", "))
	}
}

func orStar(host string) string {
	if host == "" {
		return "*"
	}
	return host
}

// classFinding says why an Ingress is not served.
func (t *Table) classFinding(ing *model.Ingress, state Standing) flow.Finding {
	f := flow.Finding{Code: flow.IngressNoClass, Severity: flow.Error, Object: object(ing.Name)}
	own, there := t.ownClass()
	edit := fmt.Sprintf("kubectl -n %s patch ingress %s --type merge -p '{\"spec\":{\"ingressClassName\":\"%s\"}}'",
		ing.Name.Namespace, ing.Name.Name, own)
	switch f.Fix = edit; {
	case there:
	case ing.Class == own:
		f.Fix = t.makeClass(own)
	default:
		f.Fix = t.makeClass(own) + "\n" + edit
	}
	switch state {
	case NoSuchClass:
		f.Cause = fmt.Sprintf("its class %s does not exist, so no controller serves it.", ing.Class)
	case NoClass:
		f.Cause = "it names no class and no IngressClass is the default, so no controller serves it."
	case Foreign:
		f.Severity = flow.Warning
		switch class := t.snap.Classes.At(ing.Class); {
		case ing.Class == "":
			f.Cause = "it names no class, and the default IngressClass is another controller's."
		case class == nil:
			f.Cause = fmt.Sprintf("its class %s is not served here.", ing.Class)
		default:
			f.Cause = fmt.Sprintf("its class %s is that of controller %s.", ing.Class, class.Controller)
		}
	}
	return f
}

// makeClass is the command that makes an IngressClass of this controller.
func (t *Table) makeClass(name string) string {
	return fmt.Sprintf(`printf 'apiVersion: networking.k8s.io/v1\nkind: IngressClass\nmetadata: {name: %s}\nspec: {controller: %s}\n' | kubectl create -f -`, name, t.cfg.Controller)
}

// ownClass is a class that this controller serves, for advice; there = it exists.
func (t *Table) ownClass() (own string, there bool) {
	for c := range t.snap.Classes.Values() {
		if c.Controller == t.cfg.Controller && (own == "" || c.Name < own) {
			own = c.Name
		}
	}
	if own == "" {
		return t.cfg.Class, false
	}
	return own, true
}
