package guard

import (
	"maps"
	"slices"

	"github.com/nephele-io/nephele/internal/cloud/plan/flow"
	"github.com/nephele-io/nephele/internal/cloud/plan/intent"
)

// States are the states of the interfaces of a region, what was ruled out for them, and the
// policies that VMs do without. Each attempt to make a design decides the states anew, and what is
// ruled out remains.
type States struct {
	*intent.Region
	NICs  []*NIC // sorted by ID
	Order []*VM  // selected VMs, sorted by ID

	byFormer map[string][]*NIC // native group -> interfaces that natively belong to it
	Holding  map[string][]*NIC // group -> interfaces that hold it now

	Restrict map[*NIC][2]bool         // directions that are held at what is allowed both before and after
	between  map[*intent.Network]bool // networks of such interfaces, and all that peerings connect with them
	lasting  map[*NIC]bool            // interfaces that are guarded when nobody waits any more
	Refused  map[*NIC]*intent.Reason  // interfaces that are not taken over, with the reason
	Frozen   map[*NIC]*intent.Reason  // interfaces that stay as they are, with the reason
	Waiting  map[*NIC]bool            // those of refused and frozen that need only wait for others
	// spared are interfaces that are not refused because they are under control, and unspared those
	// that are refused all the same; see Foresee.
	spared, unspared map[*NIC]bool
	Dependents       dependents
}

// NewStates begins with what cannot be controlled at all.
func NewStates(r *intent.Region) *States {
	s := &States{
		Region: r, byFormer: map[string][]*NIC{}, Holding: map[string][]*NIC{}, Restrict: map[*NIC][2]bool{}, Refused: map[*NIC]*intent.Reason{},
		Frozen: map[*NIC]*intent.Reason{}, Waiting: map[*NIC]bool{}, spared: map[*NIC]bool{}, unspared: map[*NIC]bool{},
		Dependents: dependents{Unfollowed: map[string]*intent.Reason{}},
	}
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
	clear(s.Refused)
	clear(s.Frozen)
	clear(s.Dependents.Unfollowed)
	clear(s.spared)
	for _, n := range s.NICs {
		switch {
		case n.Alien != nil:
		case n.Unproven != nil: // nothing can be given back
			s.Frozen[n] = n.Unproven
		case n.Blocked != "":
			s.Frozen[n] = n.Refused()
		case n.Released != nil && s.Mode(n.NIC) == intent.BreakGlass:
			s.Refused[n] = n.Released
		}
	}
	for _, vm := range s.Order {
		vm.Left, vm.Kept = maps.Clone(vm.Problems), map[*intent.Policy]*intent.Reason{}
	}
	for _, vm := range s.Order {
		for _, p := range vm.Policies {
			if why := vm.Left[p]; why != nil {
				s.LeaveOut(vm, p, why)
			}
		}
	}
}

// LeaveOut refuses the policy on the VM. Interfaces that are under control stay as they are if the
// policy is in force there in an earlier form, and are returned; everywhere else the VM goes on
// without the policy.
func (s *States) LeaveOut(vm *VM, p *intent.Policy, why *intent.Reason) (frozen []*NIC) {
	vm.Left[p] = why
	if s.In.Modes[vm.Ref] != intent.Enforce || !s.InForce(vm.VM, p) {
		return nil
	}
	for _, n := range vm.NICs {
		if n.Taken() && n.Alien == nil && s.Frozen[n] == nil {
			s.Frozen[n], vm.Kept[p] = why, why
			frozen = append(frozen, n)
		}
	}
	return frozen
}

// Controllable reports why the groups of the interface cannot be set by us; nil if they can.
func (s *States) Controllable(n *NIC) *intent.Reason {
	switch {
	case n.Alien != nil:
		return n.Alien
	case n.Network.Foreign != nil:
		return n.Network.Foreign
	case s.Refused[n] != nil:
		return s.Refused[n]
	case n.Recorded == nil && len(n.Tags)+s.RecordSize(n.NIC) > s.Limits.TagsPerResource:
		return intent.Why(intent.TooManyTags, n.ID).Counting(s.RecordSize(n.NIC), len(n.Tags), s.Limits.TagsPerResource)
	}
	return nil
}

// DecideStates decides which interfaces are guarded, members or untouched.
func (s *States) DecideStates() {
	s.findBetween()
	for _, vm := range s.Order {
		vm.Effective, vm.Profile = nil, ""
		if s.In.Modes[vm.Ref] == intent.Enforce {
			vm.Effective, vm.Profile = s.WithFailsafe(effectiveRules(vm))
		}
	}
	for again := true; again; {
		s.Dependents.reset()
		for _, n := range s.NICs {
			n.State = Untouched
			n.Given = s.unspared[n] && s.Refused[n] != nil
			if s.guardable(n) && s.wantsGuard(n) {
				n.State = Guarded
			}
		}
		again = s.guardDependents() || s.spareReferred()
	}
	if !s.Between() {
		s.lasting = map[*NIC]bool{}
		for _, n := range s.NICs {
			s.lasting[n] = n.State == Guarded
		}
	}
	s.decideMembers()
}

// findBetween finds the networks with interfaces that are held, and all that peerings connect with
// them.
func (s *States) findBetween() {
	s.between = map[*intent.Network]bool{}
	var queue []*intent.Network
	for n := range s.Restrict {
		queue = append(queue, n.Network)
	}
	for len(queue) > 0 {
		at := queue[0]
		if queue = queue[1:]; !s.between[at] {
			s.between[at] = true
			queue = append(queue, at.Scope...)
		}
	}
}

func (s *States) wantsGuard(n *NIC) bool {
	switch {
	case s.Frozen[n] != nil:
		return true
	case s.Restrict[n] != [2]bool{} && (n.VM != nil || n.Taken()):
		return true
	}
	return n.needed() || s.leans(n)
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
	var rules []*intent.Bound
	profile := ""
	if n.VM != nil && n.State == Guarded && s.Controllable(n) == nil {
		rules, profile = n.VM.Effective, n.VM.Profile
	}
	if s.Frozen[n] != nil {
		return s.Actual(n.GroupIDs, n.Network)
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
	return s.Restrict[n]
}

// waits reports whether an interface that no policy needs is under control, and it, or one it
// depends on, may wait to be given back.
func (s *States) waits(n *NIC) bool {
	return s.between[n.Network] && n.Taken() && s.Frozen[n] == nil && !n.needed()
}

// EnforcedBy is what will be in force on an interface of a class.
func (s *States) EnforcedBy(n *NIC) intent.Enforcement {
	before, any := s.EnforcedOn(n.NIC)
	if !any {
		before = intent.Enforcement{}
	}
	if s.Frozen[n] != nil {
		return before
	}
	waits := s.Restrict[n] != [2]bool{}
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

// Await makes an interface stay as it is until others have changed.
func (s *States) Await(n *NIC, what intent.Code, why *intent.Reason) {
	delete(s.Restrict, n)
	s.Waiting[n] = true
	if n.Taken() {
		s.Frozen[n] = why
	} else {
		s.Refused[n] = intent.Why(what, n.ID).From(why)
	}
}

// Between reports whether this is about a state in between, in which some interfaces wait.
func (s *States) Between() bool { return len(s.Restrict)+len(s.Waiting) > 0 }

// Native reports whether no rule applies to the interface, so that its former groups decide
// everything.
func (s *States) Native(n *NIC) bool { return !n.needed() }
