package ruleset

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Change is what leads from one Program to another.
type Change struct {
	// Chains are the chains that are new or whose rules differ, with all rules; Gone are chains
	// that are no more. Both are sorted.
	Chains []ChainChange
	Gone   []string
	// Add and Remove are elements of the keyed sets, whole keys, sorted.
	Add, Remove map[SetName][]string
	// NewRanges and GoneRanges are sets of ranges, which never change.
	NewRanges  map[SetName][]Range
	GoneRanges []SetName
	// NewDispatch and GoneDispatch are whole dispatches, both sorted. Point are their elements that
	// are new or lead elsewhere, Unpoint the keys of those that are gone or led elsewhere, sorted.
	NewDispatch  []SetName
	GoneDispatch []SetName
	Point        map[SetName][]Pointer
	Unpoint      map[SetName][]string
}

// Pointer is an element of a dispatch.
type Pointer struct{ Key, Chain string }

// ChainChange is a chain that gets other rules.
type ChainChange struct {
	Name  string
	New   bool
	Rules []Rule
}

// Empty reports whether nothing changes.
func (c *Change) Empty() bool {
	return len(c.Chains)+len(c.Gone)+len(c.Add)+len(c.Remove)+len(c.NewRanges)+len(c.GoneRanges) == 0 &&
		len(c.NewDispatch)+len(c.GoneDispatch)+len(c.Point)+len(c.Unpoint) == 0
}

