package plan

// listAgain lets the rules of a class that does not fit refer to groups of its peers again. It reports whether that is anything new.
func (s *regionState) listAgain(c *class) (changed bool) {
	first := c.nics[0]
	if s.admission == nil || c.frozen || first.vm == nil {
		return false
	}
	return s.admission.list(first.vm)
}

// await makes an interface stay as it is in this round.
func (s *regionState) await(n *nic, message, what string) {
	delete(s.restrict, n)
	s.waiting[n] = true
	if n.taken() {
		s.frozen[n] = message
	} else {
		s.refused[n] = "the interface " + n.ID + " waits " + what + ": " + message
	}
}

// between reports whether this is about a state in between, in which some interfaces wait.
func (s *regionState) between() bool { return len(s.restrict)+len(s.waiting) > 0 }
