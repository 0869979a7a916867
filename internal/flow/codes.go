package flow

// The codes, by hop: 10xx name, 11xx-12xx service and backends, 2xxx DNS service, 3xxx LoadBalancer address, 4xxx ingress,
// 5xxx pod network, 6xxx service proxy rules, 7xxx process, 9xxx podway itself. A code is never reused.
const (
	NoSuchName         Code = "PW-1001"
	NoSuchServicePort  Code = "PW-1101"
	NoSuchNodePort     Code = "PW-1102"
	AddressUnused      Code = "PW-1103"
	FrontendTaken      Code = "PW-1104"
	SelectorNoPod      Code = "PW-1201"
	PodsNotReady       Code = "PW-1202"
	TargetPortNoName   Code = "PW-1203"
	ScaledToZero       Code = "PW-1204"
	NoSelectorNoSlices Code = "PW-1205"
	SlicesStale        Code = "PW-1206"
	InternalLocalNone  Code = "PW-1301"
	ExternalLocalNone  Code = "PW-1302"
	SourceNotAllowed   Code = "PW-1303"
	HealthPortTaken    Code = "PW-1304"
	DNSServerDown      Code = "PW-2001"
	DNSWrongAnswer     Code = "PW-2002"
	DNSNotSynced       Code = "PW-2003"
	DNSUpstreamDown    Code = "PW-2004"
	DNSLoop            Code = "PW-2005"
	DNSConfigInvalid   Code = "PW-2006"
	LBPending          Code = "PW-3001"
	LBNotAnnounced     Code = "PW-3002"
	LBForeignClass     Code = "PW-3003"
	PoolUnusable       Code = "PW-3004"
	IngressNoClass     Code = "PW-4001"
	IngressNoRule      Code = "PW-4002"
	IngressNoService   Code = "PW-4003"
	IngressNoPort      Code = "PW-4004"
	IngressNoBackend   Code = "PW-4005"
	IngressBadSecret   Code = "PW-4006"
	IngressConflict    Code = "PW-4007"
	IngressUnsupported Code = "PW-4008"
	IngressDown        Code = "PW-4009"
	NoRouteToPod       Code = "PW-5001"
	NoVethOfPod        Code = "PW-5002"
	ForwardingOff      Code = "PW-5003"
	NoPodCIDR          Code = "PW-5004"
	PodAddressesOut    Code = "PW-5005"
	NodeNotReady       Code = "PW-5006"
	PacketsLost        Code = "PW-5007"
	RouteTaken         Code = "PW-5008"
	ForwardDropped     Code = "PW-5009"
	OtherCNI           Code = "PW-5010"
	NoSuchPodAddress   Code = "PW-5011"
	RulesDiffer        Code = "PW-6001"
	ConntrackFull      Code = "PW-6002"
	ConntrackStrict    Code = "PW-6003"
	TrackingNotSet     Code = "PW-6010"
	ModeLeftover       Code = "PW-6011"
	LoopbackClosed     Code = "PW-6012"
	NothingListens     Code = "PW-7001"
	ListensOnLoopback  Code = "PW-7002"
	PodGone            Code = "PW-7003"
	AgentDown          Code = "PW-9001"
	AgentStale         Code = "PW-9002"
	ApplyFailed        Code = "PW-9003"
)

// Causes returns the table of all codes in order.
func Causes() []Cause { return causes }

// CauseOf returns the description of a code, and whether it is known.
func CauseOf(c Code) (Cause, bool) {
	for _, x := range causes {
		if x.Code == c {
			return x, true
		}
	}
	return Cause{}, false
}

