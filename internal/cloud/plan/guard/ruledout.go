package guard

import (
	"slices"

	"github.com/nephele-io/nephele/internal/cloud/plan/intent"
	"github.com/nephele-io/nephele/internal/cloud/plan/reason"
)

// Begin forgets what attempts have ruled out. What remains is what cannot be expressed or
// controlled at all.
func (s *States) Begin() {
	s.dependents.unfollowed = map[string]*reason.Reason{}
	for _, n := range s.NICs {
		n.decided.frozen, n.decided.refusal, n.decided.spared = nil, nil, false
		switch {
		case n.Alien != nil:
		case n.Record.Unproven != nil: // nothing can be given back
			n.decided.frozen = n.Record.Unproven
		case n.Blocked != "":
			n.decided.frozen = n.Refused()
		case n.Released != nil && s.Region.Mode(n.NIC) == intent.BreakGlass:
			n.decided.refusal = n.Released
		}
	}
	for _, vm := range s.Order {
		vm.left = map[*intent.Policy]omission{}
		for _, p := range vm.Policies {
			if why := vm.Problems[p]; why != nil {
				s.LeaveOut(vm, p, why)
			}
		}
	}
}

// LeaveOut refuses the policy on the VM. Interfaces that are under control stay as they are if the
// policy is in force there in an earlier form; everywhere else the VM goes on without the policy.
func (s *States) LeaveOut(vm *VM, p *intent.Policy, why *reason.Reason) {
	s.leaveOut(vm, p, why, s.Account.In.Modes[vm.Ref] == intent.Enforce && s.Region.InForce(vm.VM, p))
}

func (s *States) leaveOut(vm *VM, p *intent.Policy, why *reason.Reason, stays bool) {
	kept := vm.Keeps(p)
	if stays {
		for _, n := range vm.NICs {
			if n.Taken() && n.Alien == nil && n.decided.frozen == nil {
				n.decided.frozen, kept = why, true
			}
		}
	}
	vm.left[p] = omission{why, kept}
}

// NoRoom says that not even what the groups of interfaces give them by themselves fits. Interfaces
// that are not under control yet are not taken over, and the others may have a class that fits
// without them. If there are none, the interfaces stay as they are.
func (s *States) NoRoom(nics []*NIC, why *reason.Reason) {
	all := !slices.ContainsFunc(nics, func(n *NIC) bool { return !n.Taken() })
	for _, n := range nics {
		if all {
			n.decided.frozen = why
		} else if !n.Taken() {
			n.decided.refusal = reason.Why(reason.TakeOverShort, n.ID).From(why)
		}
	}
}

// Restrict holds directions of an interface at what is allowed both now and in the end. It reports
// whether that is new.
func (s *States) Restrict(n *NIC, held [2]bool) bool {
	was := n.decided.restrict
	n.decided.restrict = [2]bool{was[0] || held[0], was[1] || held[1]}
	s.between = s.between || n.isRestricted()
	return n.decided.restrict != was
}

// Await makes interfaces stay as they are until others have changed, because the state in between
// does not fit.
func (s *States) Await(nics []*NIC, why *reason.Reason) {
	for _, n := range nics {
		n.decided.restrict, n.decided.waiting = [2]bool{}, true
		if n.Taken() {
			n.decided.frozen = why
		} else {
			n.decided.refusal = reason.Why(reason.WaitsBetween, n.ID).From(why)
		}
	}
}

// Block ends all waiting, because there is no order: interfaces stay as they are for the reason
// that is given of them, if any.
func (s *States) Block(why func(*NIC) *reason.Reason) {
	s.between = false
	for _, n := range s.NICs {
		if n.decided.frozen == nil {
			n.decided.frozen = why(n)
		}
		n.decided.restrict, n.decided.waiting = [2]bool{}, false
	}
}

// Between reports whether this is about a state in between, in which some interfaces wait.
func (s *States) Between() bool { return s.between }

// Restricts reports whether any interface is held, so that what waits for it goes on later.
func (s *States) Restricts() bool { return slices.ContainsFunc(s.NICs, (*NIC).isRestricted) }

// Controllable reports why the interface cannot be guarded by us; nil if it can.
func (s *States) Controllable(n *NIC) *reason.Reason {
	if why := n.settable(); why != nil {
		return why
	}
	if !n.Record.Exists() && len(n.Tags)+s.Region.RecordSize(n.NIC) > s.Region.Limits.TagsPerResource {
		return reason.Why(reason.TooManyTags, n.ID).Counting(s.Region.RecordSize(n.NIC), len(n.Tags), s.Region.Limits.TagsPerResource)
	}
	return nil
}

// settable reports why the groups of the interface cannot be set by us; nil if they can. A member
// needs no more: only a guarded interface has former groups, which its tags remember.
func (n *NIC) settable() *reason.Reason {
	switch {
	case n.Alien != nil:
		return n.Alien
	case n.Network.Foreign != nil:
		return n.Network.Foreign
	}
	return n.decided.refusal
}
