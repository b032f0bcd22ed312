package target

import (
	"maps"
)

// Settle makes the design of the region. Every attempt decides everything from scratch; what an
// attempt finds impossible is ruled out for the following ones. Refusals stay for good, so there
// are finitely many.
func (s *Target) Settle() {
	noted := maps.Clone(s.Region.Noted)
	for refused := true; refused; {
		refused = s.attempt() || s.crowded()
		if !refused {
			s.setTargets()
			refused = s.addTwins()
		}
		// In between it is decided what is wanted in the end, and in a full region what is refused.
		if !refused && !s.Guard.Between() && s.full == nil && s.Guard.Foresee() {
			s.Region.Noted, refused = maps.Clone(noted), true
			s.restart()
		}
	}
}
