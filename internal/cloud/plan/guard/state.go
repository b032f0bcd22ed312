package guard

import (
	"slices"

	"github.com/nephele-io/nephele/internal/cloud/plan/addrset"
	"github.com/nephele-io/nephele/internal/cloud/plan/flow"
	"github.com/nephele-io/nephele/internal/cloud/plan/intent"
	"github.com/nephele-io/nephele/internal/cloud/plan/reason"
	"github.com/nephele-io/nephele/internal/cloud/plan/record"
)

// States are the states of the interfaces of a region, what was ruled out for them, and the
// policies that VMs do without. Each attempt to make a design decides the states anew, and what is
// ruled out remains. Others say by Await, NoRoom, LeaveOut and Unfollow what they found not to fit.
type States struct {
	Account *intent.Account
	Region  *intent.Region
	NICs    []*NIC // sorted by ID
	Order   []*VM  // selected VMs, sorted by ID

	byFormer   map[string][]*NIC      // native group -> interfaces that natively belong to it
	Holding    map[string][]*NIC      // group -> interfaces that hold it now
	references map[string][]reference // group -> native rules that refer to it

	between bool // see Between
	// beside are the networks of interfaces that are held, and all that peerings connect with them.
	beside     map[*intent.Network]bool
	dependents dependents
}

// NewStates begins with what cannot be controlled at all.
func NewStates(r *intent.Region) *States {
	s := &States{Account: r.Account, Region: r, references: referencesOf(r)}
	at, all := make(map[*intent.NIC]*NIC, len(r.NICs)), make([]NIC, len(r.NICs))
	s.NICs = make([]*NIC, len(all))
	for k, i := range r.NICs {
		n := &all[k]
		n.NIC, n.decided.state = i, Untouched
		at[i], s.NICs[k] = n, n
	}
	indexed := func(of map[string][]*intent.NIC) map[string][]*NIC {
		out := make(map[string][]*NIC, len(of))
		for g, nics := range of {
			out[g] = make([]*NIC, len(nics))
			for k, i := range nics {
				out[g][k] = at[i]
			}
		}
		return out
	}
	s.byFormer, s.Holding = indexed(r.ByFormer), indexed(r.ByHeld)
	s.Order = make([]*VM, 0, len(r.Order))
	for _, m := range r.Order {
		vm := &VM{VM: m}
		for _, i := range m.NICs {
			n := at[i]
			n.VM = vm
			vm.NICs = append(vm.NICs, n)
		}
		s.Order = append(s.Order, vm)
	}
	s.Begin()
	return s
}

// DecideStates decides which interfaces are guarded, members or untouched.
func (s *States) DecideStates() {
	s.findBeside()
	for _, vm := range s.Order {
		vm.Effective, vm.Profile = nil, ""
		if s.Account.In.Modes[vm.Ref] == intent.Enforce {
			vm.Effective, vm.Profile = s.RulesOf(vm, func(p *intent.Policy) bool { return vm.Left(p) == nil })
		}
	}
	for again := true; again; {
		s.dependents.reset()
		for _, n := range s.NICs {
			n.decided.state = Untouched
			if s.Controllable(n) == nil && s.wantsGuard(n) {
				n.decided.state = Guarded
			}
		}
		again = s.guardDependents() || s.spareReferred() || s.keepForUnread()
	}
	s.decideMembers()
}

// RulesOf are the rules that policies of which that holds have for the VM, with the failsafe flows,
// and what identifies them.
func (s *States) RulesOf(vm *VM, holds func(*intent.Policy) bool) (rules []*intent.Bound, profile string) {
	rules = vm.applied(holds)
	return s.Region.WithFailsafe(rules, intent.ProfileOf(rules))
}

// findBeside finds the networks beside which interfaces are held.
func (s *States) findBeside() {
	s.beside = map[*intent.Network]bool{}
	var add func(*intent.Network)
	add = func(at *intent.Network) {
		if !s.beside[at] {
			s.beside[at] = true
			for _, o := range at.Scope {
				add(o)
			}
		}
	}
	for _, n := range s.NICs {
		if n.isRestricted() {
			add(n.Network)
		}
	}
}

func (s *States) wantsGuard(n *NIC) bool {
	return n.decided.frozen != nil || n.isRestricted() && (n.VM != nil || n.Taken()) || !n.Native()
}

// Loses finds what an interface allows now of what its own groups decide, with some addresses, and
// will not allow any more; false if that is nothing.
func (s *States) Loses(n *NIC, with addrset.Set) (lost *reason.Flow, any bool) {
	open, wanted := n.Open(), s.Wanted(n)
	for i, is := range s.Region.Actual(n.GroupIDs, n.Network) {
		for _, g := range is.Without(wanted[i]).Grants {
			if cut := g.All.Intersect(with); open[i] && !cut.Empty() {
				return &reason.Flow{Direction: flow.Directions()[i], Service: g.Service, Addrs: cut}, true
			}
		}
	}
	return nil, false
}

