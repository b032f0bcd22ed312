package policy

import (
	"strings"
	"unsafe"
)

// slabs are where values are made before the first Commit, many at a time: what there is at the
// beginning is most of what there ever is, and the garbage collector goes through one large piece
// of memory faster than through many small ones. A slab is kept as long as any value in it is. So
// what comes later is made one by one.
type slabs struct {
	closed bool

	namespaces slab[namespace]
	kinds      slab[kindIndex]
	groups     slab[group]
	selections slab[selection]
	policies   slab[policyState]
	reaches    slab[reach]
	cells      slab[cell]
	entities   slab[entity]
	members    slab[memberAt]
	sets       slab[labelSet]
	computed   slab[ComputedPolicy]
	rules      slab[ComputedRule]

	names          slab[string]
	pairs          slab[label]
	groupLists     slab[*group]
	policyLists    slab[*policyState]
	entityLists    slab[*entity]
	hostCounts     slab[hostCount]
	cellLinks      slab[cellLink]
	selectionLinks slab[selectionLink]
	texts          *strings.Builder
}

// slab makes values of one type. The zero slab has made none.
type slab[T any] struct{ rest []T }

// slabBytes is how much is made at a time: a size class of the allocator less its header, so that
// hardly anything is left over whatever the size of a value.
const slabBytes = 16<<10 - 8

// fresh is memory for as many values as a slab has.
func (s *slab[T]) fresh() []T {
	var x T
	return make([]T, slabBytes/unsafe.Sizeof(x))
}

// one makes a value.
func one[T any](all *slabs, s *slab[T]) *T {
	if all.closed {
		return new(T)
	}
	if len(s.rest) == 0 {
		s.rest = s.fresh()
	}
	out := &s.rest[0]
	s.rest = s.rest[1:]
	return out
}

// maxRoom is the length of the longest list that is made in a slab.
const maxRoom = 16

// roomFor makes an empty list with room for n values.
func roomFor[T any](all *slabs, s *slab[T], n int) []T {
	if all.closed || n > maxRoom {
		return make([]T, 0, n)
	}
	if len(s.rest) < n {
		s.rest = s.fresh()
	}
	out := s.rest[:0:n]
	s.rest = s.rest[n:]
	return out
}

// textOf makes a text.
func textOf(all *slabs, b []byte) string {
	if all.closed || len(b) > slabBytes/64 {
		return string(b)
	}
	if all.texts == nil || all.texts.Cap()-all.texts.Len() < len(b) {
		all.texts = &strings.Builder{}
		all.texts.Grow(slabBytes)
	}
	begin := all.texts.Len()
	all.texts.Write(b)
	return all.texts.String()[begin:]
}

// maxScratch is the length up to which a list is used again.
const maxScratch = 1024

// scratchOf returns a list, which nobody needs any more, to be used again.
func scratchOf[T any](list []T) []T {
	if cap(list) > maxScratch {
		return nil
	}
	clear(list)
	return list[:0]
}
