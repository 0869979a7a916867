package cluster

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ServiceCIDRs are the ranges of ClusterIPs that the ServiceCIDR objects name (Kubernetes 1.33 and newer). A cluster without
// the kind, or one that does not let them be read, has none. It waits until the API server answers or ctx ends.
func ServiceCIDRs(ctx context.Context, c Clients, log *slog.Logger) ([]netip.Prefix, error) {
	said := ""
	for {
		list, err := c.Typed.NetworkingV1().ServiceCIDRs().List(ctx, metav1.ListOptions{})
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case apierrors.IsNotFound(err) || apierrors.IsForbidden(err) || apierrors.IsMethodNotSupported(err):
			log.Info("no ServiceCIDRs: unused addresses of Services are not dropped", "err", err)
			return nil, nil
		case err == nil:
			var out []netip.Prefix
			for _, obj := range list.Items {
				for _, s := range obj.Spec.CIDRs {
					p, err := netip.ParsePrefix(s)
					if err != nil {
						return nil, fmt.Errorf("cluster: ServiceCIDR %s: %w", obj.Name, err)
					}
					out = append(out, p.Masked())
				}
			}
			return out, nil
		}
		if err.Error() != said {
			log.Warn("the API server does not say its ServiceCIDRs; will retry", "err", err)
			said = err.Error()
		}
		if !pause(ctx, time.Second) {
			return nil, ctx.Err()
		}
	}
}
