package plan

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"

	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan/flow"
)

// Succession tells the order in which entities came to belong to other groups since the cloud last followed. Taken as one change, such changes
// may have to wait for one another, which costs further edits of interfaces (see evade); taken one after the other they cost one edit each, and
// every state on the way is one that the policies had. For that to be true, nothing else may have changed since the first of them: no policy,
// and no group came or went. See docs/decisions/0009-one-after-the-other.md.
type Succession struct {
	// Before is what the entities of Changes belonged to before the first of them.
	Before map[EntityRef]Membership
	// Changes are in the order in which they came. The last one of an entity is what Input.AddressGroups and Input.AppliedToGroups say of it.
	Changes []Change
}

// Change is an entity's coming to belong to other groups.
type Change struct {
	Entity EntityRef
	Membership
}

// Membership is the groups that an entity belongs to, each kind sorted by name.
type Membership struct {
	Address, Applied []Listing
}

// Listing is how a group lists an entity.
type Listing struct {
	Group  string
	Member *v1beta2.GroupMember
}

// Same reports whether two memberships name the same groups.
func (m Membership) Same(o Membership) bool {
	same := func(a, b Listing) bool { return a.Group == b.Group }
	return slices.EqualFunc(m.Address, o.Address, same) && slices.EqualFunc(m.Applied, o.Applied, same)
}

const (
	// tolerableWaste is how many further edits of interfaces are made rather than that changes are followed one after the other.
	tolerableWaste = 20
	// longestSuccession bounds how many changes one plan follows one after the other.
	longestSuccession = 256
)

// follow returns the plan that follows the changes one after the other, as far as one plan goes, if following all of them together wastes
// edits; else it is false. whole is the result of that, made by c; the statuses stay those of it.
func (in Input) follow(whole *Result, c *computation, lower Lowerer) (*Result, bool) {
	if len(in.Succession.Changes) < 2 || c.waits() || c.wasted(whole.Plan) <= tolerableWaste {
		return nil, false
	}
	out := *whole
	// What else is to be done comes first. After that, changes are mere edits of interfaces, unless they need groups or rules that are not there.
	out.Plan, out.Followed = in.after(0).plan(lower), 0
	for out.Plan.Empty() {
		p, k := in.next(lower)
		if k == 0 {
			return nil, false
		}
		for i := range p.Steps {
			if p.Steps[i].Follows > 0 {
				p.Steps[i].Follows += out.Followed
			}
		}
		out.Plan = p
		out.Followed += k
		in.Succession = in.Succession.From(k)
	}
	out.Plan.Partial = true
	return &out, true
}

// plan is Compute's plan for an input without succession.
func (in Input) plan(lower Lowerer) Plan {
	out, c := computeAtOnce(in, lower)
	out, _ = in.foresee(out, c, lower)
	return out.Plan
}

// next returns a plan for the next k changes, for a cloud that is as it should be before them. The plan is empty if nothing in the cloud
// depends on them. k is 0 if nothing is gained by following them one after the other: where rules name addresses, because of what policies
// drop, each change would be a round of its own.
func (in Input) next(lower Lowerer) (p Plan, k int) {
	reach := in.reach()
	for k = reach; k > 0; k /= 4 {
		if steps, ok := in.moves(k, lower); ok {
			return Plan{Account: in.Account, Steps: steps}, k
		}
	}
	for _, k := range []int{min(reach, tolerableWaste), min(reach, 1)} {
		if k == 0 {
			break
		}
		part, c := computeAtOnce(in.after(k), lower)
		// This computation knows of no changes, so every edit of an interface counts, now and later. Some changes take rules only; the first one may
		// need a group that the others find there then.
		if sum := part.Plan.Summary(); c.wasted(part.Plan) == 0 || k == 1 && (sum.GroupsCreated > 0 || sum.InterfaceEdits == 0) {
			part, _ = in.after(k).foresee(part, c, lower)
			return part.Plan, k
		}
	}
	return Plan{}, 0
}

// wasted counts the edits of interfaces by which a plan, and what it leaves for later, is dearer than one for each interface that the changes
// concern.
func (c *computation) wasted(p Plan) int {
	changed := map[EntityRef]bool{}
	for _, ch := range c.in.Succession.Changes {
		changed[ch.Entity] = true
	}
	type nicRef struct{ region, id string }
	due := map[nicRef]bool{}
	n := 0
	for _, s := range c.regions {
		n += len(s.restrict)
		for _, vm := range s.order {
			if slices.ContainsFunc(vm.entities, func(e EntityRef) bool { return changed[e] }) {
				for _, in := range vm.nics {
					due[nicRef{s.snap.Region, in.ID}] = true
				}
			}
		}
	}
	for _, step := range p.Steps {
		if step.Op.Kind != cloud.OpSetInterfaceGroups {
			continue
		}
		at := nicRef{step.Scope.Region, step.Op.Target}
		if !due[at] {
			n++
		}
		delete(due, at)
	}
	return n
}

