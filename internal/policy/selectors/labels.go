package selectors

import (
	"slices"
	"strings"

	"github.com/nephele-io/nephele/internal/policy/slab"
)

// ServiceAccountLabel is the synthetic Pod label that service account peers select.
const ServiceAccountLabel = "internal.antrea.io/service-account"

// Label is one key and value.
type Label struct{ Key, Value string }

// labelSet is a distinct set of labels. Equal sets are the same pointer as long as they come from
// one labelTable.
type Set struct {
	pairs []Label // sorted by key
	text  string  // the key in the table
	refs  int
}

// fewPairs is up to how many labels looking at each is the quickest. Nothing bounds how many labels
// a Pod has but how large it may be.
const fewPairs = 16

// Get returns the value of a key.
func (s *Set) Get(key string) (string, bool) {
	if len(s.pairs) > fewPairs {
		i, found := slices.BinarySearchFunc(s.pairs, key, func(p Label, key string) int { return strings.Compare(p.Key, key) })
		if !found {
			return "", false
		}
		return s.pairs[i].Value, true
	}
	for i := range s.pairs {
		if s.pairs[i].Key == key {
			return s.pairs[i].Value, true
		}
	}
	return "", false
}

// labelTable interns label sets by content and counts their users.
type Sets struct {
	sets    map[string]*Set
	scratch []byte
	pairs   []Label
	arena   *slab.Arena
	made    slab.Slab[Set]
	lists   slab.Slab[Label]
}

// NewSets returns a table that makes what it makes in the arena.
func NewSets(in *slab.Arena) Sets {
	return Sets{sets: make(map[string]*Set), arena: in}
}

// Acquire returns the set with these labels and, if extra.key is not empty, this one more.
func (t *Sets) Acquire(labels map[string]string, extra Label) *Set {
	t.pairs = t.pairs[:0]
	for k, v := range labels {
		if k != extra.Key || extra.Key == "" {
			t.pairs = append(t.pairs, Label{k, v})
		}
	}
	if extra.Key != "" {
		t.pairs = append(t.pairs, extra)
	}
	slices.SortFunc(t.pairs, func(a, b Label) int { return strings.Compare(a.Key, b.Key) })
	t.scratch = t.scratch[:0]
	for _, p := range t.pairs {
		t.scratch = append(t.scratch, p.Key...)
		t.scratch = append(t.scratch, 0)
		t.scratch = append(t.scratch, p.Value...)
		t.scratch = append(t.scratch, 0)
	}
	if s := t.sets[string(t.scratch)]; s != nil {
		s.refs++
		return s
	}
	s := slab.One(t.arena, &t.made)
	s.pairs = append(slab.Room(t.arena, &t.lists, len(t.pairs)), t.pairs...)
	s.text, s.refs = t.arena.Text(t.scratch), 1
	t.sets[s.text] = s
	return s
}

// Release gives up one use of the set.
func (t *Sets) Release(s *Set) {
	if s.refs--; s.refs == 0 {
		delete(t.sets, s.text)
	}
}

// AsMap returns the labels in a map of their own.
func (s *Set) AsMap() map[string]string {
	out := make(map[string]string, len(s.pairs))
	for _, p := range s.pairs {
		out[p.Key] = p.Value
	}
	return out
}