// String prints the change for people.
func (c *Change) String() string {
	var b strings.Builder
	for _, x := range c.Chains {
		word := "replace"
		if x.New {
			word = "add"
		}
		fmt.Fprintf(&b, "%s chain %s\n", word, x.Name)
		for _, r := range x.Rules {
			fmt.Fprintf(&b, "  %s\n", &r)
		}
	}
	for _, name := range c.Gone {
		fmt.Fprintf(&b, "delete chain %s\n", name)
	}
	for _, name := range slices.Sorted(maps.Keys(c.NewRanges)) {
		fmt.Fprintf(&b, "add set %s of %d ranges\n", name, len(c.NewRanges[name]))
	}
	for _, name := range c.GoneRanges {
		fmt.Fprintf(&b, "delete set %s\n", name)
	}
	for _, set := range KeyedSets() {
		for word, keys := range map[string][]string{"add": c.Add[set], "remove": c.Remove[set]} {
			if len(keys) > 0 {
				fmt.Fprintf(&b, "%s %d elements of %s\n", word, len(keys), set)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.Unpoint)) {
		fmt.Fprintf(&b, "remove %d elements of %s\n", len(c.Unpoint[name]), name)
	}
	for _, name := range slices.Sorted(maps.Keys(c.Point)) {
		fmt.Fprintf(&b, "add %d elements of %s\n", len(c.Point[name]), name)
	}
	return b.String()
}

// Logs reports whether rules that log come or go with the change of a Program.
func (c *Change) Logs(from *Program) bool {
	logs := func(rules []Rule) bool {
		return slices.ContainsFunc(rules, func(r Rule) bool { return r.Action == Log })
	}
	former := func(name string) bool {
		return from != nil && from.Chains[name] != nil && logs(from.Chains[name].Rules)
	}
	return slices.ContainsFunc(c.Chains, func(x ChainChange) bool { return logs(x.Rules) || former(x.Name) }) || slices.ContainsFunc(c.Gone, former)
}

// Diff returns what must change for a kernel that holds one Program to hold another. Nil stands for
// an empty one.
func Diff(from, to *Program) *Change {
	if from == nil {
		from = &Program{}
	}
	if to == nil {
		to = &Program{}
	}
	c := &Change{Add: map[SetName][]string{}, Remove: map[SetName][]string{}, NewRanges: map[SetName][]Range{}, Point: map[SetName][]Pointer{}, Unpoint: map[SetName][]string{}}
	for name, now := range to.Chains {
		// A compiler uses the same chain again where nothing has changed.
		if old := from.Chains[name]; old != now && (old == nil || !SameRules(old.Rules, now.Rules)) {
			c.Chains = append(c.Chains, ChainChange{name, old == nil, now.Rules})
		}
	}
	slices.SortFunc(c.Chains, func(a, b ChainChange) int { return strings.Compare(a.Name, b.Name) })
	for name := range from.Chains {
		if to.Chains[name] == nil {
			c.Gone = append(c.Gone, name)
		}
	}
	slices.Sort(c.Gone)
	for name, ranges := range to.Ranges {
		if _, there := from.Ranges[name]; !there {
			c.NewRanges[name] = ranges
		}
	}
	for name := range from.Ranges {
		if _, there := to.Ranges[name]; !there {
			c.GoneRanges = append(c.GoneRanges, name)
		}
	}
	slices.Sort(c.GoneRanges)
	var touched map[SetName][]string // nil: all
	switch {
	case to.Lineage.Mark == nil:
	case to.Lineage.Mark == from.Lineage.Mark:
		touched = map[SetName][]string{}
	case to.Lineage.From != nil && to.Lineage.From == from.Lineage.Mark:
		touched = to.Lineage.Touched
	}
	c.dispatch(from.Dispatch, to.Dispatch, touched)
	var none Part
	differences(from.Parts, to.Parts, func(key PartKey, old, now *Part) {
		if old == nil {
			old = &none
		}
		if now == nil {
			now = &none
		}
		c.elements(key, old, now)
	})
	for _, lists := range []map[SetName][]string{c.Add, c.Remove} {
		for _, keys := range lists {
			slices.Sort(keys)
		}
	}
	return c
}

// Dispatch adds the difference of dispatches to the change.
func (c *Change) Dispatch(from, to map[SetName]*Elements) { c.dispatch(from, to, nil) }

// dispatch does so, and of dispatches for Services looks only at keys that may differ, unless that
// is nil.
func (c *Change) dispatch(from, to map[SetName]*Elements, touched map[SetName][]string) {
	for _, name := range slices.Sorted(maps.Keys(to)) {
		old, there := from[name]
		if !there {
			c.NewDispatch = append(c.NewDispatch, name)
		}
		if there && old == to[name] {
			continue
		}
		if there && touched != nil && name.IsOfServices() {
			c.touched(name, old, to[name], touched[name])
			continue
		}
		for key, chain := range to[name].All() {
			led, found := old.Get(key)
			if found && led != chain {
				c.Unpoint[name] = append(c.Unpoint[name], key)
			}
			if led != chain {
				c.Point[name] = append(c.Point[name], Pointer{key, chain})
			}
		}
		slices.SortFunc(c.Point[name], func(a, b Pointer) int { return strings.Compare(a.Key, b.Key) })
		if len(c.Point[name]) == 0 {
			delete(c.Point, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(from)) {
		now, there := to[name]
		if !there {
			c.GoneDispatch = append(c.GoneDispatch, name)
		}
		if there && (from[name] == now || touched != nil && name.IsOfServices()) {
			continue
		}
		for key := range from[name].All() {
			if _, still := now.Get(key); !still {
				c.Unpoint[name] = append(c.Unpoint[name], key)
			}
		}
	}
	for _, keys := range c.Unpoint {
		slices.Sort(keys)
	}
}

// touched adds the difference of a dispatch where only some keys may differ.
func (c *Change) touched(name SetName, old, now *Elements, keys []string) {
	keys = slices.Clone(keys)
	slices.Sort(keys)
	for _, key := range slices.Compact(keys) {
		was, had := old.Get(key)
		is, has := now.Get(key)
		if had && (!has || was != is) {
			c.Unpoint[name] = append(c.Unpoint[name], key)
		}
		if has && (!had || was != is) {
			c.Point[name] = append(c.Point[name], Pointer{key, is})
		}
	}
}

// elements adds the difference of two parts, both sorted, to the change.
func (c *Change) elements(key PartKey, old, now *Part) {
	if old == now {
		return
	}
	id := string(key.ID[:])
	i, j := 0, 0
	for i < old.Keys.Len() || j < now.Keys.Len() {
		switch {
		case j == now.Keys.Len() || i < old.Keys.Len() && old.Keys.At(i) < now.Keys.At(j):
			c.Remove[key.Set] = append(c.Remove[key.Set], id+old.Keys.At(i))
			i++
		case i == old.Keys.Len() || now.Keys.At(j) < old.Keys.At(i):
			c.Add[key.Set] = append(c.Add[key.Set], id+now.Keys.At(j))
			j++
		default:
			i++
			j++
		}
	}
}

func SameRules(a, b []Rule) bool {
	return slices.EqualFunc(a, b, func(r, s Rule) bool { return r.equal(&s) })
}