// reach is how many of the changes may be followed by one plan: no VM changes twice.
func (in Input) reach() int {
	changes := in.Succession.Changes
	seen := map[VMRef]bool{}
	for i, ch := range changes[:min(len(changes), longestSuccession)] {
		vm, ok := in.Entities[ch.Entity]
		if ok && seen[vm] {
			return i
		}
		seen[vm] = true
	}
	return min(len(changes), longestSuccession)
}

// From returns the succession without the first n changes.
func (s Succession) From(n int) Succession {
	out := Succession{Before: maps.Clone(s.Before), Changes: s.Changes[n:]}
	for _, ch := range s.Changes[:n] {
		out.Before[ch.Entity] = ch.Membership
	}
	return out
}

// after returns the input as it was after the first n changes.
func (in Input) after(n int) Input {
	late := map[EntityRef]Membership{}
	for _, ch := range in.Succession.Changes[n:] {
		late[ch.Entity] = in.Succession.Before[ch.Entity]
	}
	for _, ch := range in.Succession.Changes[:n] {
		if _, ok := late[ch.Entity]; ok {
			late[ch.Entity] = ch.Membership
		}
	}
	out := in
	out.Succession = Succession{}
	out.recall = newRecall() // members differ
	out.AddressGroups = make([]*v1beta2.AddressGroup, len(in.AddressGroups))
	listed := listings(late, func(m Membership) []Listing { return m.Address })
	for i, g := range in.AddressGroups {
		copied := *g
		copied.GroupMembers = withLate(g.GroupMembers, late, listed[g.Name])
		out.AddressGroups[i] = &copied
	}
	out.AppliedToGroups = make([]*v1beta2.AppliedToGroup, len(in.AppliedToGroups))
	listed = listings(late, func(m Membership) []Listing { return m.Applied })
	for i, g := range in.AppliedToGroups {
		copied := *g
		copied.GroupMembers = withLate(g.GroupMembers, late, listed[g.Name])
		out.AppliedToGroups[i] = &copied
	}
	return out
}

// listings returns the members by group.
func listings(of map[EntityRef]Membership, kind func(Membership) []Listing) map[string][]v1beta2.GroupMember {
	out := map[string][]v1beta2.GroupMember{}
	for _, e := range slices.SortedFunc(maps.Keys(of), compareEntities) {
		for _, l := range kind(of[e]) {
			out[l.Group] = append(out[l.Group], *l.Member)
		}
	}
	return out
}

func compareEntities(a, b EntityRef) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

// withLate returns the members of a group without some entities but with what is listed of them.
func withLate(members []v1beta2.GroupMember, late map[EntityRef]Membership, listed []v1beta2.GroupMember) []v1beta2.GroupMember {
	out := make([]v1beta2.GroupMember, 0, len(members)+len(listed))
	for _, m := range members {
		if e := m.ExternalEntity; e != nil {
			if _, ok := late[EntityRef{e.Namespace, e.Name}]; ok {
				continue
			}
		}
		out = append(out, m)
	}
	return append(out, listed...)
}

// moves returns the steps that follow the first n changes one after the other, an edit for each interface concerned, if that is all they take: the
// groups that are wanted after them are there with their rules. Then the groups say of every kind of interface what is right for it, whoever
// belongs to it, and after each edit the cloud is exactly as the policies want it after that change.
func (in Input) moves(n int, lower Lowerer) ([]Step, bool) {
	at := map[VMRef]int{}
	for i, ch := range in.Succession.Changes[:n] {
		if vm, ok := in.Entities[ch.Entity]; ok {
			at[vm] = i + 1
		}
	}
	before, after := newComputation(in.after(0), lower, true), newComputation(in.after(n), lower, true)
	before.designs, after.designs = true, true
	var out []Step
	for i, s := range after.regions {
		was := before.regions[i]
		was.settle()
		s.settled = map[string][]*cloud.Group{}
		for _, c := range was.classes {
			s.settled[c.key] = c.existing
		}
		s.settle()
		steps, ok := s.successiveMoves(at)
		if !ok {
			return nil, false
		}
		out = append(out, steps...)
	}
	return out, true
}

