// Package table finds values by keys that the values have themselves: a Table is a map of pointers
// that keeps no key. It takes eight bytes a value besides a list of the pointers, none of which the
// garbage collector looks at, and grows without a look at the values.
//
// A Table is not safe for concurrent use. Hash chooses the seed of a Table that never had a value,
// so there it counts as a change; Len, All and Find are none, and Hash of other Tables is none.
package table

import (
	"hash/maphash"
	"iter"
	"slices"
)

// Table is a set of values. The zero Table is empty.
type Table[T any] struct {
	seed  maphash.Seed
	sown  bool
	slots []slot // a power of two of them, some of which are empty
	// filled counts the slots that are not empty, graves included.
	filled int
	// list has the values, with nil at free places.
	list []*T
	free []uint32
}

// slot has a part of the hash of a value's key, and the place of the value in the list with first
// added. Values are found from the slot of their hash on.
type slot struct{ hash, at uint32 }

// What at says of a slot without value: grave that there was one.
const (
	empty uint32 = iota
	grave
	first
)

// smallest is the number of slots that a Table begins with.
const smallest = 16

// Append is append to a list that may become very long: it becomes twice as long when it is full,
// so that less is thrown away on the way than is kept. The built-in one throws away four times as
// much.
func Append[T any](list []T, x T) []T {
	if len(list) == cap(list) {
		list = slices.Grow(list, len(list)+1)
	}
	return append(list, x)
}

// Hash returns what the other methods want to know of a key. Equal keys have the same hash, keys
// with the same hash may differ.
func (t *Table[T]) Hash(key string) uint32 {
	t.sow()
	return uint32(maphash.String(t.seed, key))
}

// HashBytes is Hash of a key in bytes.
func (t *Table[T]) HashBytes(key []byte) uint32 {
	t.sow()
	return uint32(maphash.Bytes(t.seed, key))
}

// sow chooses the seed, so that an attacker cannot choose keys that have the same hash.
func (t *Table[T]) sow() {
	if !t.sown {
		t.seed, t.sown = maphash.MakeSeed(), true
	}
}

// Len returns the number of values.
func (t *Table[T]) Len() int { return len(t.list) - len(t.free) }

// All goes through the values, in the order in which they came unless some have gone. The Table
// must not change meanwhile.
func (t *Table[T]) All() iter.Seq[*T] {
	return func(yield func(*T) bool) {
		for _, x := range t.list {
			if x != nil && !yield(x) {
				return
			}
		}
	}
}

// Find returns the value whose key has that hash and of which is is true; nil if there is none.
func (t *Table[T]) Find(hash uint32, is func(*T) bool) *T {
	if i, ok := t.find(hash, is); ok {
		return t.list[t.slots[i].at-first]
	}
	return nil
}

func (t *Table[T]) find(hash uint32, is func(*T) bool) (int, bool) {
	if len(t.slots) == 0 {
		return 0, false
	}
	for i := t.begin(hash); ; i = t.next(i) {
		s := t.slots[i]
		if s.at == empty {
			return 0, false
		}
		if s.hash == hash && s.at >= first && is(t.list[s.at-first]) {
			return i, true
		}
	}
}

func (t *Table[T]) begin(hash uint32) int { return int(hash) & (len(t.slots) - 1) }

func (t *Table[T]) next(i int) int { return (i + 1) & (len(t.slots) - 1) }

// Insert adds a value whose key has that hash and is not there.
func (t *Table[T]) Insert(hash uint32, x *T) {
	if t.filled >= len(t.slots)/4*3 {
		t.resize()
	}
	at := uint32(len(t.list))
	if n := len(t.free); n > 0 {
		at, t.free = t.free[n-1], t.free[:n-1]
		t.list[at] = x
	} else {
		t.list = Append(t.list, x)
	}
	t.fill(slot{hash, at + first})
}

func (t *Table[T]) fill(s slot) {
	i := t.begin(s.hash)
	for t.slots[i].at != empty {
		i = t.next(i)
	}
	t.slots[i] = s
	t.filled++
}

// Grow makes room for n values more, so that nothing is moved while they come.
func (t *Table[T]) Grow(n int) {
	t.list = slices.Grow(t.list, max(n-len(t.free), 0))
	size := max(len(t.slots), smallest)
	if len(t.slots) == size && t.filled+n <= size/4*3 {
		return
	}
	for size/4*3 < t.Len()+n {
		size *= 2
	}
	t.move(size)
}

// resize makes room, or does away with graves.
func (t *Table[T]) resize() {
	n := max(len(t.slots), smallest)
	if t.Len() >= n/2 {
		n *= 2
	}
	t.move(n)
}

// move puts what there is into another number of slots.
func (t *Table[T]) move(n int) {
	former := t.slots
	t.slots, t.filled = make([]slot, n), 0
	for _, s := range former {
		if s.at >= first {
			t.fill(s)
		}
	}
}

// Remove takes out a value whose key has that hash. It does nothing if the value is not there.
func (t *Table[T]) Remove(hash uint32, x *T) {
	i, ok := t.find(hash, func(y *T) bool { return y == x })
	if !ok {
		return
	}
	at := t.slots[i].at - first
	t.slots[i].at = grave
	t.list[at] = nil
	t.free = append(t.free, at)
}

// Without removes an item from a list whose order does not matter. The list is reused.
func Without[T comparable](list []T, item T) []T {
	i := slices.Index(list, item)
	if i < 0 {
		return list
	}
	last := len(list) - 1
	list[i] = list[last]
	clear(list[last:])
	return list[:last]
}
