package dns

import (
	"github.com/podway/podway/internal/flow/spelling"
	"github.com/podway/podway/internal/model"
)

// far is the score of a Service that nobody can have meant.
const far = 100

// score says how far a Service is from the one asked for: the same name in another namespace first (a like namespace
// before others), then names that differ by a letter or two in the same namespace.
func score(have, asked model.Name) int {
	switch d := spelling.Distance(have.Name, asked.Name); {
	case d == 0:
		return min(spelling.Distance(have.Namespace, asked.Namespace), 20)
	case have.Namespace == asked.Namespace && d <= 1+len(asked.Name)/5:
		return 20 + d
	}
	return far
}
