package table

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

type named struct{ name string }

// TestTableIsAMap: whatever comes and goes, a Table has what a map has, also where hashes meet.
func TestTableIsAMap(t *testing.T) {
	for _, hashes := range []uint32{1, 3, 1 << 31} { // how many there are
		var table Table[named]
		want := map[string]*named{}
		random := rand.New(rand.NewPCG(1, uint64(hashes)))
		find := func(name string) *named {
			return table.Find(table.Hash(name)%hashes, func(x *named) bool { return x.name == name })
		}
		for range 20_000 {
			name := fmt.Sprint(random.IntN(300))
			if random.IntN(40) == 0 { // now and then few are left
				for _, x := range want {
					if len(want) > 5 {
						table.Remove(table.Hash(x.name)%hashes, x)
						delete(want, x.name)
					}
				}
			}
			if random.IntN(100) == 0 {
				table.Grow(random.IntN(100))
			}
			switch has := want[name]; {
			case find(name) != has:
				t.Fatalf("%s is %v, want %v", name, find(name), has)
			case has == nil:
				want[name] = &named{name}
				table.Insert(table.HashBytes([]byte(name))%hashes, want[name])
			default:
				table.Remove(table.Hash(name)%hashes, &named{name}) // another one of that name
				table.Remove(table.Hash(name)%hashes, has)
				delete(want, name)
			}
			if table.Len() != len(want) {
				t.Fatalf("%d values, want %d", table.Len(), len(want))
			}
		}
		got := map[string]*named{}
		for x := range table.All() {
			got[x.name] = x
		}
		if len(got) != len(want) {
			t.Fatalf("%d of %d values are gone through", len(got), len(want))
		}
		for name, x := range want {
			if got[name] != x || find(name) != x {
				t.Fatalf("%s is lost", name)
			}
		}
		if n := len(table.slots); n > 2048 {
			t.Errorf("%d slots for at most 300 values", n)
		}
	}
}

// TestGrowMovesNothingLater: what a Table was made to have room for comes without a move.
func TestGrowMovesNothingLater(t *testing.T) {
	for _, n := range []int{1, 12, 13, 96, 97, 1000} {
		var table Table[named]
		table.Insert(table.Hash("first"), &named{"first"})
		table.Grow(n)
		slots, room := len(table.slots), cap(table.list)
		for i := range n {
			name := fmt.Sprint(i)
			table.Insert(table.Hash(name), &named{name})
		}
		if len(table.slots) != slots || cap(table.list) != room || slots > 4*max(n, smallest) {
			t.Errorf("%d values: %d slots became %d, room for %d in the list became %d", n, slots, len(table.slots), room, cap(table.list))
		}
	}
}

// TestTableKeepsTheOrder: values that come are gone through as they came.
func TestTableKeepsTheOrder(t *testing.T) {
	var table Table[named]
	var want, got []string
	for i := range 100 {
		want = append(want, fmt.Sprint(i))
		table.Insert(table.Hash(want[i]), &named{want[i]})
	}
	for x := range table.All() {
		got = append(got, x.name)
	}
	if !slices.Equal(got, want) {
		t.Error(got)
	}
	for range table.All() {
		break
	}
}
