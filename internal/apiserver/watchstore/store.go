package watchstore

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
)

// ErrNotReady is the error of List and Get before the first Publish. ErrExpired is that of Resume: the receiver must begin
// anew.
var (
	ErrNotReady = errors.New("policies are not computed yet")
	ErrExpired  = errors.New("the store has moved on from this position")
)

// DefaultMaxPending is Options.MaxPending when that is 0.
const DefaultMaxPending = 100_000

// Options configure a Store.
type Options struct {
	// MaxPending is the number of changed objects by which a receiver may fall behind before it is cut off; what a watch
	// begins with does not count. 0 means DefaultMaxPending.
	MaxPending int
	// FirstRevision is the revision before the first Publish. A store that takes the place of another one, in the eyes of
	// the same receivers, is given one that the former never reached, such as the time in microseconds.
	FirstRevision uint64
}

// Store is the store. See the package comment for its contract; use New.
type Store struct {
	maxPending int

	mu       sync.RWMutex
	ready    bool
	revision uint64
	tables   map[Resource]*table
}

// table holds the objects of one kind and those who watch them.
type table struct {
	resource Resource
	entries  map[string]entry
	// concerned are the names of the objects that concern a key.
	concerned map[string]sets.Set[string]
	watchers  map[string]sets.Set[*Watcher]
	count     int
}

// New returns an empty store that waits for its first Publish.
func New(o Options) *Store {
	if o.MaxPending == 0 {
		o.MaxPending = DefaultMaxPending
	}
	s := &Store{maxPending: o.MaxPending, revision: o.FirstRevision, tables: map[Resource]*table{}}
	for _, r := range Resources() {
		s.tables[r] = &table{resource: r, entries: map[string]entry{}, concerned: map[string]sets.Set[string]{}, watchers: map[string]sets.Set[*Watcher]{}}
	}
	return s
}

// Publish applies the changes as one step and tells everybody who watches. The first call opens the store; it must bring
// everything that is known, also if that is nothing. It does not block on any receiver.
func (s *Store) Publish(c Changes) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !c.Empty() || !s.ready {
		s.revision++
	}
	// What rules refer to comes before the rules, and goes after them.
	for _, g := range c.AddressGroups {
		s.changeGroup(s.tables[AddressGroups], g)
	}
	for _, g := range c.AppliedToGroups {
		s.changeGroup(s.tables[AppliedToGroups], g)
	}
	for _, p := range c.Policies {
		s.changePolicy(s.tables[NetworkPolicies], p)
	}
	if s.ready {
		return
	}
	s.ready = true
	for _, t := range s.tables {
		for _, set := range t.watchers {
			for w := range set {
				w.begin(t.view(w.key), s.revision)
			}
		}
	}
}

func (s *Store) changePolicy(t *table, c PolicyChange) {
	p := *c.Policy
	p.ResourceVersion = formatRevision(s.revision)
	old, _ := t.entries[p.Name].(*policyEntry)
	next := &policyEntry{policy: &p, span: sets.New[string]()}
	if old != nil {
		next.span = old.span
	}
	before := next.span.Clone()
	next.span.Insert(c.SpanAdded...)
	next.span.Delete(c.SpanRemoved...)
	t.index(p.Name, c.SpanAdded, c.SpanRemoved)
	if c.Removed {
		t.index(p.Name, nil, next.span.UnsortedList())
		next.span = sets.New[string]()
		delete(t.entries, p.Name)
	} else {
		t.entries[p.Name] = next
	}
	s.tell(t, transition{
		name: p.Name, entry: next, existed: old != nil, exists: !c.Removed, before: before, after: next.span,
	})
}

func (s *Store) changeGroup(t *table, c GroupChange) {
	e, existed := t.entries[c.Name].(*groupEntry)
	if !existed {
		e = newGroupEntry(t.resource, c.Name)
	}
	e.uid, e.revision = c.UID, s.revision
	before := e.span.Clone()
	e.span.Insert(c.SpanAdded...)
	e.span.Delete(c.SpanRemoved...)
	tr := transition{name: c.Name, entry: e, existed: existed, exists: !c.Deleted, before: before, after: e.span}
	t.index(c.Name, c.SpanAdded, c.SpanRemoved)
	if c.Deleted {
		t.index(c.Name, nil, e.span.UnsortedList())
		e.span = sets.New[string]()
		tr.after = e.span
		delete(t.entries, c.Name)
	} else {
		tr.diff = newGroupDiff(e, e.apply(c.Added, c.Removed))
		e.shared.Store(nil)
		t.entries[c.Name] = e
	}
	s.tell(t, tr)
}

// transition is what happened to one object.
type transition struct {
	name            string
	entry           entry
	existed, exists bool
	before, after   sets.Set[string]
	// diff is nil for policies and for objects that are gone.
	diff *groupDiff
}

// tell passes a transition to everybody whom it concerns.
func (s *Store) tell(t *table, tr transition) {
	if !s.ready || t.count == 0 {
		return
	}
	s.tellKey(t, "", tr, tr.existed, tr.exists)
	// The shorter of the two lists: the keys that are watched, or the keys that are concerned.
	if len(t.watchers) <= len(tr.before)+len(tr.after) {
		for key := range t.watchers {
			if key != "" {
				s.tellKey(t, key, tr, tr.before.Has(key), tr.after.Has(key))
			}
		}
		return
	}
	for key := range tr.after {
		s.tellKey(t, key, tr, tr.before.Has(key), true)
	}
	for key := range tr.before {
		if !tr.after.Has(key) {
			s.tellKey(t, key, tr, true, false)
		}
	}
}

