package native

import (
	"maps"
	"net/netip"
	"slices"
	"time"
)

// Kind tells what a service is.
type Kind string

// The kinds of services. A DatabaseCluster, a ReplicationGroup and a FileSystem have no interface
// of their own: their members do, which name them as Parent.
const (
	Database         Kind = "database"
	DatabaseCluster  Kind = "database-cluster"
	Cache            Kind = "cache"
	ReplicationGroup Kind = "replication-group"
	AppBalancer      Kind = "application-load-balancer"
	NetBalancer      Kind = "network-load-balancer"
	GatewayBalancer  Kind = "gateway-load-balancer"
	Endpoint         Kind = "endpoint"
	Function         Kind = "function"
	FileSystem       Kind = "file-system"
	MountTarget      Kind = "mount-target"
)

// Kinds lists all kinds, in the order in which services of a State are made: parents first.
func Kinds() []Kind {
	return []Kind{DatabaseCluster, Database, ReplicationGroup, Cache, AppBalancer, NetBalancer, GatewayBalancer,
		Endpoint, Function, FileSystem, MountTarget}
}

// Balances reports whether services of the kind hand traffic on to targets.
func (k Kind) Balances() bool { return k == AppBalancer || k == NetBalancer || k == GatewayBalancer }

// ParentKind is the kind of what members of this kind belong to, "" for kinds that are no members.
func (k Kind) ParentKind() Kind {
	switch k {
	case Database:
		return DatabaseCluster
	case Cache:
		return ReplicationGroup
	case MountTarget:
		return FileSystem
	}
	return ""
}

// Ref names a service within an account and region.
type Ref struct {
	Kind Kind
	Name string
}

// Service is one native service.
type Service struct {
	Kind Kind `json:"kind"`
	// Name is its name in its own API: an identifier, the part of a balancer's ARN after
	// "loadbalancer/" (app/NAME/HEX), or an id such as vpce-, fs- and fsmt-.
	Name    string `json:"name"`
	Account string `json:"account"`
	Region  string `json:"region"`
	VPCID   string `json:"vpcId,omitempty"` // empty: it is in no VPC
	// Subnets are those in which it may have interfaces.
	Subnets []string `json:"subnets,omitempty"`
	// Groups are its security groups by id, in the order they were set. Interfaces of a service
	// without groups are not filtered.
	Groups []string `json:"groups,omitempty"`
	Nodes  []Node   `json:"nodes,omitempty"`
	// Parent is the name of the cluster, replication group or file system that it is a member of.
	Parent string `json:"parent,omitempty"`
	// Writer marks the member that takes writes.
	Writer bool `json:"writer,omitempty"`

	Engine  string `json:"engine,omitempty"` // of a database or cache; of an endpoint its service name
	Version string `json:"version,omitempty"`
	Class   string `json:"class,omitempty"`
	Port    int    `json:"port,omitempty"`
	// Host overrides the host name that is made up.
	Host string `json:"host,omitempty"`
	// Public is a database with a public address, or a balancer that faces the internet.
	Public bool `json:"public,omitempty"`
	// MultiZone is a database with a standby in another zone.
	MultiZone bool       `json:"multiZone,omitempty"`
	Listeners []Listener `json:"listeners,omitempty"`

	Created time.Time `json:"created,omitzero"`
	// Busy is when the latest modification is over; until then the service refuses others.
	Busy time.Time         `json:"busy,omitzero"`
	Tags map[string]string `json:"tags,omitempty"`
}

// Node is one place of a service that has an interface.
type Node struct {
	SubnetID string     `json:"subnetId"`
	Addr     netip.Addr `json:"addr,omitzero"` // wanted address; none means any free one
	NIC      string     `json:"nic,omitempty"` // empty until the world has made the interface
}

// Listener is what a balancer listens on.
type Listener struct {
	ID       string `json:"id"` // 16 hexadecimal digits
	Protocol string `json:"protocol"`
	Port     int    `json:"port"`
	Target   string `json:"target"` // name of a TargetGroup
}

// Ref names the service.
func (s *Service) Ref() Ref { return Ref{s.Kind, s.Name} }

