package ruleset

import (
	"iter"
	"maps"
)

// Layered is a map of which many versions are held, each with few differences from the one before
// it: versions share what they have in common. Get costs two lookups, and Next one copy of the
// differences. A nil Layered is empty, and may only be read.
//
// Reading is safe for concurrent use. Only a version that Next or NewLayered has returned may be
// changed, and only until it is handed on or Next is called on it.
type Layered[K comparable, V any] struct {
	// base is shared unless own is set. over are the differences from it.
	base map[K]V
	own  bool
	over map[K]layer[V]
	size int
}

// layer is a difference: another value, or none.
type layer[V any] struct {
	value V
	there bool
}

// mostOver is what part of a version may differ from its base: one of as many, and fewDifferences
// at least. What has more gets a base of its own.
const (
	mostOver       = 16
	fewDifferences = 64
)

// NewLayered returns a version with the entries of a map, which it takes over.
func NewLayered[K comparable, V any](of map[K]V) *Layered[K, V] {
	if of == nil {
		of = map[K]V{}
	}
	return &Layered[K, V]{base: of, own: true, size: len(of)}
}

// Next returns a version with the same entries, which may be changed. The receiver may not be
// changed any more.
func (l *Layered[K, V]) Next() *Layered[K, V] {
	if l == nil {
		return NewLayered[K, V](nil)
	}
	if len(l.over) > fewDifferences && len(l.over)*mostOver > len(l.base) {
		return NewLayered(maps.Collect(l.All()))
	}
	return &Layered[K, V]{base: l.base, over: maps.Clone(l.over), size: l.size}
}

// Get returns the value of a key, and whether there is one.
func (l *Layered[K, V]) Get(key K) (V, bool) {
	if l == nil {
		var none V
		return none, false
	}
	if x, differs := l.over[key]; differs {
		return x.value, x.there
	}
	value, there := l.base[key]
	return value, there
}

// At returns the value of a key; the zero value for none.
func (l *Layered[K, V]) At(key K) V {
	value, _ := l.Get(key)
	return value
}

// Len returns how many entries there are.
func (l *Layered[K, V]) Len() int {
	if l == nil {
		return 0
	}
	return l.size
}

// All returns the entries, in no order.
func (l *Layered[K, V]) All() iter.Seq2[K, V] {
	return func(yield func(K, V) bool) {
		if l == nil {
			return
		}
		for key, value := range l.base {
			if _, differs := l.over[key]; !differs && !yield(key, value) {
				return
			}
		}
		for key, x := range l.over {
			if x.there && !yield(key, x.value) {
				return
			}
		}
	}
}

// Set gives a key a value.
func (l *Layered[K, V]) Set(key K, value V) { l.put(key, layer[V]{value, true}) }

// Delete removes a key.
func (l *Layered[K, V]) Delete(key K) { l.put(key, layer[V]{}) }

func (l *Layered[K, V]) put(key K, x layer[V]) {
	if _, was := l.Get(key); was {
		l.size--
	}
	if x.there {
		l.size++
	}
	switch {
	case !l.own:
		if l.over == nil {
			l.over = map[K]layer[V]{}
		}
		l.over[key] = x
	case x.there:
		l.base[key] = x.value
	default:
		delete(l.base, key)
	}
}

// Equal reports whether two versions have the same entries.
func (l *Layered[K, V]) Equal(o *Layered[K, V], equal func(V, V) bool) bool {
	if l == o {
		return true
	}
	if l.Len() != o.Len() {
		return false
	}
	for key, value := range l.All() {
		if other, there := o.Get(key); !there || !equal(value, other) {
			return false
		}
	}
	return true
}
