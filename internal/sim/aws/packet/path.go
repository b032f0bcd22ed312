package packet

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/nephele-io/nephele/internal/sim/aws"
)

// border is what a subnet has of its own; nil parts say nothing.
type border struct {
	acl   *aws.NetworkACL
	table *aws.RouteTable
	vpc   string
	data  *aws.Resources
}

// filteredSubnets finds the subnets whose ACL or route table was reported or written.
func filteredSubnets(regions []*aws.Resources) map[string]border {
	out := map[string]border{}
	for _, d := range regions {
		for id, s := range d.Subnets {
			b := border{vpc: s.VPCID, data: d, acl: d.ACLOf(s), table: d.TableOf(s)}
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

// obstacle says what on the way stops a flow that the security groups let through, and which filter
// that is, if one is; "" if nothing does.
func (x *Judge) obstacle(src, dst endpoint, f Flow) (string, Filter) {
	if len(x.subnets) == 0 || src.nic != nil && dst.nic != nil && src.nic.SubnetID == dst.nic.SubnetID && !src.public && !dst.public {
		return "", Filter{}
	}
	for _, end := range []struct{ self, other endpoint }{{src, dst}, {dst, src}} {
		if why := x.noRoute(end.self, end.other); why != "" {
			return why, Filter{}
		}
	}
	back, answered := f.reply()
	for i, leg := range []struct {
		self, other endpoint
		egress      bool
		packet      header
		needed      bool
		what        string
	}{
		{src, dst, true, f.header(), true, f.service() + " to " + dst.addr.String()},
		{dst, src, false, f.header(), true, f.service() + " from " + src.addr.String()},
		{dst, src, true, back, answered, "the answer to " + src.addr.String()},
		{src, dst, false, back, answered, "the answer from " + dst.addr.String()},
	} {
		if !leg.needed || leg.self.nic == nil {
			continue
		}
		acl := x.subnets[leg.self.nic.SubnetID].acl
		if acl == nil {
			continue
		}
		if e := decides(acl, leg.egress, leg.other.addr, leg.packet); !e.Allow {
			return fmt.Sprintf("entry %s of network ACL %s of %s denies %s", entryName(e.Number), acl.ID, leg.self.nic.SubnetID, leg.what),
				Filter{leg.self.nic.ID, leg.egress, i >= 2}
		}
	}
	return "", Filter{}
}

func entryName(n int) string {
	if n >= aws.LastACLEntry {
		return "*"
	}
	return fmt.Sprint(n)
}

// noRoute says why packets of an interface do not find the other end; "" if they do, or if no one
// reported routes.
func (x *Judge) noRoute(self, other endpoint) string {
	if self.nic == nil {
		return ""
	}
	b := x.subnets[self.nic.SubnetID]
	if b.table == nil || b.isLocal(other.addr) {
		return ""
	}
	r := b.best(other.addr)
	if r == nil {
		return fmt.Sprintf("route table %s of %s has no route to %s", b.table.ID, self.nic.SubnetID, other.addr)
	}
	if b.data.RouteState(x.peerings, b.vpc, r) != aws.RouteActive {
		return fmt.Sprintf("the route of %s to %s is a black hole: %s", b.table.ID, r.To(), r.Target)
	}
	if aws.ResourceType(r.Target) != "vpc-peering-connection" {
		if other.nic != nil && !other.public && toInternet(r.Target) {
			return fmt.Sprintf("route table %s sends %s through %s, which leads to the internet", b.table.ID, other.addr, r.Target)
		}
		return ""
	}
	// A peering connection leads to its other VPC and no further.
	p := x.peerings[r.Target]
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
	v := b.data.VPCs[b.vpc]
	return v != nil && v.Holds(netip.PrefixFrom(a, a.BitLen()))
}

// best is the most specific route to an address.
func (b *border) best(a netip.Addr) *aws.Route {
	var best *aws.Route
	bits := -1
	consider := func(r *aws.Route, p netip.Prefix) {
		if p.Contains(a) && p.Bits() > bits {
			best, bits = r, p.Bits()
		}
	}
	for i := range b.table.Routes {
		r := &b.table.Routes[i]
		if list := b.data.PrefixLists[r.PrefixListID]; list != nil {
			for _, e := range list.Entries() {
				consider(r, e.CIDR)
			}
			continue
		}
		consider(r, r.Destination)
	}
	return best
}
