package policy

import (
	"cmp"
	"slices"
)

// host is an enforcer key that entities have.
type host struct {
	key string
	// id orders hosts within hostCounts; ids of hosts without entities are used again.
	id   uint32
	uses int
}

// hostCount and hostCounts count something per host, sorted by id. Hosts with a count of zero are
// not in it.
type hostCount struct {
	host  *host
	count int
}

type hostCounts struct{ list []hostCount }

func (c *hostCounts) find(h *host) (int, bool) {
	return slices.BinarySearchFunc(c.list, h.id, func(a hostCount, id uint32) int { return int(a.host.id) - int(id) })
}

// add changes the count of a host and reports its presence before and after.
func (c *hostCounts) add(h *host, n int) (before, after bool) {
	i, ok := c.find(h)
	if !ok {
		c.list = slices.Insert(c.list, i, hostCount{h, n})
		return false, true
	}
	c.list[i].count += n
	if c.list[i].count == 0 {
		c.list = slices.Delete(c.list, i, i+1)
		return true, false
	}
	return true, true
}

func (c *hostCounts) has(h *host) bool {
	_, ok := c.find(h)
	return ok
}

func (c *hostCounts) snapshot() []*host {
	out := make([]*host, len(c.list))
	for i := range c.list {
		out[i] = c.list[i].host
	}
	return out
}

// keys returns the sorted keys.
func (c *hostCounts) keys() []string { return keysOf(c.snapshot()) }

func keysOf(hosts []*host) []string {
	if len(hosts) == 0 {
		return nil
	}
	out := make([]string, len(hosts))
	for i, h := range hosts {
		out[i] = h.key
	}
	slices.Sort(out)
	return out
}

// diffHosts returns the keys in now but not in before, and the reverse. Both are sorted by id.
func diffHosts(before []*host, now *hostCounts) (added, removed []string) {
	i := 0
	for _, c := range now.list {
		for i < len(before) && before[i].id < c.host.id {
			removed = append(removed, before[i].key)
			i++
		}
		if i < len(before) && before[i] == c.host {
			i++
			continue
		}
		added = append(added, c.host.key)
	}
	for ; i < len(before); i++ {
		removed = append(removed, before[i].key)
	}
	slices.Sort(added)
	slices.Sort(removed)
	return added, removed
}

// spanChange records how the span of something differs from that of the last Commit. Most have no
// change to record.
type spanChange struct{ *spanRecord }

// spanRecord is either the whole former span, or for each host that came or went whether it was
// there.
type spanRecord struct {
	whole  bool
	former []*host
	// hosts has the first note of each host, and perhaps later ones; room is where a few of them
	// are.
	hosts []hostBefore
	room  [2]hostBefore
}

// hostBefore is whether a host was there.
type hostBefore struct {
	host *host
	was  bool
}

// first sorts the notes and leaves the first of each host.
func (r *spanRecord) first() []hostBefore {
	slices.SortStableFunc(r.hosts, func(a, b hostBefore) int { return cmp.Compare(a.host.id, b.host.id) })
	return slices.CompactFunc(r.hosts, func(a, b hostBefore) bool { return a.host == b.host })
}

// begin makes sure that there is a record, and reports whether it is of the whole former span.
func (s *spanChange) begin() (whole bool) {
	if s.spanRecord == nil {
		s.spanRecord = &spanRecord{}
	}
	return s.whole
}

// keep records the whole span before a change that is not host by host.
func (s *spanChange) keep(now *hostCounts) {
	if s.begin() {
		return
	}
	s.former = now.snapshot()
	for _, note := range s.first() {
		h, was := note.host, note.was
		i, has := slices.BinarySearchFunc(s.former, h.id, func(a *host, id uint32) int { return int(a.id) - int(id) })
		if was && !has {
			s.former = slices.Insert(s.former, i, h)
		} else if !was && has {
			s.former = slices.Delete(s.former, i, i+1)
		}
	}
	s.whole, s.hosts = true, nil
}

// flip records that a host came or went.
func (s *spanChange) flip(h *host, was bool) {
	if s.begin() {
		return
	}
	if s.hosts == nil {
		s.hosts = s.room[:0]
	}
	s.hosts = append(s.hosts, hostBefore{h, was})
}

// take returns the difference to the present span and forgets it.
func (s *spanChange) take(now *hostCounts) (added, removed []string) {
	if s.spanRecord == nil {
		return nil, nil
	}
	if s.whole {
		added, removed = diffHosts(s.former, now)
	} else {
		for _, note := range s.first() {
			switch is := now.has(note.host); {
			case is && !note.was:
				added = append(added, note.host.key)
			case note.was && !is:
				removed = append(removed, note.host.key)
			}
		}
		slices.Sort(added)
		slices.Sort(removed)
	}
	*s = spanChange{}
	return added, removed
}
