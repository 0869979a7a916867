package trace

import (
	"context"

	"github.com/podway/podway/internal/flow"
	"github.com/podway/podway/internal/model"
)

// Functions is a View of what the API says over the hops' pure functions, for one who has no node: key is the hop's name,
// and the flow says the node.
type Functions struct {
	Snapshot *model.Snapshot
	Hops     map[string]func(*model.Snapshot, flow.Flow) flow.Verdict
}

// Verdict asks the hop's function.
func (d Functions) Verdict(_ context.Context, hop, node string, f flow.Flow) (flow.Verdict, error) {
	decide, ok := d.Hops[hop]
	if !ok {
		return flow.Verdict{}, ErrNotChecked
	}
	f.Node = node
	return decide(d.Snapshot, f), nil
}
