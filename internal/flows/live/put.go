package live

import "time"

// Put takes in entries of an enforcer whose causes and owners are known already, as of flow logs.
// Of those that are older than what memory knows it returns which they are; if they are kept
// nowhere else, they count as forgotten.
func (s *Store) Put(enforcer string, entries []*Entry, kept bool, now time.Time) (older []*Entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expire(now)
	s.heard[enforcer] = now
	for _, e := range entries {
		if now.Sub(e.First) > Kept || e.First.Before(s.since.Truncate(time.Minute)) || !s.put(e, now) {
			older = append(older, e)
		}
	}
	if !kept {
		s.losses.Forgotten += int64(len(older))
	}
	return older
}

// put adds an entry to its window. It is false if that was forgotten already.
func (s *Store) put(e *Entry, now time.Time) bool {
	w := s.window(e.First)
	if w == nil {
		return false
	}
	verdict, _ := place(verdicts[:], e.Verdict)
	direction, _ := place(directions[1:], e.Direction)
	differs, _ := place(differing[:], e.Differs)
	k := key{
		tuple{
			reporter: w.reporter.number(e.Enforcer), client: e.Client.As16(), server: e.Server.As16(),
			clientOwner: s.ownerNumber(w, e.ClientOwner), serverOwner: s.ownerNumber(w, e.ServerOwner), port: e.Port, protocol: e.Protocol, direction: direction + 1,
		},
		outcome{cause: s.causeNumber(w, e.Cause), verdict: verdict, differs: differs},
	}
	if e.Before.Cause != "" {
		k.before = s.causeNumber(w, e.Before)
	}
	added := &row{first: e.First.UnixNano(), last: e.Last.UnixNano(), connections: e.Connections, ended: e.Ended, packets: e.Packets, bytes: e.Bytes,
		replyPackets: e.ReplyPackets, replyBytes: e.ReplyBytes, uncounted: e.Uncounted}
	s.record(w, k, added, e.Enforcer, now)
	return true
}

// trim drops the oldest windows until the others have room, and counts what is in them.
func (s *Store) trim() {
	for s.size() > s.most && len(s.windows) > 1 {
		w := s.windows[0]
		s.losses.Forgotten += int64(len(w.rows))
		for _, o := range w.owners.values {
			s.forgotten[o.Namespace] = w.start.Add(Window)
		}
		for _, enforcer := range w.reporter.values {
			host, _ := HostOf(enforcer)
			s.forgotten[host] = w.start.Add(Window)
		}
		s.drop()
	}
}
