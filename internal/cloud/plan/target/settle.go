package target

import (
	"maps"

	"github.com/nephele-io/nephele/internal/cloud/plan/intent"
)

// attemptEffort is what an attempt takes besides what is counted where it is done.
func (s *Target) attemptEffort() int {
	units := 8*len(s.NICs) + len(s.Snap.Groups)
	for _, vm := range s.Order {
		units += len(vm.Applied)
	}
	return units
}

// Settle makes the design of the region. Every attempt decides everything from scratch; what an
// attempt finds impossible is ruled out for the following ones. Refusals stay for good, so there
// are finitely many.
func (s *Target) Settle() {
	noted := maps.Clone(s.Noted)
	for refused := true; refused; {
		s.Effort.Spend(s.attemptEffort())
		refused = s.attempt() || s.crowded()
		if !refused {
			s.setTargets()
			refused = s.addTwins()
		}
		if !refused && s.foresee() {
			s.Noted, refused = maps.Clone(noted), true
			s.begin()
		}
	}
}

// foresee finds interfaces that are given back because what is wanted of them does not fit, and
// that would not be taken over again: they are under control, and somebody has come to depend on
// their own groups. The next plan would refuse them, and so find room for policies that this one
// leaves out. So this one spares them no more, and begins anew. It reports whether there are any.
func (s *Target) foresee() (found bool) {
	if s.Between() || s.allotment != nil {
		return false // what is wanted in the end is decided, or which policies there are groups for
	}
	for n := range s.spared {
		if n.State != Guarded && n.Taken() && s.Controllable(n) == nil {
			s.unspared[n], found = true, true
		}
	}
	return found
}

// attempt makes one. It reports whether rules did not fit.
func (s *Target) attempt() (refused bool) {
	s.MayStop()
	s.decideStates()
	s.formClasses()
	s.matcher.matchGroups()
	s.setTargets()
	return s.lowerClasses()
}

// await makes an interface stay as it is until others have changed.
func (s *Target) await(n *NIC, what intent.Code, why *intent.Reason) {
	delete(s.Restrict, n)
	s.Waiting[n] = true
	if n.Taken() {
		s.Frozen[n] = why
	} else {
		s.Refused[n] = intent.Why(what, n.ID).From(why)
	}
}

// Between reports whether this is about a state in between, in which some interfaces wait.
func (s *Target) Between() bool { return len(s.Restrict)+len(s.Waiting) > 0 }
