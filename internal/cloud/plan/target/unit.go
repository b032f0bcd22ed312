package target

import (
	"cmp"
	"slices"
	"strings"

	"github.com/nephele-io/nephele/internal/cloud/plan/guard"
	"github.com/nephele-io/nephele/internal/cloud/plan/intent"
)

// unit is a policy on VMs to which the same policies apply.
type unit struct {
	unitKey
	vms []*guard.VM
	out bool // if it is left out
}

// unitKey is what the VMs of a unit have in common: the policy, what identifies all that apply to
// them, and whether the one is in force, or about to be.
type unitKey struct {
	policy  *intent.Policy
	profile string
	inForce bool
}

// trials bounds how many designs are tried, and passTrials how many of these in one pass over what
// is not admitted: a pass in which nothing fits must leave some to those after it. What is not
// tried by then has to wait for later rounds, which have less to try.
const (
	trials     = 160
	passTrials = trials / 4
)

// collect finds the units of which the allotment consists, in the order in which they are admitted,
// which is the same in every round. Of a policy those units come first whose VMs are the most.
func (a *allotment) collect() {
	known, alike := map[unitKey]*unit{}, map[string]int{}
	for _, vm := range a.of.Guard.Order {
		if a.of.Account.In.Modes[vm.Ref] != intent.Enforce {
			continue
		}
		for _, p := range vm.Policies {
			if !vm.Enforces(p) {
				continue
			}
			key := unitKey{p, vm.Profile, a.of.Region.Begun(vm.VM, p)}
			u := known[key]
			if u == nil {
				u = &unit{unitKey: key}
				known[key] = u
				a.units = append(a.units, u)
			}
			u.vms = append(u.vms, vm)
			alike[vm.Profile]++
		}
	}
	slices.SortFunc(a.units, func(x, y *unit) int {
		return cmp.Or(intent.ComparePolicies(x.policy, y.policy), cmp.Compare(alike[y.profile], alike[x.profile]),
			strings.Compare(x.profile, y.profile), b2i(y.inForce)-b2i(x.inForce))
	})
}

// choosePolicies admits as much as there are groups for: as if nothing was in force, and if that
// would leave out something that is, once more, what is in force first. As long as what was in
// force before is part of the first choice, so is what a round has put into force, however far it
// came; and then the next round chooses the same.
func (a *allotment) choosePolicies() {
	a.keeps = false
	if a.admitUnits(); slices.ContainsFunc(a.units, func(u *unit) bool { return u.out && u.inForce }) {
		a.keeps = true
		a.admitUnits()
	}
}

// admitUnits admits unit after unit as long as they fit, and at last VMs with all their policies.
func (a *allotment) admitUnits() {
	for _, u := range a.units {
		u.out = true
	}
	a.apply()
	a.room = max(a.limit, a.needed()) // nobody gives up a group that he has, however many there are
	a.left = trials
	single := func(u *unit) unitKey {
		// What is in force of a policy on like VMs is a unit of its own only where that matters.
		return unitKey{u.policy, u.profile, a.keeps && u.inForce}
	}
	ofVMs := func(u *unit) unitKey { return unitKey{profile: u.profile} }
	if a.keeps {
		a.admitFrom(slices.DeleteFunc(a.pending(single), func(p []*unit) bool { return !p[0].inForce }))
	}
	for again := true; again && a.left > 0; {
		again = a.admitFrom(a.pending(single))
		again = a.admitFrom(a.pending(ofVMs)) || again
	}
}

// fits reports whether there are groups for what is admitted now.
func (a *allotment) fits() bool {
	needed := a.needed()
	if needed > a.room {
		return false
	}
	a.room = max(a.limit, needed) // what is not needed any more is not there for others
	return true
}

// pending returns the units that are not admitted yet, those with the same key together.
func (a *allotment) pending(key func(*unit) unitKey) (out [][]*unit) {
	at := map[unitKey]int{}
	for _, u := range a.units {
		if !u.out {
			continue
		}
		i, ok := at[key(u)]
		if !ok {
			i, at[key(u)] = len(out), len(out)
			out = append(out, nil)
		}
		out[i] = append(out[i], u)
	}
	return out
}

// admitFrom admits what fits, one after the other, many at once while that goes well. It reports
// whether anything was admitted.
func (a *allotment) admitFrom(from [][]*unit) (any bool) {
	for i, step, last := 0, max(len(from), 1), max(a.left-passTrials, 0); i < len(from) && a.left > last; {
		part := slices.Concat(from[i:min(i+step, len(from))]...)
		for _, u := range part {
			u.out = false
		}
		a.left--
		if a.apply(); a.fits() {
			any, i, step = true, i+step, step*2
			continue
		}
		for _, u := range part {
			u.out = true
		}
		if step == 1 {
			i++
		}
		step = max(step/2, 1)
	}
	a.apply()
	return any
}

// apply leaves out what is not admitted, and nothing else. Where what is in force counts,
// interfaces stay as they are for its sake.
func (a *allotment) apply() {
	for _, u := range a.units {
		for _, vm := range u.vms {
			if vm.Left(u.policy) == a.why {
				a.of.Guard.Readmit(vm, u.policy)
			}
		}
	}
	leaveOut := a.of.Guard.DoWithout
	if a.keeps {
		leaveOut = a.of.Guard.LeaveOut
	}
	for _, u := range a.units {
		for _, vm := range u.vms {
			if u.out && vm.Left(u.policy) == nil {
				leaveOut(vm, u.policy, a.why)
			}
		}
	}
}

// needed is how many groups what is admitted needs.
func (a *allotment) needed() int { return a.count() + a.further }

// count returns how many groups what is admitted needs at least: one for each class, and those that
// interfaces hold that stay as they are.
func (a *allotment) count() (n int) {
	a.of.Account.MayStop()
	a.of.Guard.Rehearse(a.of.formClasses)
	held := map[string]bool{}
	for _, c := range a.of.Classes {
		if !c.Frozen {
			n++
			continue
		}
		for _, id := range c.NICs[0].Ours {
			held[id] = true
		}
	}
	return n + len(held)
}