var causes = []Cause{
	{NoSuchName, "dns", "the name does not exist", "No Service answers to this name in any domain of the client's search list.", "Use NAME.NAMESPACE of an existing Service, or create it."},
	{NoSuchServicePort, "proxy", "the Service has no such port", "The address is a Service's, the port is none of its ports.", "Use one of the Service's ports (spec.ports[].port, not the Pod's port)."},
	{NoSuchNodePort, "proxy", "no Service has this node port", "The port is not allocated to any Service, so the node itself answers.", "Use the nodePort of the Service."},
	{AddressUnused, "proxy", "the address belongs to no Service", "The address lies in the range of Services and none has it.", "Look the name up again: the Service was deleted or made anew."},
	{FrontendTaken, "proxy", "another Service has the same address and port", "Two Services claim one address, port and protocol; a ClusterIP goes before a load balancer address, that before an externalIP, then the first by name.", "Change externalIPs, the load balancer address or the port of one of the two."},
	{SelectorNoPod, "proxy", "the selector matches no Pod", "No Pod of the Service's namespace has all labels of spec.selector.", "Change spec.selector, or the labels in the workload's Pod template."},
	{PodsNotReady, "proxy", "Pods match, none is ready", "A Pod that is not ready gets no traffic.", "Mend the readiness probe or what it tests; see the Pod's events."},
	{TargetPortNoName, "proxy", "no Pod has a port with the name in targetPort", "A named targetPort must be the name of a container port of the Pods.", "Change targetPort to the name or number of a container port."},
	{ScaledToZero, "proxy", "the workload behind the Service has no replicas", "The Pod template would match the selector, but zero replicas are wanted.", "Scale the workload up."},
	{NoSelectorNoSlices, "proxy", "the Service has no selector and no EndpointSlice", "Without a selector somebody must write the EndpointSlices.", "Add a selector, or an EndpointSlice with the label kubernetes.io/service-name."},
	{SlicesStale, "proxy", "the EndpointSlices do not say what the Pods say", "Ready Pods match the selector, but the slices do not list them: the endpoint controller is not working.", "See that podway-controller (or kube-controller-manager) runs and leads."},
	{InternalLocalNone, "proxy", "internalTrafficPolicy is Local and the client's node has no ready Pod", "Traffic from this node is dropped though other nodes have ready Pods.", "Use Cluster, or run a Pod on every node that has clients."},
	{ExternalLocalNone, "proxy", "externalTrafficPolicy is Local and the node has no ready Pod", "Traffic from outside that reaches this node is dropped.", "Send it to a node with a ready Pod, or use Cluster."},
	{SourceNotAllowed, "proxy", "the client is not in loadBalancerSourceRanges", "The Service's address answers only to the listed ranges.", "Add the client's range to spec.loadBalancerSourceRanges."},
	{HealthPortTaken, "proxy", "the healthCheckNodePort cannot be opened on the node", "Load balancers that ask there take the node for one without endpoints.", "See who listens on the port (ss -ltnp) and end it, or make the Service anew for another port."},
	{DNSServerDown, "dns", "the cluster's DNS server does not answer", "The DNS Service has no ready endpoint or none answered the probe.", "See the Pods behind the DNS Service."},
	{DNSWrongAnswer, "dns", "DNS answers differently from what the cluster says", "The server's view is not the API server's.", "See the server's log and its view's age."},
	{DNSNotSynced, "dns", "the DNS server has not seen the whole cluster yet", "Before its first complete view it answers SERVFAIL to names of the cluster.", "See whether it reaches the API server."},
	{DNSUpstreamDown, "dns", "the upstream DNS servers do not answer", "Names outside the cluster cannot be looked up; those of the cluster can.", "See the nameserver lines of the resolv.conf that the DNS server reads, and the way to these servers."},
	{DNSLoop, "dns", "an upstream DNS server sends our own questions back", "It forwards to the cluster's DNS server, so it is not asked.", "Let the DNS server read a resolv.conf with the real servers, such as /run/systemd/resolve/resolv.conf."},
	{DNSConfigInvalid, "dns", "the DNS server's changed Corefile is not valid", "The configuration before stays in force; what was changed has no effect.", "Correct the line that is named; `podway dns --check --conf FILE` tells whether a Corefile is valid."},
	{LBPending, "announce", "the Service has no LoadBalancer address", "No pool with a free address fits the Service.", "Add an AddressPool, enlarge one, or release addresses."},
	{LBNotAnnounced, "announce", "no node announces the LoadBalancer address", "No node has what it takes: ready, not excluded, and with a ready Pod when externalTrafficPolicy is Local.", "Make a node eligible; the evidence says what each lacks."},
	{LBForeignClass, "announce", "the Service's loadBalancerClass is not podway's", "Another controller is responsible for the address.", "Remove spec.loadBalancerClass, or ask that controller."},
	{PoolUnusable, "announce", "addresses of an AddressPool cannot be used", "They cannot be read, or they are in another pool as well, in the range of Pods or Services, or a node's own; those that cannot work are not given out.", "Change spec.addresses of the AddressPool."},
	{IngressNoClass, "ingress", "no ingress class serves this Ingress", "Its class does not exist, is another controller's, or it names none and there is no default class.", "Set spec.ingressClassName to a class whose controller runs, or mark one as default."},
	{IngressNoRule, "ingress", "no Ingress rule matches host and path", "The proxy answers 404 itself.", "Add a rule for the host and path."},
	{IngressNoService, "ingress", "the Ingress names a Service that does not exist", "The proxy answers 503 for this path.", "Create the Service in the Ingress's namespace or change the name."},
	{IngressNoPort, "ingress", "the Ingress names a port that the Service does not have", "It must be the Service's port, by its name or number.", "Change backend.service.port."},
	{IngressNoBackend, "ingress", "the Service behind the Ingress has no ready endpoint", "The proxy answers 503 for this path.", "See the Service: trace it directly."},
	{IngressBadSecret, "ingress", "the TLS Secret cannot be used", "It is missing, not of type kubernetes.io/tls, or certificate and key do not fit; clients get the default certificate.", "Create the Secret in the Ingress's namespace."},
	{IngressConflict, "ingress", "another, older Ingress has the same host and path", "The older one wins.", "Remove one of the two."},
	{IngressUnsupported, "ingress", "the Ingress uses something that is not supported", "The part named is ignored; all else works.", "Use what the evidence proposes."},
	{IngressDown, "ingress", "the ingress proxy does not answer", "No ready Pod of the ingress proxy, or none answered the probe.", "See the Pods of podway-ingress."},
	{NoRouteToPod, "podnet", "the node has no route to the Pod's address", "Packets to the Pod leave by another route or nowhere.", "See podway-node on this node; the evidence has the route expected."},
	{NoVethOfPod, "podnet", "the Pod's device is missing on its node", "The Pod was not set up by podway, or its device was deleted.", "Delete the Pod so that it is made anew."},
	{ForwardingOff, "podnet", "the node does not forward packets", "net.ipv4.ip_forward (or the IPv6 one) is 0.", "sysctl -w net.ipv4.ip_forward=1, and keep it in /etc/sysctl.d."},
	{NoPodCIDR, "podnet", "the node has no Pod address range", "spec.podCIDRs of the Node is empty.", "Run the controller manager with --allocate-node-cidrs and --cluster-cidr."},
	{PodAddressesOut, "podnet", "the node has no free Pod address", "All of spec.podCIDRs is taken.", "Use a larger node range, or fewer Pods on this node."},
	{NodeNotReady, "podnet", "the Pod's node is not ready", "The node has stopped reporting; its Pods may be gone.", "See the node: kubelet, machine, network."},
	{PacketsLost, "podnet", "packets to the Pod are lost on the way", "Rules and routes are right on both nodes, and a probe to the Pod's address got no answer: a firewall, a network policy or the network between the nodes drops it.", "See the firewall of both nodes (the forward chain's drop counters) and what lies between them; the evidence says from where the probe was sent."},
	{RouteTaken, "podnet", "another program's route leads to a Pod range", "podway does not replace routes that it did not make.", "Remove the other pod network, or the route that the evidence shows."},
	{ForwardDropped, "podnet", "the node's firewall drops forwarded packets by default", "A chain of another program at the forward hook has the policy drop; what it does not allow does not pass between Pods.", "Allow the Pod ranges there: iptables -I FORWARD -s RANGE -j ACCEPT, and -d RANGE."},
	{OtherCNI, "podnet", "another CNI network comes before podway's on the node", "The container runtime takes the first file by name in /etc/cni/net.d.", "Remove the other network's file from the node, and delete the Pods that it set up."},
	{NoSuchPodAddress, "podnet", "no Pod has the address", "The address lies in a range of Pods, and none has it: the Pod was deleted, or made anew with another address.", "Look the Pod's address up again, or use a Service."},
	{RulesDiffer, "proxy", "the kernel's rules are not what the cluster says", "The node's live rules would do something else with this connection.", "See podway-node on this node; it repairs its rules by itself when it runs."},
	{ConntrackFull, "proxy", "the connection tracking table is full", "New connections are dropped.", "Raise net.netfilter.nf_conntrack_max."},
	{ConntrackStrict, "proxy", "connection tracking is strict about TCP windows", "A late packet of a translated connection is passed on with the wrong source address, and the client answers with a reset: long transfers break under packet loss.", "sysctl -w net.netfilter.nf_conntrack_tcp_be_liberal=1, and keep it in /etc/sysctl.d."},
	{TrackingNotSet, "proxy", "a setting of connection tracking cannot be written", "The node goes on with the kernel's present value: it may track fewer connections, or for another time, than was asked for.", "Run podway proxy --init-only once with full privileges (the manifests' init container does), or set the value with sysctl on the node."},
	{ModeLeftover, "proxy", "rules of another proxy mode are still on the node", "Two modes translate the same addresses; which one a connection meets first is not defined.", "See the evidence: the old rules stay until the new ones are proven. podway cleanup removes all modes."},
	{LoopbackClosed, "proxy", "node ports do not answer at 127.0.0.1", "A kernel setting that lets packets of the loopback network leave by another device is off and cannot be written here.", "Start the agent with its init container (--init-only), which writes it; or keep loopback addresses out of nodePortAddresses."},
	{NothingListens, "process", "nothing listens on the target port in the Pod", "The Pod is ready but no process has a socket on this port.", "Change targetPort to the port the process listens on, or the process."},
	{ListensOnLoopback, "process", "the process listens on the loopback address only", "Nobody outside the Pod can reach it.", "Bind 0.0.0.0 or ::."},
	{PodGone, "process", "the endpoint's Pod does not exist", "An EndpointSlice lists an address that no Pod has: its Pod is gone, or there never was one.", "See the owner of the EndpointSlice."},
	{AgentDown, "podway", "podway does not run on the node", "Its live state could not be read.", "See the DaemonSet podway-node in kube-system."},
	{AgentStale, "podway", "podway's view of the cluster is old", "The agent lost the API server; it keeps the last good state.", "See the agent's log and the way to the API server."},
	{ApplyFailed, "podway", "podway could not program the node", "The last apply failed; the agent retries.", "See the evidence and the agent's log."},
}
