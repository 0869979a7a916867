package podnettest

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	"github.com/containernetworking/cni/libcni"
	"github.com/containernetworking/cni/pkg/types"
	types100 "github.com/containernetworking/cni/pkg/types/100"

	"github.com/podway/podway/internal/hop/podnet"
)

// Runtime calls the CNI plugin on a node as a container runtime does. The plugin is the test's own executable, whose
// TestMain must turn to it when CNI_COMMAND is set.
type Runtime struct {
	Node  *Host
	Dir   string
	Ports []HostPort // of the next Pods

	cni  *libcni.CNIConfig
	list *libcni.NetworkConfigList
}

// HostPort is a container's hostPort, in the words of container runtimes.
type HostPort struct {
	HostPort      int    `json:"hostPort"`
	ContainerPort int    `json:"containerPort"`
	Protocol      string `json:"protocol"`
	HostIP        string `json:"hostIP,omitempty"`
}

// NewRuntime prepares a folder with the plugin, its configuration and its store.
func NewRuntime(t testing.TB, node *Host) *Runtime {
	t.Helper()
	r := &Runtime{Node: node, Dir: t.TempDir()}
	bin := filepath.Join(r.Dir, "bin")
	node.Must(os.Mkdir(bin, 0o755))
	node.Must(os.Symlink(os.Args[0], filepath.Join(bin, podnet.PluginName)))
	r.cni = libcni.NewCNIConfigWithCacheDir([]string{bin}, filepath.Join(r.Dir, "cache"), nil)
	list, err := libcni.ConfListFromBytes(fmt.Appendf(nil,
		`{"cniVersion":"1.1.0","name":"podway","plugins":[{"type":%q,"config":%q,"store":%q,"capabilities":{"portMappings":true}}]}`,
		podnet.PluginName, r.ConfigPath(), r.StoreDir()))
	node.Must(err)
	r.list = list
	return r
}

// ConfigPath is where the plugin looks for its node's configuration.
func (r *Runtime) ConfigPath() string { return filepath.Join(r.Dir, "podnet.json") }

// StoreDir is where the plugin keeps reservations.
func (r *Runtime) StoreDir() string { return filepath.Join(r.Dir, "store") }

// Configure writes the node's configuration, as the agent would.
func (r *Runtime) Configure(mtu int, cidrs ...string) {
	r.Node.t.Helper()
	c := podnet.NodeConfig{Node: r.Node.Name, MTU: mtu}
	for _, s := range cidrs {
		p := netip.MustParsePrefix(s)
		c.PodCIDRs, c.Gateways = append(c.PodCIDRs, p), append(c.Gateways, p.Addr().Next())
	}
	b, err := json.Marshal(c)
	r.Node.Must(err)
	r.Node.Must(os.WriteFile(r.ConfigPath(), b, 0o644))
}

func (r *Runtime) args(pod *Host) *libcni.RuntimeConf {
	rt := &libcni.RuntimeConf{ContainerID: pod.Name, IfName: "eth0", Args: [][2]string{
		{"IgnoreUnknown", "1"}, {"K8S_POD_NAMESPACE", "shop"}, {"K8S_POD_NAME", pod.Name}, {"K8S_POD_UID", "uid-" + pod.Name},
	}}
	if pod.NS != nil {
		rt.NetNS = pod.NS.Path()
	}
	if len(r.Ports) > 0 {
		rt.CapabilityArgs = map[string]any{"portMappings": r.Ports}
	}
	return rt
}

// Add runs ADD and returns the addresses.
func (r *Runtime) Add(pod *Host) ([]netip.Addr, error) {
	res, err := r.AddResult(pod)
	if err != nil {
		return nil, err
	}
	var out []netip.Addr
	for _, ip := range res.IPs {
		a, _ := netip.AddrFromSlice(ip.Address.IP)
		out = append(out, a.Unmap())
	}
	return out, nil
}

// AddResult runs ADD and returns what the plugin printed.
func (r *Runtime) AddResult(pod *Host) (res *types100.Result, err error) {
	err = r.Node.NS.Do(func() error {
		got, err := r.cni.AddNetworkList(context.Background(), r.list, r.args(pod))
		if err != nil {
			return err
		}
		res, err = types100.GetResult(got)
		return err
	})
	return res, err
}

// Del runs DEL. A pod without NS is one whose namespace is gone.
func (r *Runtime) Del(pod *Host) error {
	return r.Node.NS.Do(func() error { return r.cni.DelNetworkList(context.Background(), r.list, r.args(pod)) })
}

// Check runs CHECK.
func (r *Runtime) Check(pod *Host) error {
	return r.Node.NS.Do(func() error { return r.cni.CheckNetworkList(context.Background(), r.list, r.args(pod)) })
}

// GC runs GC with the pods that are still there.
func (r *Runtime) GC(pods ...*Host) error {
	var valid []types.GCAttachment
	for _, p := range pods {
		valid = append(valid, types.GCAttachment{ContainerID: p.Name, IfName: "eth0"})
	}
	return r.Node.NS.Do(func() error {
		return r.cni.GCNetworkList(context.Background(), r.list, &libcni.GCArgs{ValidAttachments: valid})
	})
}

// Status runs STATUS.
func (r *Runtime) Status() error {
	return r.Node.NS.Do(func() error { return r.cni.GetStatusNetworkList(context.Background(), r.list) })
}

// Pod makes a Pod's namespace and gives it a link to the node.
func (r *Runtime) Pod(t testing.TB, name string) (*Host, []netip.Addr) {
	t.Helper()
	pod := NewHost(t, name)
	addrs, err := r.Add(pod)
	pod.Must(err)
	return pod, addrs
}
