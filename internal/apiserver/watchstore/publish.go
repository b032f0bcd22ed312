package watchstore

// publication is one Publish under way.
type publication struct {
	*Store
	// spans remembers what changes of spans came to: many objects make the same one, and are given
	// it in the same slices.
	spans map[spanChange]*span
	// late are watchers of whom some have fallen too far behind.
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

// place puts an entry, which is new if its span is nil, where the changes of its span move it, and
// returns its former span.
func (p *publication) place(t *objects, e *entry, added, removed []string) (before *span) {
	before = e.span
	if before == nil {
		p.born++
		e.age, before = p.born, p.registry.empty
		t.entries.Insert(t.entries.Hash(e.name), e)
	}
	after := p.changedSpan(before, added, removed)
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

func (s *Store) newEntry(name string) *entry {
	if s.ready {
		return &entry{name: name}
	}
	if len(s.entries) == 0 {
		s.entries = make([]entry, manyEntries)
	}
	e := &s.entries[0]
	s.entries = s.entries[1:]
	e.name = name
	return e
}

func (p *publication) changePolicy(t *objects, c *PolicyChange) {
	name, source := c.source()
	e := t.named(name)
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
		e = p.newEntry(name)
	}
	e.policy, e.revision = source, p.revision
	e.shared.Store(nil)
	before := p.place(t, e, c.SpanAdded, c.SpanRemoved)
	p.tell(t, transition{entry: e, existed: existed, exists: true, before: before, after: e.span})
}

func (p *publication) changeGroup(t *objects, c *GroupChange) {
	e := t.named(c.Name)
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
		e = p.newEntry(c.Name)
		e.members.placed = t.resource == AppliedToGroups
	}
	e.setUID(c.UID)
	e.revision = p.revision
	e.shared.Store(nil)
	tr := transition{entry: e, existed: existed, exists: true}
	if existed {
		tr.diff = newGroupDiff(&e.members, p.revision, e.members.apply(c.Added, c.Removed))
	} else {
		e.members.fill(c.Added)
	}
	tr.before = p.place(t, e, c.SpanAdded, c.SpanRemoved)
	tr.after = e.span
	p.tell(t, tr)
}

// transition is what happened to one object.
type transition struct {
	entry           *entry
	existed, exists bool
	before, after   *span
	// diff is nil for policies and for objects that are new or gone.
	diff *groupDiff
	// tombstone is what those are given whom the object does not concern any more, once somebody
	// is.
	tombstone *rendering
}

// tell passes a transition to everybody whom it concerns.
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

// tellAll passes a transition to those who watch with a key, which the object concerned before
// (had) or concerns now (has).
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
		tr.tombstone = tr.entry.tombstone()
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
