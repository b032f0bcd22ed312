package ruleset

import (
	"iter"
	"maps"
	"slices"
	"sort"
	"strings"
)

// shards is into how many pieces Parts are cut: what changes one key copies one of them.
const shards = 256

// Keys are keys of one length, sorted, without duplicates. There are a great many lists of few, so
// they are pieces of one text.
type Keys struct {
	text string
	size int
}

// KeysOf returns a list, whose keys have one length, as Keys. It sorts the list.
func KeysOf(list []string) Keys {
	if len(list) == 0 {
		return Keys{}
	}
	slices.Sort(list)
	return Keys{strings.Join(slices.Compact(list), ""), len(list[0])}
}

// Len counts the keys.
func (k Keys) Len() int {
	if k.size == 0 {
		return 0
	}
	return len(k.text) / k.size
}

// At returns one of the keys.
func (k Keys) At(i int) string { return k.text[i*k.size : (i+1)*k.size] }

// All returns all of them, in their order.
func (k Keys) All() iter.Seq[string] {
	return func(yield func(string) bool) {
		for i := range k.Len() {
			if !yield(k.At(i)) {
				return
			}
		}
	}
}

// Has reports whether a key is one of them.
func (k Keys) Has(key string) bool {
	_, found := sort.Find(k.Len(), func(i int) int { return strings.Compare(key, k.At(i)) })
	return found
}

// Parts are the elements of the keyed sets, by what they are of. They never change; the parts of
// two Programs share what is the same. Nil has none.
type Parts struct {
	shards   [shards]*shard
	elements int
}

type shard map[PartKey]*Part

// PartsOf returns Parts with what a map has.
func PartsOf(m map[PartKey]*Part) *Parts {
	c := EditParts(nil)
	for key, part := range m {
		c.Put(key, part)
	}
	return c.Parts
}

// Get returns the elements of a key; nil for none.
func (p *Parts) Get(key PartKey) *Part {
	if p == nil {
		return nil
	}
	if s := p.shards[key.ID[0]]; s != nil {
		return (*s)[key]
	}
	return nil
}

// All returns all of them, in no order.
func (p *Parts) All() iter.Seq2[PartKey, *Part] {
	return func(yield func(PartKey, *Part) bool) {
		if p == nil {
			return
		}
		for _, s := range p.shards {
			if s == nil {
				continue
			}
			for key, part := range *s {
				if !yield(key, part) {
					return
				}
			}
		}
	}
}

// differences calls each for the keys of which the elements may differ; nil stands for none.
func differences(from, to *Parts, each func(key PartKey, old, now *Part)) {
	if from == nil {
		from = &Parts{}
	}
	if to == nil {
		to = &Parts{}
	}
	for i := range shards {
		a, b := from.shards[i], to.shards[i]
		if a == b {
			continue
		}
		if b != nil {
			for key, now := range *b {
				each(key, from.Get(key), now)
			}
		}
		if a != nil {
			for key, old := range *a {
				if to.Get(key) == nil {
					each(key, old, nil)
				}
			}
		}
	}
}

// PartsEdit makes Parts of others. It copies a piece when it first changes it. It is not safe for
// concurrent use.
type PartsEdit struct {
	*Parts
	own [shards]bool
}

// EditParts begins to make Parts that are as p but for what is changed.
func EditParts(p *Parts) *PartsEdit {
	next := &Parts{}
	if p != nil {
		*next = *p
	}
	return &PartsEdit{Parts: next}
}

// Put gives a key other elements; nil, as well as none, removes it.
func (c *PartsEdit) Put(key PartKey, part *Part) {
	old := c.Get(key)
	if part != nil && part.Keys.Len() == 0 {
		part = nil
	}
	if old == part {
		return
	}
	i := key.ID[0]
	if !c.own[i] {
		next := shard{}
		if c.shards[i] != nil {
			next = maps.Clone(*c.shards[i])
		}
		c.shards[i], c.own[i] = &next, true
	}
	if old != nil {
		c.elements -= old.Keys.Len()
	}
	if part == nil {
		delete(*c.shards[i], key)
		return
	}
	c.elements += part.Keys.Len()
	(*c.shards[i])[key] = part
}