// keepForUnread has interfaces stay as they are whose own groups let through what nobody knows to
// be theirs, because the service at the other end cannot be read. It reports whether there are any.
func (s *States) keepForUnread() (found bool) {
	if len(s.Region.OfUnread) == 0 {
		return false
	}
	unread := slices.DeleteFunc(slices.Clone(s.NICs), func(n *NIC) bool { return !slices.Contains(s.Region.OfUnread, n.NIC) })
	for _, n := range s.NICs {
		if n.decided.frozen != nil || n.VM == nil || n.Released != nil || !n.Taken() {
			continue
		}
		if _, loses := s.Loses(n, AddressesOf(unread, n.Network)); loses {
			n.decided.frozen, found = reason.Why(reason.StaysForUnread, unread[0].ID), true
		}
	}
	return found
}

// decideMembers decides which unguarded interfaces get a group by which the rules of others refer
// to them: interfaces of members of address groups from which rules in reach allow something.
func (s *States) decideMembers() {
	type from struct {
		network *intent.Network
		group   string
	}
	used := map[from]bool{}
	for _, n := range s.NICs {
		if n.State() != Guarded || n.VM == nil {
			continue
		}
		for _, r := range n.VM.InForce() {
			if r.Verdict == intent.Drop {
				continue
			}
			for _, g := range r.Groups {
				used[from{n.Network, g}] = true
			}
		}
	}
	for _, n := range s.NICs {
		if n.State() == Guarded || n.VM == nil || n.Released != nil || n.settable() != nil || len(n.Groups.Former)+1 > s.Region.Limits.GroupsPerInterface {
			continue
		}
		for _, o := range n.Network.Scope {
			if slices.ContainsFunc(n.VM.Groups, func(g string) bool { return used[from{o, g}] }) {
				n.decided.state = Member
				break
			}
		}
	}
}

// Wanted is what the interface shall allow in the end, whatever enforces it.
func (s *States) Wanted(n *NIC) [2]flow.Permit {
	if n.decided.frozen != nil {
		return s.Region.Actual(n.GroupIDs, n.Network)
	}
	if n.State() != Guarded {
		return s.Region.Decided(n.NIC, nil, "")
	}
	rules, profile := n.Rules()
	return s.Region.Decided(n.NIC, rules, profile)
}

// WantedNow is what the interface shall allow, as far as it is not held.
func (s *States) WantedNow(n *NIC) [2]flow.Permit {
	want, held := s.Wanted(n), s.Held(n)
	for i := range 2 {
		switch {
		case held[i] && s.Forced(n):
			want[i] = flow.Permit{} // which fits
		case held[i]:
			want[i] = s.Account.Recall.Kept(want[i].Intersect(s.Region.Actual(n.GroupIDs, n.Network)[i]))
		}
	}
	return want
}

// Forced reports whether an interface may miss flows on the way: somebody has said so.
func (s *States) Forced(n *NIC) bool {
	return s.Account.In.Forced[intent.InterfaceKey{Region: s.Region.Snap.Region, ID: n.ID}]
}

// Held are the directions in which an interface allows for now no more than it does already. For
// one that waits to be given back these are both: its own groups mean less when it holds them again
// than they do here, where a rule that names a group admits all that natively belong to it, also
// those that hold groups of ours instead.
func (s *States) Held(n *NIC) [2]bool {
	if s.waits(n) {
		return [2]bool{true, true}
	}
	return n.decided.restrict
}

// waits reports whether an interface that no policy needs is under control, and it, or one it
// depends on, may wait to be given back.
func (s *States) waits(n *NIC) bool {
	return s.beside[n.Network] && n.Taken() && n.decided.frozen == nil && n.Native()
}

// EnforcedBy is what will be in force on an interface of a class.
func (s *States) EnforcedBy(n *NIC) record.Enforcement {
	before, any := s.Region.EnforcedOn(n.NIC)
	if !any {
		before = record.Enforcement{}
	}
	if n.decided.frozen != nil {
		return before
	}
	waits := n.isRestricted()
	if waits && before == nil {
		return nil
	}
	out := record.Enforcement{}
	rules, _ := n.Rules()
	for _, r := range rules {
		if r.Verdict == intent.Grant {
			continue
		}
		if name := record.Shortened(r.Policy.Ref.UID); !waits || before[name] {
			out[name] = true
		}
	}
	return out
}
