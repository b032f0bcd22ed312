package selectors

import "github.com/nephele-io/nephele/internal/table"

// smallIndex is the number of items up to which an index is a plain list: most Namespaces hold a
// handful of label sets and selectors, and maps for each of them would cost more memory than they
// save time.
const smallIndex = 12

// few is a set that mostly has one element, for which a map would be much too large.
type few[T comparable] struct {
	one  T // if not zero, the only one
	many map[T]struct{}
}

func (s *few[T]) insert(item T) {
	var none T
	switch {
	case s.one == item:
	case s.one == none && len(s.many) == 0:
		s.one = item
	default:
		if s.many == nil {
			s.many = make(map[T]struct{}, 2)
		}
		if s.one != none {
			s.many[s.one] = struct{}{}
			s.one = none
		}
		s.many[item] = struct{}{}
	}
}

// remove reports whether nothing is left.
func (s *few[T]) remove(item T) (empty bool) {
	var none T
	if s.one == item {
		s.one = none
	}
	delete(s.many, item)
	return s.one == none && len(s.many) == 0
}

func (s *few[T]) each(f func(T)) {
	var none T
	if s.one != none {
		f(s.one)
	}
	for item := range s.many {
		f(item)
	}
}

// labelled is an item found by selectors.
type labelled interface {
	comparable
	LabelSet() *Set
}

// LabelIndex holds labelled items and finds those a selector matches.
type LabelIndex[T labelled] struct {
	items map[T]struct{}
	// byLabel is nil until somebody looks for a label.
	byLabel map[Label]few[T]
	list    []T // instead of the maps while small
}

func (x *LabelIndex[T]) Insert(item T) {
	if x.items == nil {
		if len(x.list) < smallIndex {
			x.list = append(x.list, item)
			return
		}
		x.items = make(map[T]struct{}, 2*smallIndex)
		for _, old := range x.list {
			x.Insert(old)
		}
		x.list = nil
	}
	x.items[item] = struct{}{}
	if x.byLabel != nil {
		x.note(item)
	}
}

// Large reports whether the index is no longer a plain list.
func (x *LabelIndex[T]) Large() bool { return x.items != nil }

// Few returns the items while they are a plain list.
func (x *LabelIndex[T]) Few() []T { return x.list }

// BeginIn makes an empty list the place of the first items.
func (x *LabelIndex[T]) BeginIn(room []T) { x.list = room }

// note enters an item under its labels.
func (x *LabelIndex[T]) note(item T) {
	for _, l := range item.LabelSet().pairs {
		at := x.byLabel[l]
		at.insert(item)
		x.byLabel[l] = at
	}
}

func (x *LabelIndex[T]) Remove(item T) {
	if x.items == nil {
		x.list = table.Without(x.list, item)
		return
	}
	delete(x.items, item)
	if x.byLabel == nil {
		return
	}
	for _, l := range item.LabelSet().pairs {
		at := x.byLabel[l]
		if at.remove(item) {
			delete(x.byLabel, l)
		} else {
			x.byLabel[l] = at
		}
	}
}

// Each calls f for every item that s matches; a nil s matches all. f must not change the index.
func (x *LabelIndex[T]) Each(s *Selector, f func(T)) {
	if x.items == nil {
		for _, it := range x.list {
			if s == nil || s.Matches(it.LabelSet()) {
				f(it)
			}
		}
		return
	}
	if s != nil {
		if anchors := s.anchors(); anchors != nil {
			if x.byLabel == nil {
				x.byLabel = make(map[Label]few[T], len(x.items))
				for it := range x.items {
					x.note(it)
				}
			}
			for _, a := range anchors {
				at := x.byLabel[a]
				at.each(func(it T) {
					if s.Matches(it.LabelSet()) {
						f(it)
					}
				})
			}
			return
		}
	}
	for it := range x.items {
		if s == nil || s.Matches(it.LabelSet()) {
			f(it)
		}
	}
}

// selecting is an item that selects by labels; a nil selector selects everything.
type selecting interface {
	comparable
	LabelSelector() *Selector
}

// SelectorIndex holds selecting items and finds those that match a label set.
type SelectorIndex[T selecting] struct {
	anchored map[Label]few[T]
	rest     map[T]struct{}
	list     []T // instead of the maps while small
	large    bool
}

func (x *SelectorIndex[T]) Insert(item T) {
	if !x.large {
		if len(x.list) < smallIndex {
			x.list = append(x.list, item)
			return
		}
		x.large = true
		x.anchored = make(map[Label]few[T])
		x.rest = make(map[T]struct{})
		for _, old := range x.list {
			x.Insert(old)
		}
		x.list = nil
	}
	anchors := anchorsOf(item.LabelSelector())
	if anchors == nil {
		x.rest[item] = struct{}{}
		return
	}
	for _, a := range anchors {
		at := x.anchored[a]
		at.insert(item)
		x.anchored[a] = at
	}
}

// BeginIn makes an empty list the place of the first items.
func (x *SelectorIndex[T]) BeginIn(room []T) { x.list = room }

func (x *SelectorIndex[T]) Remove(item T) {
	if !x.large {
		x.list = table.Without(x.list, item)
		return
	}
	delete(x.rest, item)
	for _, a := range anchorsOf(item.LabelSelector()) {
		at := x.anchored[a]
		if at.remove(item) {
			delete(x.anchored, a)
		} else {
			x.anchored[a] = at
		}
	}
}

// Each calls f once for every item whose selector matches the labels. f must not change the index.
func (x *SelectorIndex[T]) Each(set *Set, f func(T)) {
	try := func(item T) {
		if s := item.LabelSelector(); s == nil || s.Matches(set) {
			f(item)
		}
	}
	for _, it := range x.list {
		try(it)
	}
	if !x.large {
		return
	}
	for _, l := range set.pairs {
		at := x.anchored[l]
		at.each(try)
	}
	for it := range x.rest {
		try(it)
	}
}

// All calls f for every item. f must not change the index.
func (x *SelectorIndex[T]) All(f func(T)) {
	for _, it := range x.list {
		f(it)
	}
	for it := range x.rest {
		f(it)
	}
	for a, at := range x.anchored {
		at.each(func(it T) {
			// An item with several anchors stands under each: report it under the first only.
			if anchorsOf(it.LabelSelector())[0] == a {
				f(it)
			}
		})
	}
}

func anchorsOf(s *Selector) []Label {
	if s == nil {
		return nil
	}
	return s.anchors()
}
