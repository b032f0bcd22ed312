package watchstore

import (
	"cmp"
	"slices"
)

// key is an enforcer key that something concerns or somebody watches with.
type key struct {
	name string
	// id orders keys within spans. Ids of keys that are gone are used again.
	id uint32
	// spans are those that contain the key, and gone ones that do not: they are thrown out when
	// they are half of the list.
	spans []*span
	gone  int
	// live counts the spans that are not gone.
	live int
	// watchers by kind.
	watchers [kinds][]*Watcher
}

// span is a set of keys that some objects concern. Equal sets are the same span.
type span struct {
	keys []*key // sorted by id
	hash uint64
	// next is another span of the same hash.
	next *span
	// concerned are the objects of each kind, by age.
	concerned [kinds]entryList
	uses      int
	gone      bool
}

// entryList is a list of objects by age. One that a watch reads is not changed any more, but
// replaced.
type entryList struct {
	list   []*entry
	shared bool
	// run is that of the watches that begin with the list.
	run *run
}

func (l *entryList) find(e *entry) (int, bool) {
	if n := len(l.list); n > 0 && l.list[n-1].age < e.age {
		return n, false
	}
	return slices.BinarySearchFunc(l.list, e.age, func(x *entry, age uint64) int { return cmp.Compare(x.age, age) })
}

func (l *entryList) insert(e *entry) {
	i, _ := l.find(e)
	// Readers of a shared list do not see what is behind their end.
	if i < len(l.list) {
		l.own()
	}
	l.list, l.run = slices.Insert(l.list, i, e), nil
}

func (l *entryList) remove(e *entry) {
	if i, ok := l.find(e); ok {
		l.own()
		l.list, l.run = slices.Delete(l.list, i, i+1), nil
	}
}

func (l *entryList) own() {
	if l.shared {
		l.list, l.shared = slices.Clone(l.list), false
	}
}

// share returns the list for a reader that keeps it, and if it is worth it its run.
func (l *entryList) share(kind int) ([]*entry, *run) {
	l.shared = true
	if l.run == nil && len(l.list) > shortRun && Resources()[kind] != AppliedToGroups {
		l.run = newRun(len(l.list))
	}
	return slices.Clip(l.list), l.run
}

// registry holds the keys and the spans.
type registry struct {
	keys    map[string]*key
	freeIDs []uint32
	spans   map[uint64]*span
	empty   *span
}

func newRegistry() *registry {
	return &registry{keys: map[string]*key{}, spans: map[uint64]*span{}, empty: &span{uses: 1}}
}

// named returns the key of a name, which the caller must give something to hold it, or drop.
func (r *registry) named(name string) *key {
	k := r.keys[name]
	if k == nil {
		k = &key{name: name, id: uint32(len(r.keys))}
		if n := len(r.freeIDs); n > 0 {
			k.id, r.freeIDs = r.freeIDs[n-1], r.freeIDs[:n-1]
		}
		r.keys[name] = k
	}
	return k
}

// drop forgets a key that nothing holds.
func (r *registry) drop(k *key) {
	if k.live > 0 {
		return
	}
	for _, w := range k.watchers {
		if len(w) > 0 {
			return
		}
	}
	delete(r.keys, k.name)
	r.freeIDs = append(r.freeIDs, k.id)
}

// changed returns the span that differs from another one by some keys.
func (r *registry) changed(from *span, added, removed []string) *span {
	if len(added)+len(removed) == 0 {
		return from
	}
	keys := make([]*key, 0, len(from.keys)+len(added))
	if len(removed) == 0 {
		keys = append(keys, from.keys...)
	} else {
		out := make(map[string]struct{}, len(removed))
		for _, name := range removed {
			out[name] = struct{}{}
		}
		for _, k := range from.keys {
			if _, ok := out[k.name]; !ok {
				keys = append(keys, k)
			}
		}
	}
	for _, name := range added {
		keys = append(keys, r.named(name))
	}
	slices.SortFunc(keys, func(a, b *key) int { return cmp.Compare(a.id, b.id) })
	return r.of(slices.Compact(keys))
}

// of returns the span of the keys, which are sorted.
func (r *registry) of(keys []*key) *span {
	if len(keys) == 0 {
		return r.empty
	}
	// FNV-1a over the ids.
	hash := uint64(14695981039346656037)
	for _, k := range keys {
		hash = (hash ^ uint64(k.id)) * 1099511628211
	}
	for s := r.spans[hash]; s != nil; s = s.next {
		if slices.Equal(s.keys, keys) {
			return s
		}
	}
	s := &span{keys: slices.Clip(keys), hash: hash, next: r.spans[hash]}
	r.spans[hash] = s
	for _, k := range keys {
		k.spans = append(k.spans, s)
		k.live++
	}
	return s
}

func (s *span) has(k *key) bool {
	_, ok := slices.BinarySearchFunc(s.keys, k.id, func(x *key, id uint32) int { return cmp.Compare(x.id, id) })
	return ok
}

// release gives up one use of a span by an object.
func (r *registry) release(s *span) {
	if s.uses--; s.uses > 0 {
		return
	}
	s.gone = true
	if first := r.spans[s.hash]; first == s {
		if s.next == nil {
			delete(r.spans, s.hash)
		} else {
			r.spans[s.hash] = s.next
		}
	} else {
		for first.next != s {
			first = first.next
		}
		first.next = s.next
	}
	for _, k := range s.keys {
		k.live--
		if k.gone++; k.gone > 16 && k.gone > len(k.spans)/2 {
			k.spans = slices.DeleteFunc(k.spans, func(s *span) bool { return s.gone })
			k.gone = 0
		}
		r.drop(k)
	}
}

// view lists what of a kind concerns the key, by age, with the run of the list if it has one.
func (k *key) view(kind int) ([]*entry, *run) {
	var only *entryList
	n, lists := 0, 0
	for _, s := range k.spans {
		if l := &s.concerned[kind]; !s.gone && len(l.list) > 0 {
			only = l
			n += len(l.list)
			lists++
		}
	}
	if lists == 1 {
		return only.share(kind)
	}
	out := make([]*entry, 0, n)
	for _, s := range k.spans {
		if !s.gone {
			out = append(out, s.concerned[kind].list...)
		}
	}
	slices.SortFunc(out, func(a, b *entry) int { return cmp.Compare(a.age, b.age) })
	return out, nil
}

// eachOfBoth calls f for the keys of two spans, and says which of them contains it.
func eachOfBoth(before, after *span, f func(k *key, had, has bool)) {
	if before == after {
		for _, k := range after.keys {
			f(k, true, true)
		}
		return
	}
	i, j := 0, 0
	for i < len(before.keys) || j < len(after.keys) {
		switch {
		case j == len(after.keys) || (i < len(before.keys) && before.keys[i].id < after.keys[j].id):
			f(before.keys[i], true, false)
			i++
		case i == len(before.keys) || after.keys[j].id < before.keys[i].id:
			f(after.keys[j], false, true)
			j++
		default:
			f(after.keys[j], true, true)
			i++
			j++
		}
	}
}
