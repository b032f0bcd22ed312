package watchstore

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/nephele-io/nephele/internal/table"
)

// ErrNotReady is the error of List and Get before the first Publish. ErrExpired is that of Resume:
// the receiver must begin anew.
var (
	ErrNotReady = errors.New("policies are not computed yet")
	ErrExpired  = errors.New("the store has moved on from this position")
)

// DefaultMaxPending and DefaultMaxEventBytes are the values of Options that are 0.
const (
	DefaultMaxPending    = 100_000
	DefaultMaxEventBytes = 8 << 20
)

// Options configure a Store.
type Options struct {
	// MaxPending is the number of changed objects by which a receiver may fall behind before it is
	// cut off; what a watch begins with does not count. 0 means DefaultMaxPending.
	MaxPending int
	// MaxEventBytes bounds the members in one event, by their estimated size in JSON: what goes
	// beyond follows in further events. 0 means DefaultMaxEventBytes; clients refuse more than 16
	// MiB.
	MaxEventBytes int
	// FirstRevision is the revision before the first Publish. A store that takes the place of
	// another one, in the eyes of the same receivers, is given one that the former never reached,
	// such as the time in microseconds.
	FirstRevision uint64
}

// Store is the store. See the package comment for its contract; use New.
type Store struct {
	maxPending, maxEventBytes int

	// publishing is held by the one Publish that is under way, until it has woken those it told
	// something: while they are still at it, they would only wait for mu.
	publishing sync.Mutex
	toWake     []*Watcher

	mu       sync.RWMutex
	ready    bool
	revision uint64
	born     uint64 // age of the last object
	registry *registry
	tables   [kinds]*objects
	versions versions
	// entries are made many at a time before the store is open: what there is at the beginning is
	// most of what there ever is.
	entries []entry

	// unread counts the objects that watches begin with and have not delivered, due the changed
	// objects that all watches together have not delivered; rendered are the objects that are kept
	// as receivers get them, for the others that need them.
	unread atomic.Int64
	due    atomic.Int64
	// attendance gets watches on policies that begin.
	attendance atomic.Pointer[func(key string)]
	published  atomic.Uint64 // set last: due counts all that it brought
	rendering  sync.Mutex
	rendered   []*entry
	// runs have pieces that are kept like these.
	runs []*run
}

// objects holds the objects of one kind, by name, and the watchers of all of them.
type objects struct {
	resource Resource
	kind     int
	entries  table.Table[entry]
	all      []*Watcher
	// count is the number of all watches on the kind.
	count int
}

// named returns the object of that name; nil if there is none.
func (t *objects) named(name string) *entry {
	if t.entries.Len() == 0 { // the first Hash of a Table changes it, and readers hold no lock for that
		return nil
	}
	return t.found(name, t.entries.Hash(name))
}

func (t *objects) found(name string, hash uint32) *entry {
	return t.entries.Find(hash, func(e *entry) bool { return e.name == name })
}

// New returns an empty store that waits for its first Publish.
func New(o Options) *Store {
	if o.MaxPending == 0 {
		o.MaxPending = DefaultMaxPending
	}
	if o.MaxEventBytes == 0 {
		o.MaxEventBytes = DefaultMaxEventBytes
	}
	s := &Store{maxPending: o.MaxPending, maxEventBytes: o.MaxEventBytes, revision: o.FirstRevision, registry: newRegistry()}
	s.published.Store(o.FirstRevision)
	for kind, r := range Resources() {
		s.tables[kind] = &objects{resource: r, kind: kind}
	}
	return s
}

// Publish applies the changes as one step and passes them to all watchers. The first call opens the
// store; it must bring everything that is known, even if that is nothing. It does not block on any
// receiver. It returns how many watches it told something, once for each object; what a watch
// begins with does not count.
func (s *Store) Publish(c Changes) (told int) {
	return s.PublishParts(func(yield func(Changes) bool) { yield(c) })
}

// PublishParts is Publish of changes that are made part by part, so that a great many need not be
// there at once. Nobody sees less than all of them. An address group must not come behind an
// applied-to group, nor either behind a policy. What a part lists is kept, the lists of changes
// themselves may be used again for the next part.
func (s *Store) PublishParts(parts iter.Seq[Changes]) (told int) {
	s.publishing.Lock()
	defer s.publishing.Unlock()
	told = s.publish(parts)
	for _, w := range s.toWake {
		w.signal()
	}
	clear(s.toWake)
	s.toWake = s.toWake[:0]
	return told
}

// Expect makes room for so many objects of each kind, before the first Publish brings them.
func (s *Store) Expect(policies, addressGroups, appliedToGroups int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ready {
		return
	}
	for kind, n := range [kinds]int{addressGroups, appliedToGroups, policies} {
		s.tables[kind].entries.Grow(n)
	}
}

