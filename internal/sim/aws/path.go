package aws

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// This file judges what lies between the interfaces: route tables and network ACLs.

// packet is what a network ACL sees of one packet.
type packet struct {
	protocol, port, icmpType, icmpCode int
}

// replyPort is the port that an answer goes to: one of those that every system takes for its own
// end of a connection.
const replyPort = 49152

func (f Flow) packet() packet { return packet{f.Protocol, f.Port, f.ICMPType, f.ICMPCode} }

// reply is what comes back. The answer to an echo has a type of its own; to other messages of ICMP
// there is none.
func (f Flow) reply() (packet, bool) {
	p := f.packet()
	switch {
	case f.Protocol == protoICMP && f.ICMPType == 8:
		p.icmpType = 0
	case f.Protocol == protoICMPv6 && f.ICMPType == 128:
		p.icmpType = 129
	case f.Protocol == protoICMP || f.Protocol == protoICMPv6:
		return p, false
	default:
		p.port = replyPort
	}
	return p, true
}

// border is what a subnet has of its own; nil parts say nothing.
type border struct {
	acl   *NetworkACL
	table *RouteTable
	vpc   string
	data  *regionData
}

// networkACLs finds the subnets whose ACL or route table has been told or written.
func (way packets) networkACLs() map[string]border {
	out := map[string]border{}
	for _, d := range way.w.regions {
		for id, s := range d.subnets {
			b := border{vpc: s.VPCID, data: d, acl: d.aclOf(s), table: d.tableOf(s)}
			if b.acl != nil && b.acl.Implied {
				b.acl = nil
			}
			if b.table != nil && b.table.Implied {
				b.table = nil
			}
			if b.acl != nil || b.table != nil {
				out[id] = b
			}
		}
	}
	return out
}

// Filter is a network ACL that stops a flow, or its answer: at which interface.
type Filter struct {
	NIC            string
	Egress, Answer bool
}

// obstacle says what on the way stops a flow that the security groups let through, and which filter
// that is, if one is; "" if nothing does.
func (way packets) obstacle(x *addressIndex, src, dst endpoint, f Flow) (string, Filter) {
	if len(x.networkACLs) == 0 || src.nic != nil && dst.nic != nil && src.nic.SubnetID == dst.nic.SubnetID && !src.public && !dst.public {
		return "", Filter{}
	}
	for _, end := range []struct{ self, other endpoint }{{src, dst}, {dst, src}} {
		if why := way.noRoute(x, end.self, end.other); why != "" {
			return why, Filter{}
		}
	}
	back, answered := f.reply()
	for i, leg := range []struct {
		self, other endpoint
		egress      bool
		packet      packet
		needed      bool
		what        string
	}{
		{src, dst, true, f.packet(), true, f.service() + " to " + dst.addr.String()},
		{dst, src, false, f.packet(), true, f.service() + " from " + src.addr.String()},
		{dst, src, true, back, answered, "the answer to " + src.addr.String()},
		{src, dst, false, back, answered, "the answer from " + dst.addr.String()},
	} {
		if !leg.needed || leg.self.nic == nil {
			continue
		}
		acl := x.networkACLs[leg.self.nic.SubnetID].acl
		if acl == nil {
			continue
		}
		if e := acl.decides(leg.egress, leg.other.addr, leg.packet); !e.Allow {
			return fmt.Sprintf("entry %s of network ACL %s of %s denies %s", entryName(e.Number), acl.ID, leg.self.nic.SubnetID, leg.what),
				Filter{leg.self.nic.ID, leg.egress, i >= 2}
		}
	}
	return "", Filter{}
}

func entryName(n int) string {
	if n >= LastACLEntry {
		return "*"
	}
	return fmt.Sprint(n)
}

// noRoute says why packets of an interface do not find the other end; "" if they do, or if no one
// reported routes.
func (way packets) noRoute(x *addressIndex, self, other endpoint) string {
	if self.nic == nil {
		return ""
	}
	b := x.networkACLs[self.nic.SubnetID]
	if b.table == nil || b.isLocal(other.addr) {
		return ""
	}
	r := b.best(other.addr)
	if r == nil {
		return fmt.Sprintf("route table %s of %s has no route to %s", b.table.ID, self.nic.SubnetID, other.addr)
	}
	if way.routeState(b.data, b.vpc, r) != "active" {
		return fmt.Sprintf("the route of %s to %s is a black hole: %s", b.table.ID, r.to(), r.Target)
	}
	if ResourceType(r.Target) != "vpc-peering-connection" {
		if other.nic != nil && !other.public && toInternet(r.Target) {
			return fmt.Sprintf("route table %s sends %s through %s, which leads to the internet", b.table.ID, other.addr, r.Target)
		}
		return ""
	}
	// A peering connection leads to its other VPC and no further.
	p := way.w.peerings[r.Target]
	far := p.Accepter.VPCID
	if far == b.vpc {
		far = p.Requester.VPCID
	}
	if other.nic != nil && other.nic.VPCID == far && !other.public {
		return ""
	}
	return fmt.Sprintf("route table %s sends %s through %s, which leads to %s", b.table.ID, other.addr, r.Target, far)
}

// toInternet reports whether a target leads to public addresses only.
func toInternet(target string) bool {
	return slices.ContainsFunc([]string{"igw-", "eigw-", "nat-"}, func(p string) bool { return strings.HasPrefix(target, p) })
}

// isLocal reports whether an address is one of the VPC.
func (b *border) isLocal(a netip.Addr) bool {
	v := b.data.vpcs[b.vpc]
	return v != nil && v.holds(netip.PrefixFrom(a, a.BitLen()))
}

// best is the most specific route to an address.
func (b *border) best(a netip.Addr) *Route {
	var best *Route
	bits := -1
	consider := func(r *Route, p netip.Prefix) {
		if p.Contains(a) && p.Bits() > bits {
			best, bits = r, p.Bits()
		}
	}
	for i := range b.table.Routes {
		r := &b.table.Routes[i]
		if list := b.data.prefixLists[r.PrefixListID]; list != nil {
			for _, e := range list.Entries() {
				consider(r, e.CIDR)
			}
			continue
		}
		consider(r, r.Destination)
	}
	return best
}
