package policy

import (
	"strings"
	"unsafe"
)

// arena says how values are made: before the first Commit many at a time, for what there is at the
// beginning is most of what there ever is, and the garbage collector goes through one large piece
// of memory faster than through many small ones. A slab is kept as long as any value in it is, so
// what comes later is made one by one.
type arena struct {
	closed bool
	texts  *strings.Builder
}

// open reports whether values are made many at a time.
func (a *arena) open() bool { return !a.closed }

// close ends the making of many values at a time.
func (a *arena) close() { *a = arena{closed: true} }

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
func one[T any](all *arena, s *slab[T]) *T {
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
func roomFor[T any](all *arena, s *slab[T], n int) []T {
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

// text makes a text.
func (a *arena) text(b []byte) string {
	if a.closed || len(b) > slabBytes/64 {
		return string(b)
	}
	if a.texts == nil || a.texts.Cap()-a.texts.Len() < len(b) {
		a.texts = &strings.Builder{}
		a.texts.Grow(slabBytes)
	}
	begin := a.texts.Len()
	a.texts.Write(b)
	return a.texts.String()[begin:]
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
