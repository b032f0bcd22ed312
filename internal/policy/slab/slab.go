package slab

import (
	"strings"
	"unsafe"
)

// Arena says how values are made: before the first Commit many at a time, for what there is at the
// beginning is most of what there ever is, and the garbage collector goes through one large piece
// of memory faster than through many small ones. A slab is kept as long as any value in it is, so
// what comes later is made one by one.
type Arena struct {
	closed bool
	texts  *strings.Builder
}

// Open reports whether values are made many at a time.
func (a *Arena) Open() bool { return !a.closed }

// Close ends the making of many values at a time.
func (a *Arena) Close() { *a = Arena{closed: true} }

// Slab makes values of one type. The zero slab has made none.
type Slab[T any] struct{ rest []T }

// slabBytes is how much is made at a time: a size class of the allocator less its header, so that
// hardly anything is left over whatever the size of a value.
const slabBytes = 16<<10 - 8

// fresh is memory for as many values as a slab has.
func (s *Slab[T]) fresh() []T {
	var x T
	return make([]T, slabBytes/unsafe.Sizeof(x))
}

// One makes a value.
func One[T any](all *Arena, s *Slab[T]) *T {
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
func Room[T any](all *Arena, s *Slab[T], n int) []T {
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

// Text makes a text.
func (a *Arena) Text(b []byte) string {
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

// MaxScratch is the length up to which a list is used again.
const MaxScratch = 1024

// scratchOf returns a list, which nobody needs any more, to be used again.
func Scratch[T any](list []T) []T {
	if cap(list) > MaxScratch {
		return nil
	}
	clear(list)
	return list[:0]
}
