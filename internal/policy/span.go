package policy

import (
	"cmp"
	"encoding/binary"
	"slices"
)

// host is an enforcer key that entities have.
type host struct {
	key string
	// id is the place in the Engine's table. Ids of hosts without entities are used again after the
	// Commit that forgets them: until then, whatever counts or notes one is brought up to date.
	id   uint32
	uses int32
}

// hostTable has the hosts by id; nil at ids that are free.
type hostTable []*host

// hosts are the enforcer keys that entities have.
type hosts struct {
	byKey map[string]*host
	table hostTable // the same by id
	free  []uint32
	// idle are those that may have no entity any more.
	idle []*host
}

// use returns the host with a key and counts one more use.
func (hs *hosts) use(key string) *host {
	h := hs.byKey[key]
	if h == nil {
		h = &host{key: key, id: uint32(len(hs.table))}
		if n := len(hs.free); n > 0 {
			h.id = hs.free[n-1]
			hs.free = hs.free[:n-1]
			hs.table[h.id] = h
		} else {
			hs.table = append(hs.table, h)
		}
		if hs.byKey == nil {
			hs.byKey = make(map[string]*host)
		}
		hs.byKey[key] = h
	}
	h.uses++
	return h
}

// named returns the host with a key; nil if there is none.
func (hs *hosts) named(key string) *host { return hs.byKey[key] }

// release gives up a use. Hosts without are forgotten at the end of Commit, when nothing counts
// them any more.
func (hs *hosts) release(h *host) {
	if h.uses--; h.uses == 0 {
		hs.idle = append(hs.idle, h)
	}
}

// forgetIdle forgets the hosts without entities, when nothing counts them any more.
func (hs *hosts) forgetIdle() {
	for _, h := range hs.idle {
		if h.uses == 0 && hs.byKey[h.key] == h {
			delete(hs.byKey, h.key)
			hs.table[h.id] = nil
			hs.free = append(hs.free, h.id)
		}
	}
	hs.idle = scratchOf(hs.idle)
}

// keysOf returns the sorted keys of hosts.
func (t hostTable) keysOf(ids []uint32) []string {
	if len(ids) == 0 {
		return nil
	}
	out := make([]string, len(ids))
	for i, id := range ids {
		out[i] = t[id].key
	}
	slices.Sort(out)
	return out
}

// keys returns the sorted keys of a span.
func (t hostTable) keys(c *hostCounts) []string {
	if len(c.list) == 0 {
		return nil
	}
	out := make([]string, len(c.list))
	for i := range c.list {
		out[i] = t[c.list[i].id].key
	}
	slices.Sort(out)
	return out
}

// difference returns the keys in now but not in before, and the reverse. Both are sorted by id.
func (t hostTable) difference(before []uint32, now *hostCounts) (added, removed []string) {
	i := 0
	for _, c := range now.list {
		for i < len(before) && before[i] < c.id {
			removed = append(removed, t[before[i]].key)
			i++
		}
		if i < len(before) && before[i] == c.id {
			i++
			continue
		}
		added = append(added, t[c.id].key)
	}
	for ; i < len(before); i++ {
		removed = append(removed, t[before[i]].key)
	}
	slices.Sort(added)
	slices.Sort(removed)
	return added, removed
}

// hostCount and hostCounts count something per host, sorted by id. Hosts with a count of zero are
// not in it.
type hostCount struct {
	id    uint32
	count int32
}

type hostCounts struct{ list []hostCount }

func (c *hostCounts) find(id uint32) (int, bool) {
	return slices.BinarySearchFunc(c.list, id, func(a hostCount, id uint32) int { return cmp.Compare(a.id, id) })
}

// add changes the count of a host and reports its presence before and after.
func (c *hostCounts) add(id uint32, n int32) (before, after bool) {
	i, ok := c.find(id)
	if !ok {
		c.list = slices.Insert(c.list, i, hostCount{id, n})
		return false, true
	}
	c.list[i].count += n
	if c.list[i].count == 0 {
		c.list = slices.Delete(c.list, i, i+1)
		return true, false
	}
	return true, true
}

