package aws

import (
	"maps"
	"slices"

	"github.com/nephele-io/nephele/internal/sim/native"
)

// Resources are what one account has in one region, by id. Services are by ServiceKey, target
// groups by name.
type Resources struct {
	VPCs        map[string]*VPC
	Subnets     map[string]*Subnet
	Groups      map[string]*SecurityGroup
	NICs        map[string]*NetworkInterface
	Instances   map[string]*Instance
	PrefixLists map[string]*PrefixList
	Tables      map[string]*RouteTable
	ACLs        map[string]*NetworkACL
	Gateways    map[string]*InternetGateway
	Templates   map[string]*LaunchTemplate
	Services    map[string]*native.Service
	Targets     map[string]*native.TargetGroup
}

// NewResources returns an empty set.
func NewResources() Resources {
	return Resources{
		VPCs: map[string]*VPC{}, Subnets: map[string]*Subnet{}, Groups: map[string]*SecurityGroup{},
		NICs: map[string]*NetworkInterface{}, Instances: map[string]*Instance{}, PrefixLists: map[string]*PrefixList{},
		Tables: map[string]*RouteTable{}, ACLs: map[string]*NetworkACL{}, Gateways: map[string]*InternetGateway{},
		Templates: map[string]*LaunchTemplate{}, Services: map[string]*native.Service{}, Targets: map[string]*native.TargetGroup{},
	}
}

// ServiceKey is the key of a service in Resources.
func ServiceKey(ref native.Ref) string { return string(ref.Kind) + " " + ref.Name }

// DefaultACL returns the network ACL that subnets of a VPC use unless they are associated with
// another one; nil if there is none.
func (d *Resources) DefaultACL(vpc string) *NetworkACL {
	for _, a := range d.ACLs {
		if a.VPCID == vpc && a.Default {
			return a
		}
	}
	return nil
}

// ACLOf returns the ACL that a subnet uses.
func (d *Resources) ACLOf(s *Subnet) *NetworkACL {
	for _, a := range d.ACLs {
		if slices.ContainsFunc(a.Associations, func(x SubnetAssociation) bool { return x.SubnetID == s.ID }) {
			return a
		}
	}
	return d.DefaultACL(s.VPCID)
}

// MainTable returns the route table that subnets of a VPC use unless they are associated with
// another one; nil if there is none.
func (d *Resources) MainTable(vpc string) *RouteTable {
	for _, t := range d.Tables {
		if t.VPCID == vpc && t.Main != "" {
			return t
		}
	}
	return nil
}

// TableOf returns the route table that a subnet uses.
func (d *Resources) TableOf(s *Subnet) *RouteTable {
	for _, t := range d.Tables {
		if slices.ContainsFunc(t.Associations, func(a SubnetAssociation) bool { return a.SubnetID == s.ID }) {
			return t
		}
	}
	return d.MainTable(s.VPCID)
}

// RouteState says whether the target of a route of a VPC still takes packets: RouteActive or
// RouteBlackhole. A target that is not modelled has the state that was reported with it.
func (d *Resources) RouteState(peerings map[string]*PeeringConnection, vpc string, route *Route) string {
	target, good := route.Target, route.State != RouteBlackhole
	switch ResourceType(target) {
	case "internet-gateway":
		g := d.Gateways[target]
		// A description that reports routes need not report gateways.
		good = g == nil && len(d.Gateways) == 0 || g != nil && g.VPCID == vpc
	case "vpc-peering-connection":
		p := peerings[target]
		good = p != nil && p.Status == PeeringActive
	case "network-interface":
		n := d.NICs[target]
		good = n != nil && n.Attachment != nil
	}
	if good {
		return RouteActive
	}
	return RouteBlackhole
}

// Attached returns the interfaces of an instance by device index.
func (d *Resources) Attached(instanceID string) []*NetworkInterface {
	var out []*NetworkInterface
	for _, n := range d.NICs {
		if n.Attachment != nil && n.Attachment.InstanceID == instanceID {
			out = append(out, n)
		}
	}
	slices.SortFunc(out, func(a, b *NetworkInterface) int { return a.Attachment.DeviceIndex - b.Attachment.DeviceIndex })
	return out
}

// Rule finds a rule by id: its group and its index there; no group if there is no such rule.
func (d *Resources) Rule(id string) (*SecurityGroup, int) {
	for _, g := range d.Groups {
		for i := range g.Rules {
			if g.Rules[i].ID == id {
				return g, i
			}
		}
	}
	return nil, 0
}

// BalancerOf finds the balancer that has an interface; nil if none has.
func (d *Resources) BalancerOf(nic string) *native.Service {
	for _, s := range d.Services {
		if s.Kind.Balances() && slices.Contains(s.NICs(), nic) {
			return s
		}
	}
	return nil
}

// Members returns the members of a cluster, replication group or file system, by name.
func (d *Resources) Members(of native.Ref) (out []*native.Service) {
	for _, key := range slices.Sorted(maps.Keys(d.Services)) {
		if x := d.Services[key]; x.Parent != "" && x.ParentRef() == of {
			out = append(out, x)
		}
	}
	return out
}
