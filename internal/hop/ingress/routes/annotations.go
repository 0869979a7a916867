package routes

import (
	"slices"
	"strings"

	"github.com/podway/podway/internal/model"
)

// The annotations that are understood: the protocol that a backend speaks, in the field's own words.
const (
	protocolAnnotation      = "podway.io/backend-protocol"
	nginxProtocolAnnotation = nginxPrefix + "backend-protocol"
	nginxPrefix             = "nginx.ingress.kubernetes.io/"
)

// forcedProtocol is the protocol that an Ingress's annotation asks for, "" when it leaves it to the Service. It is false
// for a value that nobody here speaks; the annotation is then as good as absent.
func forcedProtocol(ing *model.Ingress) (Protocol, bool) {
	value, ok := ing.Annotations[protocolAnnotation]
	if !ok {
		value = ing.Annotations[nginxProtocolAnnotation]
	}
	switch strings.ToUpper(value) {
	case "":
		return "", true
	case "HTTP", "AUTO_HTTP":
		return HTTP1, true
	case "HTTPS":
		return HTTPS, true
	case "GRPC", "H2C":
		return H2C, true
	case "GRPCS":
		return H2, true
	}
	return "", false
}

// ignoredAnnotations are those of ingress-nginx that would change what happens and are not understood here.
func ignoredAnnotations(ing *model.Ingress) []string {
	var out []string
	for a := range ing.Annotations {
		if strings.HasPrefix(a, nginxPrefix) && a != nginxProtocolAnnotation {
			out = append(out, a)
		}
	}
	slices.Sort(out)
	return out
}
