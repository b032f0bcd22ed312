package target

// Settle makes the design of the region. Every attempt decides everything from scratch; what an
// attempt finds impossible is ruled out for the following ones. Refusals stay for good, so there
// are finitely many.
func (s *Target) Settle() {
	for refused := true; refused; {
		refused = s.attempt() || s.crowded()
		if !refused {
			s.setTargets()
			refused = s.addTwins() || !s.Guard.Between() && s.full == nil && s.Guard.KeepSpared()
		}
	}
}
