package spelling

import "testing"

func TestDistanceCountsSlipsOfTheKeyboard(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{
		{"", "", 0}, {"cart", "cart", 0}, {"", "cart", 4}, {"cart", "", 4},
		{"cart", "crat", 1}, // two letters swapped
		{"cart", "carts", 1}, {"cart", "car", 1}, {"cart", "cast", 1},
		{"refussed", "refused", 1}, {"ab", "ba", 1}, {"abc", "cba", 2}, {"shop", "pohs", 3}, {"kitten", "sitting", 3},
	} {
		if got := Distance(c.a, c.b); got != c.want {
			t.Errorf("%q to %q: %d, want %d", c.a, c.b, got, c.want)
		}
		if got := Distance(c.b, c.a); got != c.want {
			t.Errorf("%q to %q: %d, and the other way %d", c.b, c.a, got, c.want)
		}
	}
}