// successiveMoves returns the edits of the interfaces in the order of the changes that the VMs follow. It is false if the change is more than that.
func (s *regionState) successiveMoves(at map[VMRef]int) ([]Step, bool) {
	for _, g := range s.allGroups() {
		if g.existing == nil {
			return nil, false
		}
		current := ruleKeys(g.existing.Rules)
		if len(without(g.rules, current)) > 0 || slices.ContainsFunc(without(current, g.rules), s.matters) {
			return nil, false
		}
	}
	var moving []*nic
	for _, n := range s.nics {
		if slices.Equal(n.GroupIDs, n.target) {
			continue
		}
		if n.vm == nil || at[n.vm.ref] == 0 || n.state != Guarded || !n.taken() || len(without(n.target, n.ours)) == 0 {
			return nil, false
		}
		moving = append(moving, n)
	}
	slices.SortStableFunc(moving, func(a, b *nic) int { return at[a.vm.ref] - at[b.vm.ref] })
	stage := 0
	var together []*nic // those of the stage
	var out []Step
	for _, n := range moving {
		if slices.ContainsFunc(together, func(o *nic) bool { return !s.indifferent(n, o) }) {
			stage++
			together = nil
		}
		together = append(together, n)
		out = append(out, Step{
			Scope: s.snap.Scope, Network: n.NetworkID, Stage: stage, Follows: at[n.vm.ref],
			Op: cloud.Op{Kind: cloud.OpSetInterfaceGroups, Target: n.ID, GroupIDs: n.target, Reason: "change class"},
		})
	}
	return out, true
}

// matters reports whether the rule of a group of ours means anything when everybody holds what he shall. One that refers to a group of ours
// which everybody has left is cleared away later.
func (s *regionState) matters(r cloud.Rule) bool {
	g := s.groups[r.Peer.GroupID]
	return g == nil || !s.owned(g) || len(s.wantHeld[g.ID]) > 0
}

// indifferent reports whether two interfaces may change their groups in any order: what they allow each other in between is allowed before or
// after, and is all that is allowed before and after.
func (s *regionState) indifferent(x, y *nic) bool {
	if x.vm == y.vm {
		return true // one change of one VM
	}
	between := func(from, to *nic) bool {
		services := s.servicesOf(from, to)
		for _, pair := range addressPairs(from, to) {
			for _, sv := range services {
				pass := func(src, dst []string) bool {
					return s.opens(src, cloud.Egress, sv, pair.to, dst, to) && s.opens(dst, cloud.Ingress, sv, pair.from, src, from)
				}
				before, after := pass(from.GroupIDs, to.GroupIDs), pass(from.target, to.target)
				if before == after && (pass(from.target, to.GroupIDs) != before || pass(from.GroupIDs, to.target) != before) {
					return false
				}
			}
		}
		return true
	}
	return between(x, y) && between(y, x)
}

// servicesOf are the cells of everything that the rules of two interfaces tell apart, before and after.
func (s *regionState) servicesOf(nics ...*nic) []flow.Service {
	var all []flow.Service
	for _, n := range nics {
		for _, id := range slices.Concat(n.GroupIDs, n.target) {
			if g := s.groups[id]; g != nil {
				for _, r := range g.Rules {
					all = append(all, flow.ServiceOf(r.Match))
				}
			}
		}
	}
	return flow.Partition(all)
}

// addressPair are the addresses of a flow.
type addressPair struct{ from, to netip.Addr }

// addressPairs are those between two interfaces, of one family; from private to private and from public to public.
func addressPairs(from, to *nic) (out []addressPair) {
	cross := func(a, b []netip.Addr) {
		for _, x := range a {
			for _, y := range b {
				if x.Is4() == y.Is4() {
					out = append(out, addressPair{x, y})
				}
			}
		}
	}
	cross(from.PrivateIPs, to.PrivateIPs)
	cross(from.PublicIPs, to.PublicIPs)
	return out
}

// opens reports whether groups allow a service to or from an address, behind which is an interface with certain groups. A list whose entries
// are not known is taken to allow nothing: it allows the same whatever groups the other one has.
func (s *regionState) opens(groups []string, d cloud.Direction, sv flow.Service, addr netip.Addr, held []string, other *nic) bool {
	for _, id := range groups {
		g := s.groups[id]
		if g == nil {
			continue
		}
		for _, r := range g.Rules {
			if r.Direction != d || !flow.ServiceOf(r.Match).Covers(sv) {
				continue
			}
			if r.Peer.GroupID != "" {
				if slices.Contains(held, r.Peer.GroupID) && slices.Contains(other.PrivateIPs, addr) {
					return true
				}
				continue
			}
			if addrs, _, known := s.nativePeer(r.Peer, other.network); known && addrs.Contains(addr) {
				return true
			}
		}
	}
	return false
}
