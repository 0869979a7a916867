package endpointslice

import (
	"context"
	"time"

	"github.com/podway/podway/internal/model"
)

// lookUpLost reads the slices back of Services whose writes have not come in by snapshot for long, and forgets Services
// that are gone.
func (c *Controller) lookUpLost(ctx context.Context) {
	for _, n := range c.lost() {
		c.refresh(ctx, n)
		c.mu.Lock()
		c.again(n, 0)
		c.mu.Unlock()
	}
}

func (c *Controller) lost() (out []model.Name) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.snap == nil {
		return nil
	}
	for n, s := range c.services {
		if c.anyLost(n, s) {
			out = append(out, n)
		}
		if len(s.overlay) == 0 && s.dirt == nil && c.snap.Services.At(n) == nil && c.snap.Backends(n) == nil {
			delete(c.services, n)
		}
	}
	return out
}

func (c *Controller) anyLost(n model.Name, s *state) bool {
	any := false
	for name, w := range s.overlay {
		if time.Since(w.at) < echoAge {
			continue
		}
		cur := c.snap.Slices.At(model.N(n.Namespace, name))
		if w.deleted && cur == nil || !w.deleted && cur != nil && !newer(w.slice, cur) {
			delete(s.overlay, name)
		} else {
			any = true
		}
	}
	return any
}
