package span

import (
	"cmp"
	"encoding/binary"
	"slices"

	"github.com/nephele-io/nephele/internal/policy/slab"
)

// Host is an enforcer key that entities have.
type Host struct {
	Key string
	// ID is the place in the Engine's table. Ids of hosts without entities are used again after the
	// Commit that forgets them: until then, whatever counts or notes one is brought up to date.
	ID   uint32
	uses int32
}

// hostTable has the hosts by id; nil at ids that are free.
type Table []*Host

// Hosts are the enforcer keys that entities have.
type Hosts struct {
	byKey map[string]*Host
	Table Table // the same by id
	free  []uint32
	// idle are those that may have no entity any more.
	idle []*Host
}

// Use returns the host with a key and counts one more use.
func (hs *Hosts) Use(key string) *Host {
	h := hs.byKey[key]
	if h == nil {
		h = &Host{Key: key, ID: uint32(len(hs.Table))}
		if n := len(hs.free); n > 0 {
			h.ID = hs.free[n-1]
			hs.free = hs.free[:n-1]
			hs.Table[h.ID] = h
		} else {
			hs.Table = append(hs.Table, h)
		}
		if hs.byKey == nil {
			hs.byKey = make(map[string]*Host)
		}
		hs.byKey[key] = h
	}
	h.uses++
	return h
}

// Named returns the host with a key; nil if there is none.
func (hs *Hosts) Named(key string) *Host { return hs.byKey[key] }

// Release gives up a use. Hosts without are forgotten at the end of Commit, when nothing counts
// them any more.
func (hs *Hosts) Release(h *Host) {
	if h.uses--; h.uses == 0 {
		hs.idle = append(hs.idle, h)
	}
}

// ForgetIdle forgets the hosts without entities, when nothing counts them any more.
func (hs *Hosts) ForgetIdle() {
	for _, h := range hs.idle {
		if h.uses == 0 && hs.byKey[h.Key] == h {
			delete(hs.byKey, h.Key)
			hs.Table[h.ID] = nil
			hs.free = append(hs.free, h.ID)
		}
	}
	hs.idle = slab.Scratch(hs.idle)
}

// KeysOf returns the sorted keys of hosts.
func (t Table) KeysOf(ids []uint32) []string {
	if len(ids) == 0 {
		return nil
	}
	out := make([]string, len(ids))
	for i, id := range ids {
		out[i] = t[id].Key
	}
	slices.Sort(out)
	return out
}

// Keys returns the sorted keys of a span.
func (t Table) Keys(c *Counts) []string {
	if len(c.List) == 0 {
		return nil
	}
	out := make([]string, len(c.List))
	for i := range c.List {
		out[i] = t[c.List[i].ID].Key
	}
	slices.Sort(out)
	return out
}

// Difference returns the keys in now but not in before, and the reverse. Both are sorted by id.
func (t Table) Difference(before []uint32, now *Counts) (added, removed []string) {
	i := 0
	for _, c := range now.List {
		for i < len(before) && before[i] < c.ID {
			removed = append(removed, t[before[i]].Key)
			i++
		}
		if i < len(before) && before[i] == c.ID {
			i++
			continue
		}
		added = append(added, t[c.ID].Key)
	}
	for ; i < len(before); i++ {
		removed = append(removed, t[before[i]].Key)
	}
	slices.Sort(added)
	slices.Sort(removed)
	return added, removed
}

// hostCount and hostCounts count something per host, sorted by id. Hosts with a count of zero are
// not in it.
type Count struct {
	ID uint32
	N  int32
}

type Counts struct{ List []Count }

func (c *Counts) find(id uint32) (int, bool) {
	return slices.BinarySearchFunc(c.List, id, func(a Count, id uint32) int { return cmp.Compare(a.ID, id) })
}

// Add changes the count of a host and reports its presence before and after.
func (c *Counts) Add(id uint32, n int32) (before, after bool) {
	i, ok := c.find(id)
	if !ok {
		c.List = slices.Insert(c.List, i, Count{id, n})
		return false, true
	}
	c.List[i].N += n
	if c.List[i].N == 0 {
		c.List = slices.Delete(c.List, i, i+1)
		return true, false
	}
	return true, true
}

func (c *Counts) has(id uint32) bool {
	_, ok := c.find(id)
	return ok
}

// SameHosts reports whether both have the same hosts, however many of each.
func (c *Counts) SameHosts(d *Counts) bool {
	return slices.EqualFunc(c.List, d.List, func(a, b Count) bool { return a.ID == b.ID })
}

// AppendText appends a text that tells which hosts there are.
func (c *Counts) AppendText(to []byte) []byte {
	for i := range c.List {
		to = binary.NativeEndian.AppendUint32(to, c.List[i].ID)
	}
	return to
}

// snapshot returns the ids, sorted.
func (c *Counts) IDs() []uint32 {
	out := make([]uint32, len(c.List))
	for i := range c.List {
		out[i] = c.List[i].ID
	}
	return out
}

// spanChange records how the span of something differs from that of the last Commit. Most have no
// change to record.
type Change struct{ *spanRecord }

// spanRecord is either the whole former span, or for each host that came or went whether it was
// there.
type spanRecord struct {
	whole  bool
	Former []uint32
	// hosts has the first note of each host, and perhaps later ones.
	hosts []hostBefore
}

// hostBefore is whether a host was there.
type hostBefore struct {
	id  uint32
	was bool
}

// Spares are records that nobody needs any more, for those that will.
type Spares struct{ records []*spanRecord }

// maxSpare is the number of records that are kept, and the length up to which their lists are.
const maxSpare = 64

func (s *Spares) take() *spanRecord {
	if n := len(s.records); n > 0 {
		r := s.records[n-1]
		s.records = s.records[:n-1]
		return r
	}
	return &spanRecord{hosts: make([]hostBefore, 0, 2)}
}

func (s *Spares) give(r *spanRecord) {
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
func (s *Change) begin(from *Spares) (whole bool) {
	if s.spanRecord == nil {
		s.spanRecord = from.take()
	}
	return s.whole
}

// Keep records the whole span before a change that is not host by host.
func (s *Change) Keep(from *Spares, now *Counts) {
	if s.begin(from) {
		return
	}
	s.Former = now.IDs()
	for _, note := range s.first() {
		i, has := slices.BinarySearch(s.Former, note.id)
		if note.was && !has {
			s.Former = slices.Insert(s.Former, i, note.id)
		} else if !note.was && has {
			s.Former = slices.Delete(s.Former, i, i+1)
		}
	}
	s.whole, s.hosts = true, s.hosts[:0]
}

// Flip records that a host came or went.
func (s *Change) Flip(from *Spares, id uint32, was bool) {
	if s.begin(from) {
		return
	}
	s.hosts = append(s.hosts, hostBefore{id, was})
}

// Take returns the difference to the present span and forgets it.
func (s *Change) Take(to *Spares, hosts Table, now *Counts) (added, removed []string) {
	if s.spanRecord == nil {
		return nil, nil
	}
	if s.whole {
		added, removed = hosts.Difference(s.Former, now)
	} else {
		for _, note := range s.first() {
			switch is := now.has(note.id); {
			case is && !note.was:
				added = append(added, hosts[note.id].Key)
			case note.was && !is:
				removed = append(removed, hosts[note.id].Key)
			}
		}
		slices.Sort(added)
		slices.Sort(removed)
	}
	to.give(s.spanRecord)
	*s = Change{}
	return added, removed
}
