package oom

import (
	"os"
	"strconv"
	"strings"
	"testing"
)

func TestTheScoreIsThisProcesss(t *testing.T) {
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil {
		t.Fatal(err)
	}
	want := min(before+1, 1000) // higher needs no privilege
	if err := Adjust(want); err != nil {
		t.Fatal(err)
	}
	if b, _ := os.ReadFile(path); strings.TrimSpace(string(b)) != strconv.Itoa(want) {
		t.Errorf("got %s, want %d", b, want)
	}
	if err := Adjust(4000); err == nil {
		t.Error("a score out of range is no error")
	}
}
