package echo

import (
	"cmp"
	"fmt"
	"os"
)

// Identity says who answers.
type Identity struct{ Pod, Namespace, Node string }

// Me reads the identity from POD_NAME, POD_NAMESPACE and NODE_NAME; without them the Pod is the host name.
func Me() Identity {
	host, _ := os.Hostname()
	return Identity{Pod: cmp.Or(os.Getenv("POD_NAME"), host), Namespace: os.Getenv("POD_NAMESPACE"), Node: os.Getenv("NODE_NAME")}
}

// Line is the identity and the client in one line: "pod echo-1 namespace demo node node-1 client 10.244.1.3:40112".
func (i Identity) Line(client string) string {
	return fmt.Sprintf("pod %s namespace %s node %s client %s", i.Pod, cmp.Or(i.Namespace, "-"), cmp.Or(i.Node, "-"), client)
}
