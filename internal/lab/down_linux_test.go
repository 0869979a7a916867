package lab

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/podway/podway/internal/lab/supervisor"
)

func TestDownWaitsForAClusterThatIsAboutToStart(t *testing.T) {
	dir := t.TempDir()
	starts, err := lockUp(dir) // as `podway up` does first
	if err != nil {
		t.Fatal(err)
	}
	const until = 200 * time.Millisecond
	time.AfterFunc(until, starts)
	began := time.Now()
	polite, unlock := claim(t.Context(), dir)
	if took := time.Since(began); polite || took < until {
		t.Errorf("after %s, polite %t: it did not wait for the one that starts", took, polite)
	}
	if _, err := lockUp(dir); err == nil {
		t.Error("another one may start while this one ends")
	}
	unlock()
	again, err := lockUp(dir)
	if err != nil {
		t.Fatal(err)
	}
	again()
}

func TestDownWaitsForASupervisorThatDoesNotAnswerYet(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, supervisor.LockFile)
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	let, free := tryLock(path)
	if !free {
		t.Fatal("a lock of nobody is held")
	}
	const until = 200 * time.Millisecond
	time.AfterFunc(until, let)
	began := time.Now()
	_, unlock := claim(t.Context(), dir)
	unlock()
	if took := time.Since(began); took < until {
		t.Errorf("it went on after %s", took)
	}
}

func TestDownOfAFolderThatIsNoneWaitsForNobodyAndMakesNothing(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "none")
	began := time.Now()
	_, unlock := claim(t.Context(), dir)
	unlock()
	if _, err := os.Stat(dir); err == nil || time.Since(began) > time.Second {
		t.Errorf("after %s: %v", time.Since(began), err)
	}
}