// notify has a receiver woken when the publication that is under way is over.
func (s *Store) notify(w *Watcher) {
	if w.notified != s.revision {
		w.notified = s.revision
		s.toWake = append(s.toWake, w)
	}
}

func (s *Store) publish(parts iter.Seq[Changes]) (told int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer func() { s.published.Store(s.revision) }()
	s.trimRendered()
	p := publication{Store: s}
	begun := false
	if !s.ready {
		s.revision++
		begun = true
	}
	for c := range parts {
		if !begun && !c.Empty() {
			s.revision++
			begun = true
		}
		p.change(&c)
	}
	for _, w := range p.late {
		if w.ended != nil {
			s.forget(w)
		}
	}
	if s.ready {
		return p.told
	}
	s.ready, s.entries = true, nil
	// Keys that came one after the other mostly have objects in common. Receivers are woken in this
	// order, so that one finds made what the one before it was given.
	keys := slices.SortedFunc(maps.Values(s.registry.keys), func(a, b *key) int { return cmp.Compare(a.id, b.id) })
	for _, t := range s.tables {
		for _, w := range t.all {
			w.beginWith(t)
		}
		for _, k := range keys {
			for _, w := range k.watchers[t.kind] {
				w.beginWith(t)
			}
		}
	}
	return 0
}

// Watch begins to watch a kind with the given enforcer key, or with an empty key everything. The
// receiver must call Stop when it has had enough. It fails for a resource that does not exist.
func (s *Store) Watch(r Resource, key string) (*Watcher, error) {
	kind, ok := r.index()
	if !ok {
		return nil, fmt.Errorf("watch %q: no such resource, want one of %v", r, Resources())
	}
	defer s.attend(r, key) // after the lock is given back
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.admit(s.tables[kind], key)
	if s.ready {
		w.beginWith(s.tables[kind])
	}
	return w, nil
}

// Resume is Watch for a receiver that holds what concerned the key at a position: it delivers the
// bookmark and then what changes. It fails with ErrExpired if that is not where the store stands,
// or no position at all.
func (s *Store) Resume(r Resource, key, position string) (*Watcher, error) {
	kind, ok := r.index()
	if !ok {
		return nil, fmt.Errorf("watch %q: no such resource, want one of %v", r, Resources())
	}
	resumed := false
	defer func() {
		if resumed {
			s.attend(r, key)
		}
	}()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.ready || position != Position(s.revision) {
		return nil, ErrExpired
	}
	w := s.admit(s.tables[kind], key)
	resumed = true
	w.begin(nil, nil)
	return w, nil
}

// admit adds a watcher to a table. It needs the store locked for writing.
func (s *Store) admit(t *objects, name string) *Watcher {
	w := &Watcher{store: s, resource: t.resource, kind: t.kind, name: name, wake: make(chan struct{}, 1)}
	t.count++
	if name == "" {
		t.all = append(t.all, w)
		return w
	}
	w.key = s.registry.named(name)
	w.key.watchers[t.kind] = append(w.key.watchers[t.kind], w)
	return w
}

// forget takes a watcher out of its table. It needs the store locked for writing.
func (s *Store) forget(w *Watcher) {
	t := s.tables[w.kind]
	list := &t.all
	if w.key != nil {
		list = &w.key.watchers[w.kind]
	}
	i := slices.Index(*list, w)
	if i < 0 {
		return
	}
	t.count--
	*list = slices.Delete(*list, i, i+1)
	if w.key != nil {
		s.registry.drop(w.key)
	}
}

// Watchers returns the number of watches on a kind.
func (s *Store) Watchers(r Resource) int {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if kind, ok := r.index(); ok {
		return s.tables[kind].count
	}
	return 0
}

// Progress returns the revision that was published last, and by how many changed objects its
// receivers are behind it, all together. It never waits, and may be called after every event.
func (s *Store) Progress() (revision uint64, behind int) {
	revision = s.published.Load()
	return revision, int(s.due.Load())
}

// beginWith has the watch begin with what there is now. It needs the store locked for writing.
func (w *Watcher) beginWith(t *objects) {
	if w.key != nil {
		w.begin(w.key.view(t.kind))
		return
	}
	all := slices.AppendSeq(make([]*entry, 0, t.entries.Len()), t.entries.All())
	slices.SortFunc(all, func(a, b *entry) int { return cmp.Compare(a.age, b.age) })
	w.begin(all, nil)
}

