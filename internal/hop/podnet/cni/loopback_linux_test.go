package cni_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/podway/podway/internal/hop/podnet/cni"
	"github.com/podway/podway/internal/kernel/link"
	"github.com/podway/podway/internal/kernel/netns"
)

func TestTheLoopbackPluginBringsThePodsLoopbackUp(t *testing.T) {
	ns, err := netns.New()
	must(t, err)
	defer ns.Close()
	call := func(command string) (string, error) {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), "CNI_COMMAND="+command, "CNI_CONTAINERID=a", "CNI_IFNAME=lo", "CNI_PATH=/nowhere",
			"CNI_NETNS="+ns.Path(), loopbackEnv+"=1")
		cmd.Stdin = strings.NewReader(`{"cniVersion":"0.3.1","name":"cni-loopback","type":"loopback"}`)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	out, err := call("ADD")
	if err != nil || !strings.Contains(out, `"127.0.0.1/8"`) || !strings.Contains(out, `"cniVersion": "0.3.1"`) {
		t.Fatalf("%v\n%s", err, out)
	}
	links, err := link.Open(ns)
	must(t, err)
	defer links.Close()
	if l, _, err := links.Get("lo"); err != nil || !l.Up {
		t.Errorf("lo: %v, %v", l, err)
	}
	if out, err := call("DEL"); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestThePluginIsKnownByTheNameOfItsFile(t *testing.T) {
	for program, want := range map[string]bool{
		"/opt/cni/bin/podway-cni": true, "podway-cni": true, "/opt/cni/bin/loopback": true, "/usr/bin/podway": false, "": false,
	} {
		if _, ok := cni.NameOf(program); ok != want {
			t.Errorf("%q: %v", program, ok)
		}
	}
}
