// Package ebpf connects the sockets of a node and its Pods to endpoints right where they ask for a Service: programs at the
// node's control group look addresses up in maps, and packets need no translation on their way. What sockets do not see
// goes by the rules of another backend, which it keeps beside them. It owns the programs, maps and pins named here.
package ebpf

// dirName is the folder of the pins. Whatever is in it is this package's, in whichever process.
const dirName = "podway-proxy"

// The maps; bpf/maps.h says what is in them. Those that programs fill are never compared.
const (
	nodeMap     = "node"
	services    = "services"    // frontend -> list, its length, affinity
	slots       = "slots"       // list . number -> endpoint
	members     = "members"     // list . endpoint -> endpoint, for Services with affinity and for UDP
	connections = "connections" // UDP sockets that are connected to endpoints; filled by programs
)

// planned are the maps that a plan fills.
var planned = []string{slots, members, services}

// programs are in the order of attaching: a socket must never be sent to an endpoint while answers are not undone.
var programs = []string{"recvmsg4", "recvmsg6", "getpeername4", "getpeername6", "sock_release", "sendmsg4", "sendmsg6", "connect4", "connect6"}
