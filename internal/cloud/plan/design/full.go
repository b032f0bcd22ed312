package design

import (
	"cmp"
	"slices"

	"github.com/nephele-io/nephele/internal/cloud/plan/form"
	"github.com/nephele-io/nephele/internal/cloud/plan/guard"
	"github.com/nephele-io/nephele/internal/cloud/plan/intent"
	"github.com/nephele-io/nephele/internal/cloud/plan/reason"
)

// A region has a quota of groups. Where what policies want needs more of them than there may be,
// the newest is refused: what is not in force yet, and of that what comes last in the order of
// precedence. An interface that has a group keeps it, and joining one costs nothing, so the next
// round refuses the same.

// crowded deals with a design for which there are too few groups. It reports whether something was
// refused, or can be made smaller, so that the design has to be made again.
func (s *Designer) crowded() bool {
	if s.Guard.Between() { // what is wanted in the end has room
		return false
	}
	ours, others, most := len(s.AllGroups()), s.otherGroups(), s.Region.Limits.GroupsPerRegion
	if ours+others <= most {
		return false
	}
	if s.full == nil { // rules that have spilled on the way go into fewer groups; see merged
		s.full = reason.Why(reason.GroupsShort, s.Region.Snap.Region)
		return true
	}
	if s.full.Lack == nil {
		quota := reason.QuotaGroupsPerRegion
		if s.Region.Limits.WholeGroups { // as on Azure, where a group of ours is one of either kind
			quota = reason.QuotaApplicationGroups
		}
		s.full.Counting(ours, others, max(most-others, 0))
		s.full.Lack = &reason.Lack{Quota: quota, Needed: others + ours, Available: most, WouldDo: others + ours}
	}
	return s.refuseNewest(ours + others - most)
}

// request is a policy for whose sake a group would be created, with the VMs on which it asks for
// it.
type request struct {
	policy  *intent.Policy
	vms     []*guard.VM
	inForce bool
}

// compareRequests orders what is in force first, then by precedence, and what is wanted on many VMs
// before what is on few. VMs break ties: classes are called differently from one round to the next.
func compareRequests(a, b request) int {
	return cmp.Or(b2i(b.inForce)-b2i(a.inForce), intent.ComparePolicies(a.policy, b.policy), cmp.Compare(len(b.vms), len(a.vms)), a.first().Compare(b.first()))
}

// first is the VM that comes first by its name.
func (r request) first() intent.VMRef {
	return slices.MinFunc(r.vms, func(a, b *guard.VM) int { return a.Ref.Compare(b.Ref) }).Ref
}

// refuseNewest refuses some of what groups are needed for, given how many are too many. It refuses
// less than that at a time: without one policy several groups may be needless. What groups there
// are plays no part, unless all is in force, so that each round comes to the same. It reports
// whether there is anything.
func (s *Designer) refuseNewest(surplus int) bool {
	var newest, edited []request // of each class
	for _, c := range s.Classes {
		if c.Gathers || c.Frozen || c.NICs[0].VM == nil {
			continue
		}
		all, established := s.requests(c)
		switch {
		case len(all) == 0:
		case !established:
			newest = append(newest, slices.MaxFunc(all, compareRequests))
		case created(c) > 0:
			edited = append(edited, slices.MaxFunc(all, compareRequests))
		}
	}
	if len(newest) == 0 {
		newest = edited
	}
	slices.SortStableFunc(newest, func(a, b request) int { return compareRequests(b, a) })
	newest = newest[:min(max(surplus/4, 1), len(newest))]
	for _, r := range newest {
		for _, vm := range r.vms {
			if vm.Left(r.policy) == nil {
				s.Guard.LeaveOut(vm, r.policy, s.full)
			}
		}
	}
	return len(newest) > 0
}

// requests are those for the group of a class: of the policies on its VMs, or of those that name
// them as peers. It is established if what is in force needs it anyway.
func (s *Designer) requests(c *form.Class) (out []request, established bool) {
	ask := func(p *intent.Policy, vm *guard.VM) (inForce bool) {
		inForce = s.Region.InForce(vm.VM, p)
		i := slices.IndexFunc(out, func(r request) bool { return r.policy == p && r.inForce == inForce })
		if i < 0 {
			i, out = len(out), append(out, request{policy: p, inForce: inForce})
		}
		if !slices.Contains(out[i].vms, vm) {
			out[i].vms = append(out[i].vms, vm)
		}
		return inForce
	}
	if c.State == guard.Guarded {
		for _, n := range c.NICs {
			all := true
			for _, p := range n.VM.Policies {
				if n.VM.Enforces(p) {
					all = ask(p, n.VM) && all
				}
			}
			established = established || all
		}
		return out, established
	}
	for _, vm := range s.Guard.Order {
		for _, r := range vm.Effective {
			named := slices.ContainsFunc(r.Groups, func(g string) bool { return slices.Contains(c.NICs[0].VM.Groups, g) })
			if named && r.Verdict != intent.Drop && vm.Left(r.Policy) == nil {
				established = ask(r.Policy, vm) || established
			}
		}
	}
	return out, established
}

// created is how many groups have to be created for the class.
func created(c *form.Class) (n int) {
	for _, g := range c.Groups {
		if g.Existing == nil {
			n++
		}
	}
	return n
}

// otherGroups is how many groups there are that are not ours to delete.
func (s *Designer) otherGroups() int {
	n := s.Region.Snap.GroupsBeside
	for i := range s.Region.Snap.Groups {
		if g := &s.Region.Snap.Groups[i]; !s.Region.Owned(g) && !g.View {
			n++
		}
	}
	return n
}