// ParentRef names what the service is a member of.
func (s *Service) ParentRef() Ref { return Ref{s.Kind.ParentKind(), s.Parent} }

// NICs are the ids of its interfaces.
func (s *Service) NICs() []string {
	var out []string
	for _, n := range s.Nodes {
		if n.NIC != "" {
			out = append(out, n.NIC)
		}
	}
	return out
}

// Clone returns a deep copy.
func (s *Service) Clone() Service {
	c := *s
	c.Subnets, c.Groups = slices.Clone(s.Subnets), slices.Clone(s.Groups)
	c.Nodes, c.Listeners = slices.Clone(s.Nodes), slices.Clone(s.Listeners)
	c.Tags = maps.Clone(s.Tags)
	return c
}

// TargetGroup is what a listener hands its flows to.
type TargetGroup struct {
	Name     string   `json:"name"` // NAME/HEX, as in its ARN
	Account  string   `json:"account"`
	Region   string   `json:"region"`
	VPCID    string   `json:"vpcId"`
	Type     string   `json:"type"` // instance or ip
	Protocol string   `json:"protocol"`
	Port     int      `json:"port"`
	Targets  []Target `json:"targets,omitempty"`
	// PreserveClient is the attribute preserve_client_ip.enabled; nil is the default of the
	// protocol and the type.
	PreserveClient *bool `json:"preserveClient,omitempty"`
	// HealthProtocol and HealthPort are the protocol and port of the health checks; empty and 0
	// mean that health checks use the ones of the traffic.
	HealthProtocol string            `json:"healthProtocol,omitempty"`
	HealthPort     int               `json:"healthPort,omitempty"`
	Tags           map[string]string `json:"tags,omitempty"`
}

// Target is one member of a TargetGroup: an instance id or an address.
type Target struct {
	ID   string `json:"id"`
	Port int    `json:"port,omitempty"` // 0: that of the group
}

// Clone returns a deep copy.
func (g *TargetGroup) Clone() TargetGroup {
	c := *g
	c.Targets = slices.Clone(g.Targets)
	c.Tags = maps.Clone(g.Tags)
	if g.PreserveClient != nil {
		v := *g.PreserveClient
		c.PreserveClient = &v
	}
	return c
}

// Preserves reports whether targets see the address of the client. Only network and gateway load
// balancers do that. The default is that of the ELB User Guide for Network Load Balancers, "Client
// IP preservation": on for targets by instance id and for UDP, off for IP targets with TCP or TLS.
func (g *TargetGroup) Preserves(k Kind) bool {
	switch {
	case k == GatewayBalancer:
		return true
	case k != NetBalancer:
		return false
	case g.PreserveClient != nil:
		return *g.PreserveClient
	}
	return g.Type == "instance" || g.Protocol == "UDP" || g.Protocol == "TCP_UDP"
}

// PortOf is the port that a target gets the traffic on.
func (g *TargetGroup) PortOf(t Target) int {
	if t.Port != 0 {
		return t.Port
	}
	return g.Port
}

// HealthPortOf is the port that a target's health is checked on.
func (g *TargetGroup) HealthPortOf(t Target) int {
	if g.HealthPort != 0 {
		return g.HealthPort
	}
	return g.PortOf(t)
}

// HealthProtocolOf is the protocol of the health checks: HTTP for groups of an application load
// balancer, else TCP, unless it is given.
func (g *TargetGroup) HealthProtocolOf() string {
	switch {
	case g.HealthProtocol != "":
		return g.HealthProtocol
	case g.Protocol == "HTTP" || g.Protocol == "HTTPS":
		return g.Protocol
	}
	return "TCP"
}

// Carries reports whether flows of the IP protocol fit a listener or target group's protocol.
func Carries(protocol string, ip int) bool {
	switch protocol {
	case "HTTP", "HTTPS", "TCP", "TLS":
		return ip == 6
	case "UDP":
		return ip == 17
	case "TCP_UDP":
		return ip == 6 || ip == 17
	case "GENEVE":
		return true
	}
	return false
}

// TargetHealth is one row of DescribeTargetHealth.
type TargetHealth struct {
	Target     Target
	HealthPort int
	State      string // unused, healthy or unhealthy
}
