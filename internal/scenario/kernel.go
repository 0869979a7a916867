package scenario

// KernelOptions are what level kernel needs beside the scenario.
type KernelOptions struct {
	Program  string   // the executable; started as podnet.PluginName it must be the CNI plugin
	NodeArgs []string // arguments with which Program calls NodeMain
	Env      []string // with which it does, beside the caller's
	// Inside opens the hops of nodes in this process instead, except where a scenario kills processes.
	Inside NodeHops
	Plugin string // the executable of the CNI plugin; "" = Program
	Slow   int    // how many times longer than else answers and silence are waited for; 0 = 1
	// ProxyMode is the backend of the hop proxy on every node; "" = the default.
	ProxyMode string
	// KubeProxy runs on every node in place of the hop proxy when its Program is set.
	KubeProxy KubeProxy
	// Without names hops that no node runs.
	Without []string
}

// KubeProxy is the program of lab/kubeproxy and the mode in which it is to run in place of the hop proxy.
type KubeProxy struct {
	Program string
	Mode    string // nftables or iptables
}
