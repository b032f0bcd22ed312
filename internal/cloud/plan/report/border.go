package report

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan/addrset"
	"github.com/nephele-io/nephele/internal/cloud/plan/flow"
	"github.com/nephele-io/nephele/internal/cloud/plan/guard"
	"github.com/nephele-io/nephele/internal/cloud/plan/intent"
)

// Obstruction is what the filter of a subnet, which we never change, denies of what policies allow
// an interface. What may get through counts as not denied.
type Obstruction struct {
	Interface, Subnet string
	// ACL and Name are the filter, Entries the names of its entries that deny, in order.
	ACL, Name string
	Entries   []string
	Direction cloud.Direction
	// Policies are those that allow it, in the order of evaluation.
	Policies []intent.PolicyRef
	// Denied are the flows: services and addresses.
	Denied []flow.Grant
}

// borders are the filters of subnets, made ready.
type borders struct {
	acls   map[string]*cloud.NetworkACL // by subnet
	passes map[string]flow.Permit
}

func newBorders(s *cloud.Snapshot) *borders {
	b := &borders{map[string]*cloud.NetworkACL{}, map[string]flow.Permit{}}
	for i := range s.ACLs {
		for _, subnet := range s.ACLs[i].SubnetIDs {
			b.acls[subnet] = &s.ACLs[i]
		}
	}
	return b
}

// obstructions returns the obstructions of a VM, as it is when the plan is done. Only what policies
// allow counts: where they leave a direction to the groups that the VM has of its own, nothing has
// changed.
func (s *reporter) obstructions(vm *guard.VM) []Obstruction {
	var out []Obstruction
	if len(s.borders.acls) == 0 {
		return nil
	}
	for _, n := range vm.NICs {
		acl := s.borders.acls[n.SubnetID]
		if acl == nil || n.State() != guard.Guarded || n.Frozen() != nil || s.guard.Controllable(n) != nil {
			continue
		}
		for i, want := range s.guard.Wanted(n) {
			d := flow.Directions()[i]
			o := Obstruction{Interface: n.ID, Subnet: n.SubnetID, ACL: acl.ID, Name: acl.Name, Direction: d}
			if o.Denied = want.Minus(s.borders.lets(acl, d, n.PrivateIPs)); len(o.Denied) == 0 {
				continue
			}
			for _, b := range vm.Effective {
				if b.Direction == d && b.Verdict == intent.Allow && !slices.Contains(o.Policies, b.Policy.Ref) && s.allowsAny(b, n, o.Denied) {
					o.Policies = append(o.Policies, b.Policy.Ref)
				}
			}
			if len(o.Policies) > 0 {
				o.Entries = denying(acl, d, n.PrivateIPs, o.Denied)
				out = append(out, o)
			}
		}
	}
	return out
}

// allowsAny reports whether a rule is about any of the flows.
func (s *reporter) allowsAny(b *intent.Bound, n *guard.NIC, denied []flow.Grant) bool {
	peers := s.region.PeerAddrs(b, n.Network)
	return slices.ContainsFunc(denied, func(g flow.Grant) bool { return b.Concerns(g.Service) && g.All.Overlaps(peers) })
}

// lets is what a filter lets through, for sure or perhaps, to or from an interface with these
// addresses.
func (b *borders) lets(acl *cloud.NetworkACL, d cloud.Direction, own []netip.Addr) flow.Permit {
	key := fmt.Sprint(acl.ID, " ", d)
	if slices.ContainsFunc(acl.Entries, func(e cloud.ACLEntry) bool { return e.Own != nil }) {
		key += fmt.Sprint(own)
	}
	if p, ok := b.passes[key]; ok {
		return p
	}
	entries := entriesOf(acl, d)
	var services []flow.Service
	for _, e := range entries {
		services = append(services, e.service)
	}
	var out flow.Permit
	for _, s := range flow.Partition(services) {
		left, g := flow.Family(s.Protocol), flow.Grant{Service: s}
		for _, e := range entries {
			if left.Empty() {
				break
			}
			if !e.service.Covers(s) {
				continue
			}
			about, sure := e.about(own)
			about = about.Intersect(left)
			if e.Allow {
				g.All = g.All.Union(about)
			}
			if sure || e.Allow { // what may get through does not stay in doubt
				left = left.Minus(about)
			}
		}
		out.Grants = append(out.Grants, g)
	}
	b.passes[key] = out
	return out
}

// borderEntry is an entry with its service.
type borderEntry struct {
	*cloud.ACLEntry
	service flow.Service
}

// entriesOf are the entries of a direction, in the order in which they are asked.
func entriesOf(acl *cloud.NetworkACL, d cloud.Direction) []borderEntry {
	var out []borderEntry
	for i := range acl.Entries {
		if e := &acl.Entries[i]; e.Egress == (d == cloud.Egress) {
			out = append(out, borderEntry{e, flow.ServiceOf(cloud.NewMatch(e.Protocol, e.From, e.To))})
		}
	}
	slices.SortStableFunc(out, func(a, b borderEntry) int { return cmp.Compare(a.Number, b.Number) })
	return out
}

// about are the addresses of others that an entry is about, for an interface with these addresses;
// sure is false if it may be about fewer.
func (e borderEntry) about(own []netip.Addr) (set addrset.Set, sure bool) {
	set, sure = addrset.All(), !e.Unsure
	if e.Peers != nil {
		set = addrset.OfPrefixes(e.Peers...)
	}
	if e.Own == nil {
		return set, sure
	}
	mine, concerned := addrset.OfPrefixes(e.Own...), addrset.Set{}
	for _, family := range []addrset.Set{addrset.AllIPv4(), addrset.AllIPv6()} {
		all := addrset.Of(own...).Intersect(family)
		if all.Overlaps(mine) {
			concerned = concerned.Union(family)
			sure = sure && all.Within(mine)
		}
	}
	return set.Intersect(concerned), sure
}

// denying are the names of the entries that deny some of the flows, in order.
func denying(acl *cloud.NetworkACL, d cloud.Direction, own []netip.Addr, denied []flow.Grant) []string {
	left := slices.Clone(denied)
	var out []string
	for _, e := range entriesOf(acl, d) {
		about, sure := e.about(own)
		if e.Allow || !sure {
			continue
		}
		for i := range left {
			g := &left[i]
			if !e.service.Covers(g.Service) && !e.service.Overlaps(g.Service) || !about.Overlaps(g.All) {
				continue
			}
			if !slices.Contains(out, e.Name) {
				out = append(out, e.Name)
			}
			if e.service.Covers(g.Service) { // later ones are not asked about that any more
				g.All = g.All.Minus(about)
			}
		}
	}
	return out
}
