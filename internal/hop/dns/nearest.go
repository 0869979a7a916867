package dns

import "github.com/podway/podway/internal/model"

// far is the score of a Service that nobody can have meant.
const far = 100

// score says how far a Service is from the one asked for: the same name in another namespace first (a like namespace
// before others), then names that differ by a letter or two in the same namespace.
func score(have, asked model.Name) int {
	switch d := distance(have.Name, asked.Name); {
	case d == 0:
		return min(distance(have.Namespace, asked.Namespace), 20)
	case have.Namespace == asked.Namespace && d <= 1+len(asked.Name)/5:
		return 20 + d
	}
	return far
}

// distance is the number of letters to insert, delete, change or swap to make b of a.
func distance(a, b string) int {
	before, prev := make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range prev {
		prev[j] = j
	}
	for i := 1; i <= len(a); i++ {
		cur := make([]int, len(b)+1)
		cur[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			cur[j] = min(prev[j]+1, cur[j-1]+1, prev[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				cur[j] = min(cur[j], before[j-2]+1)
			}
		}
		before, prev = prev, cur
	}
	return prev[len(b)]
}
