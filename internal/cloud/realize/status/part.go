package status

// part forgets what was told of an account that is another process's now: when it comes back, what
// its objects say is what that one has told.
func (s *Writer) part(account string) {
	s.mu.Lock()
	delete(s.drifting, account)
	delete(s.untold, account)
	delete(s.changes, account)
	delete(s.owing, account)
	s.mu.Unlock()
	delete(s.failing, account)
	delete(s.suspended, account)
	delete(s.cutsTold, account)
	delete(s.recordsTold, account)
	delete(s.faultsTold, account)
	delete(s.moded, account)
	delete(s.blocked, account)
	delete(s.braked, account)
	delete(s.guarded, account)
	delete(s.claims, account)
	delete(s.sole, account)
	delete(s.choruses, account)
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.shown, account)
	delete(s.spoilt, account)
	delete(s.last, account)
}
