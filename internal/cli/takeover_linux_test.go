package cli

import (
	"io"
	"net/netip"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/podway/podway/internal/nettest"
)

// podwayOn runs podway on a node until it ends.
func podwayOn(t *testing.T, node *nettest.Host, args ...string) (stdout string, err error) {
	t.Helper()
	p, err := node.Start(t.Context(), append([]string{"/proc/self/exe"}, args...), asPodway+"=1")
	must(t, err)
	b, _ := io.ReadAll(p.Stdout)
	if err = p.Stop(10 * time.Second); err != nil {
		t.Logf("podway %s: %v: %s", strings.Join(args, " "), err, p.Stderr())
	}
	return string(b), err
}

func TestTakeoverReplacesKubeProxyOnANodeAndGoesBack(t *testing.T) {
	_, node, client, kubeconfig := aNode(t)
	must(t, node.Do(func() error {
		cmd := exec.Command("iptables-restore", "--noflush")
		cmd.Stdin = strings.NewReader("*nat\n:KUBE-SERVICES - [0:0]\n:KUBE-SEP-A - [0:0]\n-A PREROUTING -j KUBE-SERVICES\n-A OUTPUT -j KUBE-SERVICES\n" +
			"-A KUBE-SERVICES -d 10.96.0.7/32 -p tcp -m tcp --dport 80 -j KUBE-SEP-A\n-A KUBE-SEP-A -p tcp -m tcp -j DNAT --to-destination 10.244.1.1:8080\nCOMMIT\n")
		return cmd.Run()
	}))
	reached := func() bool {
		return client.Connect(t.Context(), nettest.Dial{Proto: "tcp", Dst: netip.MustParseAddrPort("10.96.0.7:80"), Timeout: 3 * time.Second}).Who == "a1"
	}
	flags := []string{"--kubeconfig", kubeconfig, "--hostname-override", "node-a", "--cluster-cidr", "10.244.0.0/16", "--state-dir", t.TempDir(), "--proxy-mode", "nftables"}
	plan, err := podwayOn(t, node, append([]string{"takeover", "plan"}, flags...)...)
	if err != nil || !strings.Contains(plan, "kube-proxy: iptables table nat: 2 chains, 2 jumps to them") || !strings.Contains(plan, "ConfigMap kube-system/kube-proxy was not read") {
		t.Errorf("plan: %v\n%s", err, plan)
	}
	out, err := podwayOn(t, node, append([]string{"takeover", "apply"}, flags...)...)
	if err != nil || !strings.Contains(out, "podway's rules of mode nftables are in force and proven; 1 Services") || !strings.Contains(out, "rules taken out, kept in") {
		t.Errorf("apply: %v\n%s", err, out)
	}
	if !reached() {
		t.Error("the Service is not reached through podway's rules")
	}
	if plan, _ := podwayOn(t, node, append([]string{"takeover", "plan"}, flags...)...); strings.Contains(plan, "chains") || !strings.Contains(plan, "podway: proxy nftables is programmed") {
		t.Errorf("plan afterwards:\n%s", plan)
	}
	out, err = podwayOn(t, node, "takeover", "rollback", "--state-dir", flags[7])
	if err != nil || !strings.Contains(out, "iptables of kube-proxy is in force again") || !strings.Contains(out, "removed  proxy nftables") {
		t.Errorf("rollback: %v\n%s", err, out)
	}
	if !reached() {
		t.Error("the Service is not reached through kube-proxy's rules")
	}
	if _, err := podwayOn(t, node, "takeover", "rollback", "--state-dir", flags[7]); err == nil {
		t.Error("a second rollback found something")
	}
}
