package proxy

import (
	"context"

	"github.com/podway/podway/internal/flow"
)

// Backend programs a plan into one kind of rules. It belongs to one goroutine, except Render, which is pure, and Read
// and Eval, which may be called from any.
type Backend interface {
	Name() string
	// Supported says whether this host can do it: nil, or an error that wraps errors.ErrUnsupported and names the remedy.
	Supported(ctx context.Context) error
	// Render returns the rules that the plan wants.
	Render(p *Plan) Ruleset
	// Apply makes the host's rules those of the plan. It compares with what it applied last; at first, after an error and
	// after a drift it reads the host's rules and changes only what differs.
	Apply(ctx context.Context, p *Plan) (Applied, error)
	// Check reports in words what somebody else changed in the rules, "" when nothing; it must be cheap when nobody did.
	Check(ctx context.Context) (string, error)
	// Read returns all rules that the host has. n tells the node's addresses.
	Read(ctx context.Context, n Node) (Ruleset, error)
	// Eval is what the host's rules do with a flow; it reads no more of them than that takes.
	Eval(ctx context.Context, n Node, f flow.Flow) (flow.Verdict, error)
	// Remove deletes all rules of this backend, told by their names alone.
	Remove(ctx context.Context) error
}

// Limited is a Backend that cannot do what some settings ask for.
type Limited interface {
	// Can returns nil, or an error that wraps errors.ErrUnsupported and names the setting and the remedy.
	Can(s *Settings) error
}

// Finder is a Backend that knows of something that is wrong on the host, since its last Apply.
type Finder interface{ Findings() []flow.Finding }

// Balancer is a Backend that can choose by the client's address (Port.Maglev). Of others nobody asks it: they choose at
// random.
type Balancer interface{ Balances() }

// Ruleset is rules as the host has them or should have them.
type Ruleset interface {
	Text() string
	Eval(f flow.Flow) flow.Verdict
}

// Applied says what an Apply of a Backend did.
type Applied struct {
	Changed int  // objects written: elements, rules, chains
	Full    bool // everything was compared, not only what changed in the plan
}