func (c *hostCounts) has(id uint32) bool {
	_, ok := c.find(id)
	return ok
}

// sameHosts reports whether both have the same hosts, however many of each.
func (c *hostCounts) sameHosts(d *hostCounts) bool {
	return slices.EqualFunc(c.list, d.list, func(a, b hostCount) bool { return a.id == b.id })
}

// appendText appends a text that tells which hosts there are.
func (c *hostCounts) appendText(to []byte) []byte {
	for i := range c.list {
		to = binary.NativeEndian.AppendUint32(to, c.list[i].id)
	}
	return to
}

// snapshot returns the ids, sorted.
func (c *hostCounts) snapshot() []uint32 {
	out := make([]uint32, len(c.list))
	for i := range c.list {
		out[i] = c.list[i].id
	}
	return out
}

// spanChange records how the span of something differs from that of the last Commit. Most have no
// change to record.
type spanChange struct{ *spanRecord }

// spanRecord is either the whole former span, or for each host that came or went whether it was
// there.
type spanRecord struct {
	whole  bool
	former []uint32
	// hosts has the first note of each host, and perhaps later ones.
	hosts []hostBefore
}

// hostBefore is whether a host was there.
type hostBefore struct {
	id  uint32
	was bool
}

// spares are records that nobody needs any more, for those that will.
type spares struct{ records []*spanRecord }

// maxSpare is the number of records that are kept, and the length up to which their lists are.
const maxSpare = 64

func (s *spares) take() *spanRecord {
	if n := len(s.records); n > 0 {
		r := s.records[n-1]
		s.records = s.records[:n-1]
		return r
	}
	return &spanRecord{hosts: make([]hostBefore, 0, 2)}
}

func (s *spares) give(r *spanRecord) {
	if cap(r.hosts) <= maxSpare && len(s.records) < maxSpare {
		*r = spanRecord{hosts: r.hosts[:0]}
		s.records = append(s.records, r)
	}
}

// first sorts the notes and leaves the first of each host.
func (r *spanRecord) first() []hostBefore {
	slices.SortStableFunc(r.hosts, func(a, b hostBefore) int { return cmp.Compare(a.id, b.id) })
	return slices.CompactFunc(r.hosts, func(a, b hostBefore) bool { return a.id == b.id })
}

// begin makes sure that there is a record, and reports whether it is of the whole former span.
func (s *spanChange) begin(from *spares) (whole bool) {
	if s.spanRecord == nil {
		s.spanRecord = from.take()
	}
	return s.whole
}

// keep records the whole span before a change that is not host by host.
func (s *spanChange) keep(from *spares, now *hostCounts) {
	if s.begin(from) {
		return
	}
	s.former = now.snapshot()
	for _, note := range s.first() {
		i, has := slices.BinarySearch(s.former, note.id)
		if note.was && !has {
			s.former = slices.Insert(s.former, i, note.id)
		} else if !note.was && has {
			s.former = slices.Delete(s.former, i, i+1)
		}
	}
	s.whole, s.hosts = true, s.hosts[:0]
}

// flip records that a host came or went.
func (s *spanChange) flip(from *spares, id uint32, was bool) {
	if s.begin(from) {
		return
	}
	s.hosts = append(s.hosts, hostBefore{id, was})
}

// take returns the difference to the present span and forgets it.
func (s *spanChange) take(to *spares, hosts hostTable, now *hostCounts) (added, removed []string) {
	if s.spanRecord == nil {
		return nil, nil
	}
	if s.whole {
		added, removed = hosts.difference(s.former, now)
	} else {
		for _, note := range s.first() {
			switch is := now.has(note.id); {
			case is && !note.was:
				added = append(added, hosts[note.id].key)
			case note.was && !is:
				removed = append(removed, hosts[note.id].key)
			}
		}
		slices.Sort(added)
		slices.Sort(removed)
	}
	to.give(s.spanRecord)
	*s = spanChange{}
	return added, removed
}
