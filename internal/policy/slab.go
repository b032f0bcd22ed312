package policy

// slabs are where values are made before the first Commit, many at a time: what there is at the
// beginning is most of what there ever is, and the garbage collector goes through one large piece
// of memory faster than through many small ones. A slab is kept as long as any value in it is. So
// what comes later is made one by one.
type slabs struct {
	closed bool

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
}

// slab makes values of one type. The zero slab has made none.
type slab[T any] struct{ rest []T }

// slabLength is how many values are made at a time.
const slabLength = 64

// one makes a value.
func one[T any](all *slabs, s *slab[T]) *T {
	if all.closed {
		return new(T)
	}
	if len(s.rest) == 0 {
		s.rest = make([]T, slabLength)
	}
	out := &s.rest[0]
	s.rest = s.rest[1:]
	return out
}

// roomFor makes an empty list with room for n values.
func roomFor[T any](all *slabs, s *slab[T], n int) []T {
	if all.closed || n > slabLength/4 {
		return make([]T, 0, n)
	}
	if len(s.rest) < n {
		s.rest = make([]T, slabLength)
	}
	out := s.rest[:0:n]
	s.rest = s.rest[n:]
	return out
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
