package podnet

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/podway/podway/internal/kernel/nft"
)

// Remove takes away routes, tunnel, masquerading and the plugin's configuration, told by their marks. Devices, routes
// and reservations of running Pods stay: they belong to the Pods and go with them, by the CNI plugin's DEL.
func (h *Hop) Remove(ctx context.Context) error {
	have, err := h.read(ctx)
	if err != nil {
		return err
	}
	var errs []error
	if err := os.Remove(h.opt.ConfigPath); err != nil && !errors.Is(err, os.ErrNotExist) {
		errs = append(errs, fmt.Errorf("podnet: remove node configuration: %w", err))
	}
	for _, r := range have.Routes {
		errs = append(errs, h.doors.routes.Delete(r))
	}
	if have.Tunnel != nil {
		errs = append(errs, h.doors.links.Delete(TunnelDevice))
	}
	h.rules.Lock()
	defer h.rules.Unlock()
	for _, t := range have.Tables {
		if t != nil {
			errs = append(errs, h.doors.rules.Apply(ctx, nft.Diff(t, nil)))
		}
	}
	h.last.Store(nil)
	return errors.Join(errs...)
}
