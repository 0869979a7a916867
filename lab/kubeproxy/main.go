// Command kubeproxy is the rules of the real kube-proxy without an API server: it takes Services and EndpointSlices on
// standard input, step by step, gives them to kube-proxy's own nftables or iptables proxier in the network namespace that
// it was started in, and answers when the kernel has the rules and how long that took. podway is tested and measured
// beside it.
//
// It owns nothing of kube-proxy but the order of calls: what an informer would have told the proxier, then one sync,
// called directly. The root module knows it only by its standard input and output (protocol.go).
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"

	"k8s.io/klog/v2"
)

func main() {
	klog.InitFlags(nil)
	flag.Parse()
	if err := serve(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "kubeproxy:", err)
		os.Exit(1)
	}
}

// serve answers one request after the other until the input ends.
func serve(in io.Reader, out io.Writer) error {
	var p *peer
	requests, responses := json.NewDecoder(in), json.NewEncoder(out)
	for {
		var r Request
		if err := requests.Decode(&r); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("read a request: %w", err)
		}
		var resp Response
		var err error
		switch {
		case r.Open != nil && p == nil:
			p, err = open(r.Open)
		case r.Sync != nil && p != nil:
			resp, err = p.sync(r.Sync)
		default:
			err = errors.New("the first request is open, all others are sync")
		}
		if err != nil {
			resp.Error = err.Error()
		}
		if err := responses.Encode(resp); err != nil {
			return fmt.Errorf("write an answer: %w", err)
		}
	}
}
