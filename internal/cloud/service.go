package cloud

import (
	"cmp"
	"net/netip"
	"slices"
)

// ServiceKind says what a Service is, in the words of the CloudNativeService API.
type ServiceKind string

// The kinds of services.
const (
	RDSInstance                 ServiceKind = "RDSInstance"
	RDSCluster                  ServiceKind = "RDSCluster"
	ElastiCacheCluster          ServiceKind = "ElastiCacheCluster"
	ElastiCacheReplicationGroup ServiceKind = "ElastiCacheReplicationGroup"
	ApplicationLoadBalancer     ServiceKind = "ApplicationLoadBalancer"
	NetworkLoadBalancer         ServiceKind = "NetworkLoadBalancer"
	GatewayLoadBalancer         ServiceKind = "GatewayLoadBalancer"
	VPCEndpoint                 ServiceKind = "VPCEndpoint"
	EFSFileSystem               ServiceKind = "EFSFileSystem"
	LambdaFunction              ServiceKind = "LambdaFunction"
	PrivateEndpoint             ServiceKind = "PrivateEndpoint"
	LoadBalancer                ServiceKind = "LoadBalancer"
	ApplicationGateway          ServiceKind = "ApplicationGateway"
	// ServiceTag is a list of addresses that the cloud keeps under a name. Snapshots have it in
	// ServiceTags, not in Services.
	ServiceTag ServiceKind = "ServiceTag"
)

// ServiceKinds are all kinds of Services.
func ServiceKinds() []ServiceKind {
	return []ServiceKind{
		RDSInstance, RDSCluster, ElastiCacheCluster, ElastiCacheReplicationGroup, ApplicationLoadBalancer, NetworkLoadBalancer, GatewayLoadBalancer,
		VPCEndpoint, EFSFileSystem, LambdaFunction,
		PrivateEndpoint, LoadBalancer, ApplicationGateway,
	}
}

// Fronted reports whether services of a kind have addresses, and no interfaces that hold them:
// nothing but the services themselves tells the addresses.
func (k ServiceKind) Fronted() bool { return k == LoadBalancer || k == ApplicationGateway }

// Service is a native service: something of the cloud's own that has addresses in a network.
type Service struct {
	// ID is unique over regions and accounts (AWS: the ARN, or the ID of the interface where that
	// is all that is known).
	ID   string
	Kind ServiceKind
	// Name is what its owner calls it; it may be empty.
	Name      string
	NetworkID string
	Tags      map[string]string
	// DNSName is the name that clients use; empty if it has none, or it is not known.
	DNSName string
	// Ports are those that it listens at, as far as the cloud tells. No two have the same name.
	Ports []ServicePort
	// Listeners are, of a load balancer, how it hands on what comes to its ports, sorted by
	// protocol and port; nil of others, and while they are not known.
	Listeners []ServiceListener
	// Interfaces are the IDs of its interfaces, sorted; Private and Public are their addresses.
	Interfaces      []string
	Private, Public []netip.Addr
	// GroupIDs are its security groups, sorted.
	GroupIDs []string
	// Fixed says why its groups cannot be set, in words for people; empty if they can, by Apply
	// with the ID of the service in place of that of an interface. Its tags are known then.
	Fixed string
	// Unread is true if Fixed is only because its tags are not known at present. It may hold groups
	// of ours then.
	Unread bool
	// Behind is true if it is Unread since somebody has written to it by this provider: it is to be
	// read again soon.
	Behind bool
	// Alone is true if it is distinguished from others by its groups, so that it shares none of
	// ours.
	Alone bool
	// Ambiguous says why it is not known which interfaces are its, in words for people, so that
	// there are none; empty if it is.
	Ambiguous string
}

// ServicePort is a port with the name by which policies may name it.
type ServicePort struct {
	Name string
	// Protocol is TCP or UDP.
	Protocol int
	Port     uint16
}

// ServiceListener is a port of a load balancer, with those to which it hands on what comes there.
type ServiceListener struct {
	// Protocol is TCP or UDP.
	Protocol int
	// Port is 0 for all ports.
	Port uint16
	// Addrs are the addresses of the balancer at which it listens, sorted; nil for all of them.
	Addrs []netip.Addr
	// Groups holds the groups of which it chooses a target, sorted by ID.
	Groups []TargetGroup
}

// TargetGroup is a set of targets that are alike to a load balancer.
type TargetGroup struct {
	// ID is the cloud's (AWS: the ARN), Name what its owner calls it.
	ID, Name string
	// NetworkID is the network in which the addresses of targets are.
	NetworkID string
	// Preserved is true if targets see the address of the client, false if they see the balancer's.
	Preserved bool
	// Transparent is true if rules that name a group match clients that are preserved, as if there
	// were no balancer.
	Transparent bool
	// Probes are the addresses that health checks come from, which groups of ours always let in;
	// nil if they come from the addresses of the balancer.
	Probes []netip.Addr
	// Unknown says why the targets are not known, in words for people; empty if they are.
	Unknown string
	Targets []Target
}

// Target is one of those to which a load balancer hands on traffic. One of VMID, Addr and ServiceID
// is set: it is the first interface of a VM, an address, or a further balancer.
type Target struct {
	VMID      string
	Addr      netip.Addr
	ServiceID string
	// Port is the one that traffic is sent to, 0 for the one that it has come to. HealthPort is
	// that of the health checks, which come over TCP; 0 if there are none.
	Port, HealthPort uint16
}

// Compare orders targets by their identity, and by their ports.
func (t Target) Compare(o Target) int {
	return cmp.Or(
		cmp.Compare(t.VMID, o.VMID), t.Addr.Compare(o.Addr), cmp.Compare(t.ServiceID, o.ServiceID), cmp.Compare(t.Port, o.Port),
		cmp.Compare(t.HealthPort, o.HealthPort),
	)
}

// ServiceFault says that an API about services could not be read, so that these are known as they
// were when it last could, and otherwise by their interfaces only.
type ServiceFault struct {
	// API is its name, Right what has to be permitted.
	API, Right string
	// Kinds are those that are concerned; empty if services are known, and only something about
	// them is not.
	Kinds []ServiceKind
	Err   error
}

// FrontsUnread reports whether services could not all be read of which nothing else tells the
// addresses. That no interface represents such a service proves nothing then.
func (s *Snapshot) FrontsUnread() bool {
	return slices.ContainsFunc(s.ServiceFaults, func(f ServiceFault) bool { return slices.ContainsFunc(f.Kinds, ServiceKind.Fronted) })
}

// ServiceShower is a Provider that can show services in its snapshots.
type ServiceShower interface {
	// Show returns the same account, whose snapshots show the services of these kinds, and those
	// that hold a group of a controller of ours, in the networks whose interfaces they show.
	// Reading them needs rights of its own: where one is missing, the snapshot says so in
	// ServiceFaults and is whole otherwise.
	Show(kinds []ServiceKind) Provider
}