// List returns what concerns the key, as a watch with that key would have it, sorted by name, and
// the revision of the store. The elements are *v1beta2.NetworkPolicy, *v1beta2.AddressGroup or
// *v1beta2.AppliedToGroup.
func (s *Store) List(r Resource, key string) ([]runtime.Object, uint64, error) {
	kind, ok := r.index()
	if !ok {
		return nil, 0, fmt.Errorf("list %q: no such resource, want one of %v", r, Resources())
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	if !s.ready {
		return nil, 0, ErrNotReady
	}
	var found []*entry
	if k := s.registry.keys[key]; key == "" {
		found = slices.Collect(s.tables[kind].entries.All())
	} else if k != nil {
		for _, p := range k.spans {
			if !p.gone {
				found = append(found, p.concerned[kind].list...)
			}
		}
	}
	slices.SortFunc(found, func(a, b *entry) int { return strings.Compare(a.name, b.name) })
	out := make([]runtime.Object, len(found))
	for i, e := range found {
		out[i], _ = s.whole(e, key, math.MaxInt)
	}
	return out, s.revision, nil
}

// Names returns the names of all objects, sorted.
func (s *Store) Names(r Resource) ([]string, error) {
	kind, ok := r.index()
	if !ok {
		return nil, fmt.Errorf("list %q: no such resource, want one of %v", r, Resources())
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	if !s.ready {
		return nil, ErrNotReady
	}
	var names []string
	for e := range s.tables[kind].entries.All() {
		names = append(names, e.name)
	}
	slices.Sort(names)
	return names, nil
}

// Concerns reports whether the object of that name concerns the key.
func (s *Store) Concerns(r Resource, name, key string) bool {
	kind, ok := r.index()
	if !ok {
		return false
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	e, k := s.tables[kind].named(name), s.registry.keys[key]
	return e != nil && k != nil && e.span.has(k)
}

// Get returns the whole of one object, or false if there is none of that name.
func (s *Store) Get(r Resource, name string) (runtime.Object, bool, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if !s.ready {
		return nil, false, ErrNotReady
	}
	kind, ok := r.index()
	if !ok {
		return nil, false, fmt.Errorf("get %q: no such resource, want one of %v", r, Resources())
	}
	e := s.tables[kind].named(name)
	if e == nil {
		return nil, false, nil
	}
	object, _ := s.whole(e, "", math.MaxInt)
	return object, true, nil
}

// shared returns the event of a policy or an address group as all receivers get it, and the last
// member in it if there are more. It needs the store locked for reading.
func (s *Store) shared(t watch.EventType, e *entry) (event Event, last Member) {
	event = Event{Type: t, header: s.headerOf(e)}
	few := len(e.span.keys) <= fewKeys
	if e.policy != nil && few {
		event.body = e.policy
		return event, nil
	}
	r := s.keep(&event.header, func() *rendering {
		r := &rendering{revision: e.revision, policy: e.policy, few: few}
		if e.policy == nil {
			r.members, _ = e.members.borrow(s.maxEventBytes)
		}
		return r
	})
	event.body = r
	switch x := r.ready(); {
	case r.policy == nil && r.members == nil: // nothing to make it from later
		x = r.whole(func() (runtime.Object, Member) { return s.whole(e, "", s.maxEventBytes) })
		event.body, last = x, x.last
	case x != nil:
		event.body = x
	}
	return event, last
}

// keep returns what all receivers of an object share at the version of a header: what is there
// already, or what it makes. It keeps that for the others, unless the object has changed meanwhile.
func (s *Store) keep(h *header, build func() *rendering) *rendering {
	var made *rendering
	for {
		kept := h.entry.shared.Load()
		if kept != nil && kept.revision == h.version.revision {
			return kept
		}
		if made == nil {
			made = build()
		}
		if kept != nil && kept.revision > made.revision {
			return made
		}
		if h.entry.shared.CompareAndSwap(kept, made) {
			s.rendering.Lock()
			defer s.rendering.Unlock()
			s.rendered = table.Append(s.rendered, h.entry)
			return made
		}
	}
}

// sharedPerUnread bounds what is kept as receivers get it: so many objects for each object that a
// watcher has yet to read of its initial list. The bound matters if one of them reads slowly while
// much changes.
const sharedPerUnread = 8

// trimRendered gives up what was rendered, unless there are watches that are still to receive most
// objects. What somebody needs after all is rendered again.
func (s *Store) trimRendered() {
	s.rendering.Lock()
	defer s.rendering.Unlock()
	kept := int64(len(s.rendered) + min(len(s.runs), 1))
	if kept <= sharedPerUnread*s.unread.Load() {
		return
	}
	for i, r := range s.runs {
		r.forget()
		s.runs[i] = nil
	}
	s.runs = s.runs[:0]
	for i, e := range s.rendered {
		e.shared.Store(nil)
		s.rendered[i] = nil
	}
	s.rendered = s.rendered[:0]
}
