package nettest

import (
	"bufio"
	"context"
	"strings"
	"testing"
	"time"
)

func TestAProcessRunsInTheHostsNamespace(t *testing.T) {
	Need(t)
	_, nodes, _ := twoNodes(t)
	p, err := nodes[0].Start(context.Background(), []string{"/bin/sh", "-c", "cat /proc/net/fib_trie; echo done; read x; echo bye >&2"})
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	for in := bufio.NewScanner(p.Stdout); in.Scan() && in.Text() != "done"; {
		out.WriteString(in.Text())
	}
	if want := nodes[0].Addrs[0].String(); !strings.Contains(out.String(), want) {
		t.Errorf("the process sees no address %s", want)
	}
	start := time.Now()
	_ = p.Stop(5 * time.Second) // read fails at the end of input, which is the exit code of nothing here
	if took := time.Since(start); took > 4*time.Second {
		t.Errorf("the process did not end with its input; it took %s", took)
	}
	if p.Stderr() != "bye\n" {
		t.Errorf("standard error: %q", p.Stderr())
	}
}
