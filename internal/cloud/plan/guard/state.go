package guard

import (
	"maps"
	"slices"

	"github.com/nephele-io/nephele/internal/cloud/plan/flow"
	"github.com/nephele-io/nephele/internal/cloud/plan/intent"
)

// States are the states of the interfaces of a region, what was ruled out for them, and the
// policies that VMs do without. Each attempt to make a design decides the states anew, and what is
// ruled out remains. Others say by Await, NoRoom, LeaveOut and Unfollow what they found not to fit.
type States struct {
	*intent.Region
	NICs  []*NIC // sorted by ID
	Order []*VM  // selected VMs, sorted by ID

	byFormer map[string][]*NIC // native group -> interfaces that natively belong to it
	Holding  map[string][]*NIC // group -> interfaces that hold it now

	between bool // see Between
	// beside are the networks of interfaces that are held, and all that peerings connect with them.
	beside     map[*intent.Network]bool
	dependents dependents
}

// NewStates begins with what cannot be controlled at all.
func NewStates(r *intent.Region) *States {
	s := &States{Region: r, byFormer: map[string][]*NIC{}, Holding: map[string][]*NIC{}}
	at, all := make(map[*intent.NIC]*NIC, len(r.NICs)), make([]NIC, len(r.NICs))
	s.NICs = make([]*NIC, len(all))
	for k, i := range r.NICs {
		n := &all[k]
		n.NIC, n.State = i, Untouched
		at[i], s.NICs[k] = n, n
	}
	for _, index := range []struct {
		from map[string][]*intent.NIC
		to   map[string][]*NIC
	}{{r.ByFormer, s.byFormer}, {r.ByHeld, s.Holding}} {
		for g, nics := range index.from {
			index.to[g] = make([]*NIC, 0, len(nics))
			for _, i := range nics {
				index.to[g] = append(index.to[g], at[i])
			}
		}
	}
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

// Begin forgets what attempts have ruled out. What remains is what cannot be expressed or
// controlled at all.
func (s *States) Begin() {
	s.dependents.unfollowed = map[string]*intent.Reason{}
	for _, n := range s.NICs {
		n.frozen, n.refusal, n.spared = nil, nil, false
		switch {
		case n.Alien != nil:
		case n.Unproven != nil: // nothing can be given back
			n.frozen = n.Unproven
		case n.Blocked != "":
			n.frozen = n.Refused()
		case n.Released != nil && s.Mode(n.NIC) == intent.BreakGlass:
			n.refusal = n.Released
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
func (s *States) LeaveOut(vm *VM, p *intent.Policy, why *intent.Reason) {
	kept := vm.Keeps(p)
	if s.In.Modes[vm.Ref] == intent.Enforce && s.InForce(vm.VM, p) {
		for _, n := range vm.NICs {
			if n.Taken() && n.Alien == nil && n.frozen == nil {
				n.frozen, kept = why, true
			}
		}
	}
	vm.left[p] = omission{why, kept}
}

// DoWithout refuses the policy on the VM, which goes on without it.
func (s *States) DoWithout(vm *VM, p *intent.Policy, why *intent.Reason) {
	vm.left[p] = omission{why: why}
}

// Readmit takes back that a policy was left out.
func (s *States) Readmit(vm *VM, p *intent.Policy) {
	if o := vm.left[p]; o.kept {
		for _, n := range vm.NICs {
			if n.frozen == o.why {
				n.frozen = nil
			}
		}
	}
	delete(vm.left, p)
}

// NoRoom says that not even what the groups of interfaces give them by themselves fits. Those that
// are not under control yet are not taken over, and the others may have a class that fits without
// them. If there are none, the interfaces stay as they are.
func (s *States) NoRoom(nics []*NIC, why *intent.Reason) {
	all := true
	for _, n := range nics {
		if !n.Taken() {
			n.refusal, all = intent.Why(intent.TakeOverShort, n.ID).From(why), false
		}
	}
	for _, n := range nics {
		if all {
			n.frozen = why
		}
	}
}

// Controllable reports why the groups of the interface cannot be set by us; nil if they can.
func (s *States) Controllable(n *NIC) *intent.Reason {
	switch {
	case n.Alien != nil:
		return n.Alien
	case n.Network.Foreign != nil:
		return n.Network.Foreign
	case n.refusal != nil:
		return n.refusal
	case n.Recorded == nil && len(n.Tags)+s.RecordSize(n.NIC) > s.Limits.TagsPerResource:
		return intent.Why(intent.TooManyTags, n.ID).Counting(s.RecordSize(n.NIC), len(n.Tags), s.Limits.TagsPerResource)
	}
	return nil
}

// DecideStates decides which interfaces are guarded, members or untouched.
func (s *States) DecideStates() {
	s.findBeside()
	for _, vm := range s.Order {
		vm.Effective, vm.Profile = nil, ""
		if s.In.Modes[vm.Ref] == intent.Enforce {
			vm.Effective, vm.Profile = s.RulesOf(vm, func(p *intent.Policy) bool { return vm.Left(p) == nil })
		}
	}
	for again := true; again; {
		s.dependents.reset()
		for _, n := range s.NICs {
			n.State = Untouched
			n.Given = n.unspared && n.refusal != nil
			if s.guardable(n) && s.wantsGuard(n) {
				n.State = Guarded
			}
		}
		again = s.guardDependents() || s.spareReferred()
	}
	if !s.between {
		for _, n := range s.NICs {
			n.lasting = n.State == Guarded
		}
	}
	s.decideMembers()
}

// Rehearse decides the states and does something with them. What is refused and noted meanwhile is
// forgotten.
func (s *States) Rehearse(do func()) {
	refusals, noted := make([]*intent.Reason, len(s.NICs)), maps.Clone(s.Noted)
	for i, n := range s.NICs {
		refusals[i] = n.refusal
	}
	s.DecideStates()
	do()
	for i, n := range s.NICs {
		n.refusal = refusals[i]
	}
	s.Noted = noted
}

// RulesOf are the rules that policies of which that holds have for the VM, with the failsafe flows,
// and what identifies them.
func (s *States) RulesOf(vm *VM, holds func(*intent.Policy) bool) (rules []*intent.Bound, profile string) {
	rules = vm.applied(holds)
	return s.WithFailsafe(rules, intent.ProfileOf(rules))
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
	return n.frozen != nil || n.isRestricted() && (n.VM != nil || n.Taken()) || n.needed() || s.leans(n)
}

// guardable reports whether an interface can be under control, if only until it can be given back.
func (s *States) guardable(n *NIC) bool { return s.Controllable(n) == nil || n.Given }

// decideMembers decides which unguarded interfaces get a group by which the rules of others refer
// to them: those of the members of address groups from which rules in reach allow something.
func (s *States) decideMembers() {
	used := map[*intent.Network]map[string]bool{}
	for _, vm := range s.Order {
		for _, n := range vm.NICs {
			if n.State != Guarded {
				continue
			}
			if used[n.Network] == nil {
				used[n.Network] = map[string]bool{}
			}
			for _, r := range vm.InForce() {
				if r.Verdict == intent.Drop {
					continue
				}
				for _, g := range r.Groups {
					used[n.Network][g] = true
				}
			}
		}
	}
	for _, n := range s.NICs {
		if n.State == Guarded || n.VM == nil || n.Released != nil || s.Controllable(n) != nil || len(n.Former)+1 > s.Limits.GroupsPerInterface {
			continue
		}
		for _, o := range n.Network.Scope {
			if slices.ContainsFunc(n.VM.Groups, func(g string) bool { return used[o][g] }) {
				n.State = Member
				break
			}
		}
	}
}

// leans reports whether an interface that no policy applies to any more would lose something with
// strangers if it was given back: its own groups do not allow by themselves what it allows now.
func (s *States) leans(n *NIC) bool {
	if len(s.Unknown) == 0 || n.VM == nil || n.Released != nil || !n.Taken() || n.Unproven != nil || !s.Native(n) || s.KeptKey(n.NIC) == "" {
		return false
	}
	with := s.Decided(n.NIC, nil, "")
	for i, d := range flow.Directions() {
		f := intent.Flattening{View: n.Network, Native: s.GroupRules(n.Former, d)}
		if len(with[i].Minus(f.Flatten(s.Region))) > 0 {
			s.Note(n.ID, intent.Why(intent.StaysForUnknown, s.Unknown[0].ID))
			return true
		}
	}
	return false
}

// Wanted is what the interface shall allow in the end, whoever enforces it.
func (s *States) Wanted(n *NIC) [2]flow.Permit {
	if n.frozen != nil {
		return s.Actual(n.GroupIDs, n.Network)
	}
	var rules []*intent.Bound
	profile := ""
	if n.VM != nil && n.State == Guarded && s.Controllable(n) == nil {
		rules, profile = n.VM.Effective, n.VM.Profile
	}
	return s.Decided(n.NIC, rules, profile)
}

// WantedNow is what the interface shall allow, as far as it is not held.
func (s *States) WantedNow(n *NIC) [2]flow.Permit {
	want, held := s.Wanted(n), s.Held(n)
	for i := range 2 {
		if held[i] {
			want[i] = s.Recall.Kept(want[i].Intersect(s.Actual(n.GroupIDs, n.Network)[i]))
		}
	}
	return want
}

// Held are the directions in which an interface allows for now no more than it does already. For
// one that waits to be given back these are both: its own groups mean less when it holds them again
// than they do here, where a rule that names a group admits all that natively belong to it, also
// those that hold groups of ours instead.
func (s *States) Held(n *NIC) [2]bool {
	if s.waits(n) {
		return [2]bool{true, true}
	}
	return n.restrict
}

// waits reports whether an interface that no policy needs is under control, and it, or one it
// depends on, may wait to be given back.
func (s *States) waits(n *NIC) bool {
	return s.beside[n.Network] && n.Taken() && n.frozen == nil && !n.needed()
}

// EnforcedBy is what will be in force on an interface of a class.
func (s *States) EnforcedBy(n *NIC) intent.Enforcement {
	before, any := s.EnforcedOn(n.NIC)
	if !any {
		before = intent.Enforcement{}
	}
	if n.frozen != nil {
		return before
	}
	waits := n.isRestricted()
	if waits && before == nil {
		return nil
	}
	out := intent.Enforcement{}
	rules, _ := n.Rules()
	for _, r := range rules {
		if r.Verdict == intent.Grant {
			continue
		}
		if name := intent.Shortened(r.Policy.Ref.UID); !waits || before[name] {
			out[name] = true
		}
	}
	return out
}

// Restrict holds directions of an interface at what is allowed both now and in the end. It reports
// whether that is new.
func (s *States) Restrict(n *NIC, held [2]bool) bool {
	was := n.restrict
	n.restrict = [2]bool{was[0] || held[0], was[1] || held[1]}
	s.between = s.between || n.isRestricted()
	return n.restrict != was
}

// Await makes interfaces stay as they are until others have changed.
func (s *States) Await(nics []*NIC, what intent.Code, why *intent.Reason) {
	for _, n := range nics {
		n.restrict, n.waiting = [2]bool{}, true
		if n.Taken() {
			n.frozen = why
		} else {
			n.refusal = intent.Why(what, n.ID).From(why)
		}
	}
}

// Block ends all waiting, because there is no order: interfaces stay as they are for the reason
// that is given of them, if any.
func (s *States) Block(why func(*NIC) *intent.Reason) {
	s.between = false
	for _, n := range s.NICs {
		if n.frozen == nil {
			n.frozen = why(n)
		}
		n.restrict, n.waiting = [2]bool{}, false
	}
}

// Between reports whether this is about a state in between, in which some interfaces wait.
func (s *States) Between() bool { return s.between }

// Restricts reports whether any interface is held, so that what waits for it goes on later.
func (s *States) Restricts() bool { return slices.ContainsFunc(s.NICs, (*NIC).isRestricted) }

// Native reports whether no rule applies to the interface, so that its former groups decide
// everything.
func (s *States) Native(n *NIC) bool { return !n.needed() }
