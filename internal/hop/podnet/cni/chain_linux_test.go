package cni_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"testing"

	types100 "github.com/containernetworking/cni/pkg/types/100"

	"github.com/podway/podway/internal/hop/podnet/podnettest"
)

// What a plugin before this one in the chain made stays in the result, and its indices stay right.
func TestTheResultOfAnEarlierPluginIsPassedOn(t *testing.T) {
	r := node(t, "10.244.1.0/24")
	pod := podnettest.NewHost(t, "a")
	stdin := fmt.Sprintf(`{"cniVersion":"1.0.0","name":"podway","type":"podway-cni","config":%q,"store":%q,"prevResult":{
		"cniVersion":"1.0.0","interfaces":[{"name":"net0","sandbox":"/x"}],"ips":[{"interface":0,"address":"192.0.2.7/24"}],
		"routes":[{"dst":"198.51.100.0/24"}],"dns":{"nameservers":["192.0.2.53"]}}}`, r.ConfigPath(), r.StoreDir())
	var out bytes.Buffer
	must(t, r.Node.NS.Do(func() error {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), "CNI_COMMAND=ADD", "CNI_CONTAINERID=a", "CNI_IFNAME=eth0", "CNI_PATH=/nowhere", "CNI_NETNS="+pod.NS.Path())
		cmd.Stdin, cmd.Stdout = bytes.NewReader([]byte(stdin)), &out
		return cmd.Run()
	}))
	var res types100.Result
	must(t, json.Unmarshal(out.Bytes(), &res))
	var ips []string
	for _, ip := range res.IPs {
		ips = append(ips, fmt.Sprintf("%s on %s", ip.Address.String(), res.Interfaces[*ip.Interface].Name))
	}
	if res.CNIVersion != "1.0.0" || !slices.Equal(ips, []string{"192.0.2.7/24 on net0", "10.244.1.2/32 on eth0"}) {
		t.Errorf("version %s, addresses %v", res.CNIVersion, ips)
	}
	if len(res.Routes) != 2 || len(res.Interfaces) != 3 || !slices.Equal(res.DNS.Nameservers, []string{"192.0.2.53"}) {
		t.Errorf("%s", out.String())
	}
}
