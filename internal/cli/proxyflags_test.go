package cli

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

func proxyFlagSet(t *testing.T, args ...string) (*kubeProxyFlags, error) {
	t.Helper()
	t.Setenv("PODWAY_PROXY_MODE", os.Getenv("PODWAY_PROXY_MODE"))
	k := &kubeProxyFlags{}
	f := pflag.NewFlagSet("proxy", pflag.ContinueOnError)
	f.SetOutput(new(strings.Builder))
	k.add(f)
	return k, f.Parse(args)
}

// The flags of kube-proxy 1.37, without those of its machine's id and --version, which every command has.
var kubeProxy137 = strings.Fields(`bind-address bind-address-hard-fail cleanup cluster-cidr config config-sync-period
conntrack-max-per-core conntrack-min conntrack-tcp-be-liberal conntrack-tcp-timeout-close-wait conntrack-tcp-timeout-established
conntrack-udp-timeout conntrack-udp-timeout-stream detect-local-mode feature-gates healthz-bind-address healthz-port
hostname-override init-only iptables-localhost-nodeports iptables-masquerade-bit iptables-min-sync-period iptables-sync-period
ipvs-exclude-cidrs ipvs-min-sync-period ipvs-scheduler ipvs-strict-arp ipvs-sync-period ipvs-tcp-timeout ipvs-tcpfin-timeout
ipvs-udp-timeout kube-api-burst kube-api-content-type kube-api-qps kubeconfig log-flush-frequency log-json-info-buffer-size
log-json-split-stream log-text-info-buffer-size log-text-split-stream logging-format masquerade-all master metrics-bind-address
metrics-port nodeport-addresses oom-score-adj pod-bridge-interface pod-interface-name-prefix profiling proxy-mode
show-hidden-metrics-for-version v vmodule write-config-to`)

func TestEveryFlagOfKubeProxyIsThere(t *testing.T) {
	k, err := proxyFlagSet(t)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	k.flags.VisitAll(func(f *pflag.Flag) { got = append(got, f.Name) })
	slices.Sort(got)
	if !slices.Equal(got, kubeProxy137) {
		t.Errorf("got %q", got)
	}
}

func TestFlagsMakeAConfiguration(t *testing.T) {
	t.Setenv("PODWAY_PROXY_MODE", "")
	for _, c := range []struct{ args, want string }{
		{"", "nftables 0.0.0.0:10256 127.0.0.1:10249 1m0s"},
		{"--proxy-mode=iptables --iptables-sync-period=5s --iptables-min-sync-period=1s --healthz-bind-address=10.0.0.1:99", "iptables 10.0.0.1:99 127.0.0.1:10249 10s"},
		{"--proxy-mode=ipvs --ipvs-sync-period=20s --iptables-sync-period=5s", "ipvs 0.0.0.0:10256 127.0.0.1:10249 40s"},
		{"--healthz-port=0 --metrics-port=1234", "nftables  127.0.0.1:1234 1m0s"},
		{"--healthz-bind-address= --metrics-bind-address=[::1]:5", "nftables  [::1]:5 1m0s"},
	} {
		k, err := proxyFlagSet(t, strings.Fields(c.args)...)
		if err != nil {
			t.Fatal(err)
		}
		r, err := k.resolve()
		if err != nil {
			t.Errorf("%s: %v", c.args, err)
			continue
		}
		if got := strings.Join([]string{r.Mode, r.Healthz, r.Metrics, r.HealthTimeout.String()}, " "); got != c.want {
			t.Errorf("%s: got %s, want %s", c.args, got, c.want)
		}
	}
	k, err := proxyFlagSet(t, strings.Fields("--masquerade-all --nodeport-addresses=primary,10.0.0.0/8 --cluster-cidr=10.244.0.0/16 --hostname-override=Node-A --feature-gates=AllowServiceExternalIPs=false,X=true -v 4 --oom-score-adj=-5 --conntrack-min=7")...)
	if err != nil {
		t.Fatal(err)
	}
	r, err := k.resolve()
	if err != nil {
		t.Fatal(err)
	}
	if s := r.Settings; !s.MasqueradeAll || !s.NodePorts.Primary || s.LocalPods.CIDRs[0].String() != "10.244.0.0/16" || !s.NoExternalIPs || r.Node != "node-a" || r.Verbosity != 4 || r.OOMScore != -5 || r.Tracking.Min != 7 {
		t.Errorf("got %+v", r.Config)
	}
}

func TestTheFileGoesBeforeTheFlags(t *testing.T) {
	t.Setenv("PODWAY_PROXY_MODE", "nftables")
	path := filepath.Join(t.TempDir(), "config.yaml")
	text := "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\nhostnameOverride: of-file\nmode: iptables\nportRange: 1-2\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	k, err := proxyFlagSet(t, "--config", path, "--proxy-mode=ipvs", "--masquerade-all", "--hostname-override=of-flag", "-v=5", "--metrics-port=0")
	if err != nil {
		t.Fatal(err)
	}
	r, err := k.resolve()
	if err != nil {
		t.Fatal(err)
	}
	if r.Mode != "iptables" || r.Settings.MasqueradeAll || r.Node != "of-flag" || r.Verbosity != 5 || r.Metrics != "127.0.0.1:10249" {
		t.Errorf("got %+v", r.Config)
	}
	if want := []string{"masquerade-all", "metrics-port", "proxy-mode"}; !slices.Equal(r.Ignored, want) || len(r.Unused) != 1 || r.Unused[0].Path != "portRange" {
		t.Errorf("ignored %q, unused %v", r.Ignored, r.Unused)
	}
}

func TestAWrongConfigurationIsAUsageErrorThatNamesTheFileAndTheKey(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.yaml")
	for text, want := range map[string]string{
		"conntrac: 1":          path + `: unknown field "conntrac"`,
		"oomScoreAdj: 1000000": path + ": oomScoreAdj: 1000000: want -1000 to 1000",
	} {
		if err := os.WriteFile(path, []byte("apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\n"+text), 0o600); err != nil {
			t.Fatal(err)
		}
		k, err := proxyFlagSet(t, "--config="+path)
		if err != nil {
			t.Fatal(err)
		}
		_, err = k.resolve()
		var e *exitError
		if err == nil || err.Error() != want || !errors.As(err, &e) || e.code != ExitUsage {
			t.Errorf("%s: got %v, want %s", text, err, want)
		}
	}
	if k, err := proxyFlagSet(t, "--proxy-mode=userspace"); err != nil {
		t.Fatal(err)
	} else if _, err := k.resolve(); err == nil || !strings.Contains(err.Error(), `mode: "userspace"`) {
		t.Errorf("got %v", err)
	}
}
