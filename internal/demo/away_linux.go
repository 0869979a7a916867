package demo

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"github.com/podway/podway/internal/kernel/netns"
)

// absence is the longest time, until ctx ends, for which no agent with rules in force was in the network of a node's kubelet.
func absence(ctx context.Context, kubelet int) (longest time.Duration) {
	ns, err := netns.Open(fmt.Sprintf("/proc/%d/ns/net", kubelet))
	if err != nil {
		return 0
	}
	defer ns.Close()
	seen := time.Now()
	for ctx.Err() == nil {
		if ns.Do(ready) == nil {
			longest, seen = max(longest, time.Since(seen)), time.Now()
		}
		time.Sleep(100 * time.Millisecond)
	}
	return max(longest, time.Since(seen))
}

// inForce is an error unless the agent in the network of a node's kubelet has its rules in force.
func inForce(kubelet int) error {
	ns, err := netns.Open(fmt.Sprintf("/proc/%d/ns/net", kubelet))
	if err != nil {
		return err
	}
	defer ns.Close()
	return ns.Do(ready)
}

// ready asks the agent of the calling thread's network.
func ready() error {
	conn, err := net.DialTimeout("tcp", "127.0.0.1:10256", time.Second)
	if err != nil {
		return err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(time.Second))
	if _, err := io.WriteString(conn, "GET /readyz HTTP/1.0\r\n\r\n"); err != nil {
		return err
	}
	line, err := bufio.NewReader(conn).ReadString('\n')
	if err == nil && !strings.Contains(line, " 200 ") {
		err = fmt.Errorf("demo: not ready: %s", line)
	}
	return err
}
