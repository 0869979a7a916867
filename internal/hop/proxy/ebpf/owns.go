package ebpf

import (
	"context"
	"fmt"
)

// Owns implements proxy.Owner: by the programs, since the rules for packets are another mode's too.
func (b *Backend) Owns(ctx context.Context) (bool, error) {
	k, err := b.host.Open()
	if err != nil {
		return false, err
	}
	defer k.Close()
	running, err := k.Attached(ctx)
	return len(running) > 0, err
}

// RemoveOwn implements proxy.Layered: the programs and their maps go, the rules for packets stay.
func (b *Backend) RemoveOwn(ctx context.Context) error {
	k, err := b.door()
	if err != nil {
		return err
	}
	b.applied = nil
	err = k.Remove(ctx)
	b.forget()
	if err != nil {
		return fmt.Errorf("ebpf: remove: %w", err)
	}
	return nil
}

// Base implements proxy.Layered.
func (b *Backend) Base() string { return b.host.Packets.Name() }
