package target

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan/addrset"
	"github.com/nephele-io/nephele/internal/cloud/plan/flow"
	"github.com/nephele-io/nephele/internal/cloud/plan/form"
	"github.com/nephele-io/nephele/internal/cloud/plan/guard"
	"github.com/nephele-io/nephele/internal/cloud/plan/intent"
)

// Which quota would do for a VM is arithmetic about all that is wanted of it, whatever its peers
// are. At least as many rules are needed as there are blocks of addresses that no group stands for,
// and one more if there is something else; at most as many as it takes to name every member by
// itself. Where both take the same quota, that is the one. Else it is a bound: how many rules name
// groups depends on the classes that there would be.

// short says what a class is short of.
func (s *Target) short(sh form.Shortage, c *form.Class) *intent.Reason {
	q := s.fitter.QuotaOf(c)
	lack := &intent.Lack{
		Quota: sh.Quota, Direction: string(sh.Direction), Family: sh.Family, Needed: sh.Needed, Available: sh.Available,
		AtLeast: sh.AtLeast, Limits: q.Limits,
	}
	if sh.Quota == intent.QuotaRulesPerGroup { // other limits are what they are
		lack.Whole = sh.Needed <= sh.Available
		s.advise(lack, c)
	}
	out := intent.Why(intent.RulesShort)
	out.Lack = lack
	return out
}

// advise finds out which quota of rules per group would do for all policies of the VM of a class.
func (s *Target) advise(lack *intent.Lack, c *form.Class) {
	nics := c.NICs[:1]
	if vm := c.NICs[0].VM; vm != nil {
		nics = vm.NICs
	}
	exact := true
	for _, n := range nics {
		if s.Controllable(n) != nil || n.Frozen() != nil && s.ClassOf[n] != c {
			continue
		}
		needed := s.need(n, s.wanted(n, c))
		if n.VM != nil && c.NICs[0].Native() { // it may be taken over with its present rules, or with the policies
			present := s.need(n, s.Decided(n.NIC, nil, ""))
			needed = need{rules: min(needed.rules, present.rules), perGroup: min(needed.perGroup, present.perGroup)}
		}
		lack.WouldDo, exact = max(lack.WouldDo, needed.perGroup), exact && needed.exact
		if most := s.Limits.RulesPerInterface; most > 0 && needed.rules > most {
			lack.TooMany = max(lack.TooMany, needed.rules-most)
		}
	}
	lack.WouldDoAtLeast = !exact
	switch q := s.Limits; {
	case lack.TooMany > 0, lack.WouldDo <= q.RulesPerGroup, q.RulesPerInterface > 0 && lack.WouldDo*q.GroupsPerInterface > q.RulesPerInterface:
		lack.WouldDo, lack.WouldDoAtLeast = 0, false
	}
}

// need is what the rules of an interface need.
type need struct {
	// rules is how many of one direction and family there are at least, and perGroup the quota that
	// they take.
	rules, perGroup int
	// exact is set if perGroup is the smallest quota with which they fit.
	exact bool
}

// wanted is all that is wanted of an interface. c is a class that does not fit.
func (s *Target) wanted(n *guard.NIC, c *form.Class) [2]flow.Permit {
	if n.VM == nil {
		return c.Want
	}
	rules, profile := s.RulesOf(n.VM, func(p *intent.Policy) bool { return n.VM.Problems[p] == nil })
	return s.Decided(n.NIC, rules, profile)
}

// need counts what an interface needs.
func (s *Target) need(n *guard.NIC, want [2]flow.Permit) need {
	q := form.QuotaOf(s.Region)
	q.GroupsPerInterface = max(q.GroupsPerInterface-len(s.Memberships[n]), 1)
	out, near, listed := need{}, s.near(n.Network), false
	for i := range want {
		byReference := near.Union(s.fitter.Listed(want[i].Grants...))
		for _, family := range form.Families() {
			out.rules = max(out.rules, s.leastRules(want[i], family, byReference))
		}
		listed = listed || slices.ContainsFunc(want[i].Grants, func(g flow.Grant) bool { return len(g.Opaque) > 0 })
	}
	out.perGroup = (out.rules + q.GroupsPerInterface - 1) / q.GroupsPerInterface
	if listed || out.rules >= mostCounted || out.perGroup <= q.RulesPerGroup {
		return out
	}
	q.RulesPerGroup = out.perGroup
	room := q.RulesPerGroup * q.GroupsPerInterface
	in, few := s.oneByOne(want[0], n.Network, room)
	eg, also := s.oneByOne(want[1], n.Network, room)
	if few && also {
		_, short := s.Lower.Pack(s.Lower.Lower(flow.Traffic{Ingress: in, Egress: eg}), nil, q)
		out.exact = short == nil
	}
	return out
}

// leastRules is how many rules a permit needs at least in a family: those by address, and one if
// there is something besides that a group can stand for.
func (s *Target) leastRules(p flow.Permit, family form.Family, byReference addrset.Set) int {
	parts, all, any := make([]addrset.Set, len(p.Grants)), true, false
	for i, g := range p.Grants {
		parts[i] = g.All.Intersect(family.All)
		all, any = all && parts[i].Within(byReference), any || !parts[i].Empty()
	}
	if all { // as between VMs of one network: no block has to be looked at
		return b2i(any)
	}
	least := s.fitter.BlocksNeeded(p, family, byReference, mostCounted)
	return least + b2i(slices.ContainsFunc(parts, func(part addrset.Set) bool { return holdsBlock(byReference, part) }))
}

// holdsBlock reports whether one of the largest blocks of a set lies wholly in a larger set.
func holdsBlock(in, set addrset.Set) bool {
	return slices.ContainsFunc(set.Prefixes(), func(p netip.Prefix) bool { return addrset.OfPrefixes(p).Within(in) })
}

// oneByOne names all that a permit allows in the form that takes the most rules: each address that
// a group could stand for by itself, and by another name for each service. It reports false if
// these alone are more than there is room for.
func (s *Target) oneByOne(p flow.Permit, view *intent.Network, room int) (out []flow.Cell, few bool) {
	for _, g := range p.Grants {
		members := g.All.Minus(g.Anonymous).Intersect(s.near(view))
		cell := flow.Cell{Service: g.Service, Addrs: g.All.Minus(members)}
		for _, n := range s.NICs {
			if !n.Private.Overlaps(members) {
				continue
			}
			for _, a := range n.PrivateIPs {
				cell.Groups = append(cell.Groups, cloud.Peer{GroupName: fmt.Sprint(g.Service, " ", n.ID, " ", a)})
			}
			if len(cell.Groups) > room {
				return nil, false
			}
		}
		slices.SortFunc(cell.Groups, cloud.Peer.Compare)
		out = append(out, cell)
	}
	return out, true
}

// mostCounted bounds how many rules are counted to find out which quota would do; no cloud grants
// as many.
const mostCounted = 20_000

// near are the addresses that rules of an interface could ever name by a group.
func (s *Target) near(view *intent.Network) addrset.Set {
	return s.nearby.Get(view, func() addrset.Set { return guard.AddressesOf(s.NICs, view) })
}
