package watchstore

import "github.com/nephele-io/nephele/internal/table"

// publication is one Publish under way.
type publication struct {
	*Store
	// spans remembers what changes of spans came to: many objects make the same one, and are given
	// it in the same slices.
	spans map[spanChange]*span
	// numbered are the spans of new objects, by number.
	numbered []*span
	// late are watchers that may have fallen too far behind.
	late []*Watcher
	told int
}

// spanChange identifies a change of a span by where it stands in memory, which it does until the
// publication is over.
type spanChange struct {
	from           *span
	added, removed *string
	more, less     int
}

// start is where a list stands; nil if it is empty.
func start(list []string) *string {
	if len(list) == 0 {
		return nil
	}
	return &list[0]
}

func (p *publication) changedSpan(from *span, added, removed []string) *span {
	if len(added)+len(removed) < 4 {
		return p.registry.changed(from, added, removed)
	}
	c := spanChange{from, start(added), start(removed), len(added), len(removed)}
	to := p.spans[c]
	if to == nil || to.gone {
		to = p.registry.changed(from, added, removed)
		if p.spans == nil {
			p.spans = map[spanChange]*span{}
		}
		p.spans[c] = to
	}
	return to
}

// newSpan returns the span of a new object with a number, unless that is 0.
func (p *publication) newSpan(added []string, number uint32) *span {
	if number == 0 {
		return p.changedSpan(p.registry.empty, added, nil)
	}
	for int(number) >= len(p.numbered) {
		p.numbered = table.Append(p.numbered, nil)
	}
	at := &p.numbered[number]
	if *at == nil || (*at).gone {
		*at = p.registry.changed(p.registry.empty, added, nil)
	}
	return *at
}

// place puts an entry, which is new if its span is nil, where the changes of its span move it, and
// returns its former span. The number is that of the span of a new one.
func (p *publication) place(t *objects, e *entry, added, removed []string, number uint32) (before *span) {
	before = e.span
	var after *span
	if before == nil {
		p.born++
		e.age, before = p.born, p.registry.empty
		after = p.newSpan(added, number)
	} else {
		after = p.changedSpan(before, added, removed)
	}
	if e.span == after {
		return before
	}
	after.uses++
	after.concerned[t.kind].insert(e)
	if e.span != nil {
		e.span.concerned[t.kind].remove(e)
		p.registry.release(e.span)
	}
	e.span = after
	return before
}

// displace takes an entry that is gone out of the store, and returns its former span.
func (p *publication) displace(t *objects, e *entry) (before *span) {
	before, e.span = e.span, p.registry.empty
	before.concerned[t.kind].remove(e)
	t.entries.Remove(t.entries.Hash(e.name), e)
	return before
}

// change applies one part of the changes.
func (p *publication) change(c *Changes) {
	// What rules refer to comes before the rules, and goes after them.
	for i := range c.AddressGroups {
		p.changeGroup(p.tables[0], &c.AddressGroups[i])
	}
	for i := range c.AppliedToGroups {
		p.changeGroup(p.tables[1], &c.AppliedToGroups[i])
	}
	for i := range c.Policies {
		p.changePolicy(p.tables[2], &c.Policies[i])
	}
}

// manyEntries is how many entries are made at a time.
const manyEntries = 64

// newEntry adds an entry whose name, of which it has the hash, is not there.
func (s *Store) newEntry(t *objects, name string, hash uint32) *entry {
	var e *entry
	if s.ready {
		e = &entry{}
	} else {
		if len(s.entries) == 0 {
			s.entries = make([]entry, manyEntries)
		}
		e, s.entries = &s.entries[0], s.entries[1:]
	}
	e.name = name
	t.entries.Insert(hash, e)
	return e
}

func (p *publication) changePolicy(t *objects, c *PolicyChange) {
	name, source := c.source()
	hash := t.entries.Hash(name)
	e := t.found(name, hash)
	existed := e != nil
	if c.Removed {
		if existed {
			e.policy, e.revision = source, p.revision
			before := p.displace(t, e)
			p.tell(t, transition{entry: e, existed: true, before: before, after: p.registry.empty})
			p.registry.release(before)
		}
		return
	}
	if !existed {
		e = p.newEntry(t, name, hash)
	}
	e.policy, e.revision = source, p.revision
	e.shared.Store(nil)
	before := p.place(t, e, c.SpanAdded, c.SpanRemoved, c.SpanNumber)
	p.tell(t, transition{entry: e, existed: existed, exists: true, before: before, after: e.span})
}

func (p *publication) changeGroup(t *objects, c *GroupChange) {
	hash := t.entries.Hash(c.Name)
	e := t.found(c.Name, hash)
	existed := e != nil
	if c.Deleted {
		if existed {
			e.setUID(c.UID)
			e.revision = p.revision
			before := p.displace(t, e)
			p.tell(t, transition{entry: e, existed: true, before: before, after: p.registry.empty})
			p.registry.release(before)
		}
		return
	}
	if !existed {
		e = p.newEntry(t, c.Name, hash)
		e.members.placed = t.resource == AppliedToGroups
	}
	e.setUID(c.UID)
	e.revision = p.revision
	e.shared.Store(nil)
	tr := transition{entry: e, existed: existed, exists: true}
	var touched []touchedMember
	if existed {
		touched = e.members.apply(c.Added, c.Removed)
	} else {
		e.members.fill(c.Added)
	}
	tr.before = p.place(t, e, c.SpanAdded, c.SpanRemoved, c.SpanNumber)
	if tr.after = e.span; existed {
		tr.diff = newGroupDiff(e, touched)
	}
	p.tell(t, tr)
}

// transition is what happened to one object.
type transition struct {
	entry           *entry
	existed, exists bool
	before, after   *span
	// diff is nil for policies and for objects that are new or gone.
	diff *groupDiff
	// tombstone is sent to the watchers that the object does not concern any more; it is made when
	// the first needs it.
	tombstone *tombstone
}

// tell passes a transition to every watcher that it concerns.
func (p *publication) tell(t *objects, tr transition) {
	if !p.ready || t.count == 0 {
		return
	}
	p.tellAll(t.all, "", &tr, tr.existed, tr.exists)
	if t.count == len(t.all) {
		return
	}
	eachOfBoth(tr.before, tr.after, func(k *key, had, has bool) {
		if watchers := k.watchers[t.kind]; len(watchers) > 0 {
			p.tellAll(watchers, k.name, &tr, had, has)
		}
	})
}

// tellAll passes a transition to the watchers with a key, which the object concerned before (had)
// or concerns now (has).
func (p *publication) tellAll(watchers []*Watcher, key string, tr *transition, had, has bool) {
	if len(watchers) == 0 {
		return
	}
	var patch *memberPatch
	if had && has && tr.diff != nil {
		if patch = tr.diff.patch(key); patch.empty() {
			return
		}
	}
	if had && !has && tr.tombstone == nil {
		tr.tombstone = p.tombstoneOf(tr.entry)
	}
	p.told += len(watchers)
	cutOff := false
	for _, w := range watchers {
		var err error
		switch {
		case !had:
			err = w.entered(tr.entry)
		case !has:
			err = w.left(tr.entry, tr.tombstone)
		default:
			err = w.changed(tr.entry, tr.diff, patch)
		}
		cutOff = cutOff || err != nil
	}
	if cutOff {
		p.late = append(p.late, watchers...)
	}
}
