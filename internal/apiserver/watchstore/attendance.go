package watchstore

// Attended returns the enforcer keys that the policy of that name concerns and somebody watches
// policies with: what concerns them is given to them.
func (s *Store) Attended(name string) (keys []string) {
	policies, ok := NetworkPolicies.index()
	if !ok {
		return nil
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	e := s.tables[policies].named(name)
	if e == nil {
		return nil
	}
	for _, k := range e.span.keys {
		if len(k.watchers[policies]) > 0 {
			keys = append(keys, k.name)
		}
	}
	return keys
}

// OnAttendance has f called after a watch of policies with an enforcer key has begun. It is called
// without locks of the store, in the goroutine of the watcher, and must be quick. There is one such
// f: a later one replaces it.
func (s *Store) OnAttendance(f func(key string)) { s.attendance.Store(&f) }

// attend reports a watch that has begun.
func (s *Store) attend(r Resource, key string) {
	if f := s.attendance.Load(); f != nil && r == NetworkPolicies && key != "" {
		(*f)(key)
	}
}
