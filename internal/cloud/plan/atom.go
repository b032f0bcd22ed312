package plan

import "slices"

// without returns the elements of a that are not in b.
func without[T comparable](a, b []T) []T {
	var out []T
	for _, x := range a {
		if !slices.Contains(b, x) {
			out = append(out, x)
		}
	}
	return out
}

// attemptEffort is what an attempt takes besides what is counted where it is done.
func (s *regionState) attemptEffort() int {
	units := 8*len(s.nics) + len(s.snap.Groups)
	for _, vm := range s.order {
		units += len(vm.applied)
	}
	return units
}

// settle makes the design of the region. Every attempt decides everything from scratch; what an attempt finds impossible is ruled
// out for the following ones. Refusals stay for good, so there are finitely many.
func (s *regionState) settle() {
	for refused := true; refused; {
		s.mayStop()
		s.in.Effort.spend(s.attemptEffort())
		s.decideStates()
		s.formClasses()
		s.matchGroups()
		s.setTargets()
		refused = s.lowerClasses() || s.crowded()
		if !refused {
			s.setTargets()
			refused = s.addTwins()
		}
	}
}
