package agent

import (
	"bytes"
	"fmt"
	"os/exec"
	"strings"
	"testing"
)

// restore and save run the tools in the calling thread's namespace.
func restore(text string) error {
	cmd := exec.Command("iptables-restore", "--noflush")
	cmd.Stdin = strings.NewReader(text)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

func save(t *testing.T, l *lab, table string) string {
	t.Helper()
	var out bytes.Buffer
	l.ok(l.node.Do(func() error {
		cmd := exec.Command("iptables-save", "-t", table)
		cmd.Stdout = &out
		return cmd.Run()
	}))
	return out.String()
}
