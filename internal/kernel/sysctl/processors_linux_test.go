package sysctl

import "testing"

func TestProcessorsAreCountedFromTheKernelsList(t *testing.T) {
	for list, want := range map[string]int{"0\n": 1, "0-3": 4, "0-1,4,6-7\n": 5, "": 0, "a-b": 0, "3-1": 0} {
		if got := ranges(list); got != want {
			t.Errorf("%q: got %d, want %d", list, got, want)
		}
	}
	if Processors() < 1 {
		t.Error("a host without processors")
	}
}