// tellKey passes a transition to those who watch with a key, which the object concerned before (had) or concerns now (has).
func (s *Store) tellKey(t *table, key string, tr transition, had, has bool) {
	set := t.watchers[key]
	if len(set) == 0 || (!had && !has) {
		return
	}
	var patch *memberPatch
	if had && has && tr.diff != nil {
		if patch = tr.diff.patch(key); patch.empty() {
			return
		}
	}
	for w := range set {
		var err error
		switch {
		case !had:
			err = w.entered(tr.name)
		case !has:
			err = w.left(tr.name, tr.entry.tombstone())
		default:
			err = w.changed(tr.name, patch)
		}
		if err != nil {
			s.forget(t, w)
		}
	}
}

// Watch begins to watch a kind with the given enforcer key, or with an empty key everything. The receiver must call
// Stop when it has had enough. It fails for a resource that does not exist.
func (s *Store) Watch(r Resource, key string) (*Watcher, error) {
	t, ok := s.tables[r]
	if !ok {
		return nil, fmt.Errorf("watch %q: no such resource, want one of %v", r, Resources())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.admit(t, key)
	if s.ready {
		w.begin(t.view(key), s.revision)
	}
	return w, nil
}

// Resume is Watch for a receiver that holds what concerned the key at a position: it delivers the bookmark and then what
// changes. It fails with ErrExpired if that is not where the store stands, or no position at all.
func (s *Store) Resume(r Resource, key, position string) (*Watcher, error) {
	t, ok := s.tables[r]
	if !ok {
		return nil, fmt.Errorf("watch %q: no such resource, want one of %v", r, Resources())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.ready || position != Position(s.revision) {
		return nil, ErrExpired
	}
	w := s.admit(t, key)
	w.begin(nil, s.revision)
	return w, nil
}

// admit adds a watcher to a table. It needs the store locked for writing.
func (s *Store) admit(t *table, key string) *Watcher {
	w := newWatcher(s, t.resource, key)
	if t.watchers[key] == nil {
		t.watchers[key] = sets.New[*Watcher]()
	}
	t.watchers[key].Insert(w)
	t.count++
	return w
}

// Watchers returns the number of watches on a kind.
func (s *Store) Watchers(r Resource) int {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if t, ok := s.tables[r]; ok {
		return t.count
	}
	return 0
}

// forget takes a watcher out of its table. It needs the store locked for writing.
func (s *Store) forget(t *table, w *Watcher) {
	set := t.watchers[w.key]
	if !set.Has(w) {
		return
	}
	set.Delete(w)
	if len(set) == 0 {
		delete(t.watchers, w.key)
	}
	t.count--
}

// view lists the names of what concerns key, sorted.
func (t *table) view(key string) []string {
	names := make([]string, 0, len(t.concerned[key]))
	if key == "" {
		names = slices.AppendSeq(names, maps.Keys(t.entries))
	} else {
		names = slices.AppendSeq(names, maps.Keys(t.concerned[key]))
	}
	slices.SortFunc(names, strings.Compare)
	return names
}

// index notes which keys an object begins and ceases to concern.
func (t *table) index(name string, added, removed []string) {
	for _, key := range added {
		if t.concerned[key] == nil {
			t.concerned[key] = sets.New[string]()
		}
		t.concerned[key].Insert(name)
	}
	for _, key := range removed {
		if names := t.concerned[key]; names.Has(name) {
			if names.Delete(name); len(names) == 0 {
				delete(t.concerned, key)
			}
		}
	}
}

// List returns what concerns the key, as a watch with that key would have it, sorted by name, and the revision of the
// store. The elements are *v1beta2.NetworkPolicy, *v1beta2.AddressGroup or *v1beta2.AppliedToGroup.
func (s *Store) List(r Resource, key string) ([]runtime.Object, uint64, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	t, ok := s.tables[r]
	if !ok {
		return nil, 0, fmt.Errorf("list %q: no such resource, want one of %v", r, Resources())
	}
	if !s.ready {
		return nil, 0, ErrNotReady
	}
	names := t.view(key)
	out := make([]runtime.Object, len(names))
	for i, name := range names {
		out[i] = t.entries[name].whole(key)
	}
	return out, s.revision, nil
}

// Get returns the whole of one object, or false if there is none of that name.
func (s *Store) Get(r Resource, name string) (runtime.Object, bool, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if !s.ready {
		return nil, false, ErrNotReady
	}
	t, ok := s.tables[r]
	if !ok {
		return nil, false, fmt.Errorf("get %q: no such resource, want one of %v", r, Resources())
	}
	e, ok := t.entries[name]
	if !ok {
		return nil, false, nil
	}
	return e.whole(""), true, nil
}

// emptyObject is the object of a BOOKMARK.
func emptyObject(r Resource, revision uint64) runtime.Object {
	switch r {
	case AddressGroups:
		o := &v1beta2.AddressGroup{}
		o.ResourceVersion = Position(revision)
		return o
	case AppliedToGroups:
		o := &v1beta2.AppliedToGroup{}
		o.ResourceVersion = Position(revision)
		return o
	default:
		o := &v1beta2.NetworkPolicy{}
		o.ResourceVersion = Position(revision)
		return o
	}
}
