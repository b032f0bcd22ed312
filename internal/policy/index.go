package policy

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
	LabelSet() *labelSet
}

// labelIndex holds labelled items and finds those a selector matches.
type labelIndex[T labelled] struct {
	items map[T]struct{}
	// byLabel is nil until somebody looks for a label.
	byLabel map[label]few[T]
	list    []T // instead of the maps while small
}

func (x *labelIndex[T]) insert(item T) {
	if x.items == nil {
		if len(x.list) < smallIndex {
			x.list = append(x.list, item)
			return
		}
		x.items = make(map[T]struct{}, 2*smallIndex)
		for _, old := range x.list {
			x.insert(old)
		}
		x.list = nil
	}
	x.items[item] = struct{}{}
	if x.byLabel != nil {
		x.note(item)
	}
}

// large reports whether the index is no longer a plain list.
func (x *labelIndex[T]) large() bool { return x.items != nil }

// beginIn makes an empty list the place of the first items.
func (x *labelIndex[T]) beginIn(room []T) { x.list = room }

// note enters an item under its labels.
func (x *labelIndex[T]) note(item T) {
	for _, l := range item.LabelSet().pairs {
		at := x.byLabel[l]
		at.insert(item)
		x.byLabel[l] = at
	}
}

func (x *labelIndex[T]) remove(item T) {
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

// each calls f for every item that s matches; a nil s matches all. f must not change the index.
func (x *labelIndex[T]) each(s *selector, f func(T)) {
	if x.items == nil {
		for _, it := range x.list {
			if s == nil || s.matches(it.LabelSet()) {
				f(it)
			}
		}
		return
	}
	if s != nil {
		if anchors := s.anchors(); anchors != nil {
			if x.byLabel == nil {
				x.byLabel = make(map[label]few[T], len(x.items))
				for it := range x.items {
					x.note(it)
				}
			}
			for _, a := range anchors {
				at := x.byLabel[a]
				at.each(func(it T) {
					if s.matches(it.LabelSet()) {
						f(it)
					}
				})
			}
			return
		}
	}
	for it := range x.items {
		if s == nil || s.matches(it.LabelSet()) {
			f(it)
		}
	}
}

// selecting is an item that selects by labels; a nil selector selects everything.
type selecting interface {
	comparable
	LabelSelector() *selector
}

// selectorIndex holds selecting items and finds those that match a label set.
type selectorIndex[T selecting] struct {
	anchored map[label]few[T]
	rest     map[T]struct{}
	list     []T // instead of the maps while small
	large    bool
}

func (x *selectorIndex[T]) insert(item T) {
	if !x.large {
		if len(x.list) < smallIndex {
			x.list = append(x.list, item)
			return
		}
		x.large = true
		x.anchored = make(map[label]few[T])
		x.rest = make(map[T]struct{})
		for _, old := range x.list {
			x.insert(old)
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

// beginIn makes an empty list the place of the first items.
func (x *selectorIndex[T]) beginIn(room []T) { x.list = room }

func (x *selectorIndex[T]) remove(item T) {
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

// each calls f once for every item whose selector matches the labels. f must not change the index.
func (x *selectorIndex[T]) each(set *labelSet, f func(T)) {
	try := func(item T) {
		if s := item.LabelSelector(); s == nil || s.matches(set) {
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

// all calls f for every item. f must not change the index.
func (x *selectorIndex[T]) all(f func(T)) {
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

func anchorsOf(s *selector) []label {
	if s == nil {
		return nil
	}
	return s.anchors()
}
