package lab_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/podway/podway/internal/lab/spec"
)

// As kubeadm leaves it on a cluster.
const kubeProxyConfigMap = `apiVersion: v1
kind: ConfigMap
metadata: {name: kube-proxy, namespace: kube-system, labels: {app: kube-proxy}}
data:
  config.conf: |-
    apiVersion: kubeproxy.config.k8s.io/v1alpha1
    bindAddress: 0.0.0.0
    bindAddressHardFail: false
    clientConnection:
      acceptContentTypes: ""
      burst: 0
      contentType: ""
      kubeconfig: /var/lib/kube-proxy/kubeconfig.conf
      qps: 0
    clusterCIDR: 10.244.0.0/16
    configSyncPeriod: 0s
    conntrack: {maxPerCore: 0, tcpCloseWaitTimeout: 0s, tcpEstablishedTimeout: 0s}
    enableProfiling: false
    healthzBindAddress: ""
    hostnameOverride: ""
    iptables: {masqueradeAll: false, masqueradeBit: null, minSyncPeriod: 0s, syncPeriod: 0s}
    kind: KubeProxyConfiguration
    metricsBindAddress: ""
    mode: %q
    nodePortAddresses: null
    oomScoreAdj: null
    showHiddenMetricsForVersion: ""
  kubeconfig.conf: |-
    apiVersion: v1
    kind: Config
    clusters:
    - cluster: {certificate-authority: /var/run/secrets/kubernetes.io/serviceaccount/ca.crt, server: "%s"}
      name: default
    contexts:
    - context: {cluster: default, namespace: default, user: default}
      name: default
    current-context: default
    users:
    - name: default
      user: {tokenFile: /var/run/secrets/kubernetes.io/serviceaccount/token}
`

// What a kubelet leaves whose iptables are of the variant legacy, as on an old distribution.
const legacyNode = "iptables-legacy -t mangle -N KUBE-KUBELET-CANARY"

// TestTheServiceProxyAlone runs podway-proxy, and nothing else of podway, from its manifests on a cluster with other
// networking: in each mode, over a live change of the mode, and over the end of the process.
func TestTheServiceProxyAlone(t *testing.T) {
	r := newRig(t)
	echo := filepath.Join(need(t), "echo")
	r.network(1)
	r.run("up", "--nodes", "1", "--networking", "none", "--wait", "120s")
	r.apply(takenService)
	r.background("exec", "outside", "--", echo, "serve")
	for _, m := range []struct{ name, mode, before, look, want string }{
		{"nftables", "nftables", "", "nft list tables", "table ip podway-proxy"},
		{"iptables", "iptables", "", "iptables-nft -t nat -S KUBE-SERVICES", "10.96.0.50/32"},
		{"ebpf", "ebpf", "", "ls /sys/fs/bpf", "podway"},
		{"iptables-legacy", "iptables", legacyNode, "iptables-legacy -t nat -S KUBE-SERVICES", "10.96.0.50/32"},
	} {
		t.Run(m.name, func(t *testing.T) {
			r.t = t
			if m.before != "" {
				r.run("exec", "node-1", "--", "sh", "-c", m.before)
			}
			r.apply(fmt.Sprintf(kubeProxyConfigMap, m.mode, spec.Server()))
			r.apply(r.run("up", "--manifests-only", "--proxy-only", "--proxy-mode", m.mode))
			r.run("kubectl", "-n", "kube-system", "rollout", "restart", "ds/podway-proxy")
			r.run("kubectl", "-n", "kube-system", "rollout", "status", "ds/podway-proxy", "--timeout=120s")
			r.served(echo)
			if out := r.run("exec", "node-1", "--", "sh", "-c", m.look); !strings.Contains(out, m.want) {
				t.Errorf("%s says:\n%s", m.look, out)
			}
			if out := r.run("exec", "node-1", "--", "podway", "cleanup", "--dry-run"); strings.Count(out, "proxy") == 0 {
				t.Errorf("cleanup knows nothing of a running service proxy:\n%s", out)
			}
			r.diesUnseen(echo)
		})
	}
	r.t = t
	r.run("kubectl", "-n", "kube-system", "delete", "ds", "podway-proxy")
	r.run("kubectl", "-n", "kube-system", "wait", "--for=delete", "pod", "-l", "app.kubernetes.io/name=podway-proxy", "--timeout=60s")
	r.run("exec", "node-1", "--", "podway", "cleanup")
	if out := r.run("exec", "node-1", "--", "podway", "cleanup", "--dry-run"); strings.Contains(out, "proxy") {
		t.Errorf("cleanup leaves something:\n%s", out)
	}
}

// diesUnseen kills the service proxy's process: what it wrote goes on serving, and the kubelet starts it again.
func (r *rig) diesUnseen(echo string) {
	r.t.Helper()
	restarts := func() string {
		return r.run("kubectl", "-n", "kube-system", "get", "pod", "-l", "app.kubernetes.io/name=podway-proxy",
			"-o", "jsonpath={.items[*].status.containerStatuses[*].restartCount} {.items[*].status.containerStatuses[*].ready}")
	}
	if was := restarts(); was != "0 true" {
		r.t.Fatalf("restarts and readiness of podway-proxy: %s", was)
	}
	r.run("exec", "node-1", "--", "pkill", "-KILL", "-f", "podway proxy --config")
	r.served(echo)
	r.await("podway-proxy is back", func() bool { return restarts() == "1 true" })
	r.served(echo)
}
