package policy

import (
	"slices"
	"strings"
)

// serviceAccountLabel is the synthetic Pod label that service account peers select.
const serviceAccountLabel = "internal.antrea.io/service-account"

// label is one key and value.
type label struct{ key, value string }

// labelSet is a distinct set of labels. Equal sets are the same pointer as long as they come from
// one labelTable.
type labelSet struct {
	pairs []label // sorted by key
	text  string  // the key in the table
	refs  int
}

// fewPairs is up to how many labels looking at each is the quickest. Nothing bounds how many labels
// a Pod has but how large it may be.
const fewPairs = 16

// get returns the value of a key.
func (s *labelSet) get(key string) (string, bool) {
	if len(s.pairs) > fewPairs {
		i, found := slices.BinarySearchFunc(s.pairs, key, func(p label, key string) int { return strings.Compare(p.key, key) })
		if !found {
			return "", false
		}
		return s.pairs[i].value, true
	}
	for i := range s.pairs {
		if s.pairs[i].key == key {
			return s.pairs[i].value, true
		}
	}
	return "", false
}

// labelTable interns label sets by content and counts their users.
type labelTable struct {
	sets    map[string]*labelSet
	scratch []byte
	pairs   []label
	arena   *arena
	made    slab[labelSet]
	lists   slab[label]
}

// acquire returns the set with these labels and, if extra.key is not empty, this one more.
func (t *labelTable) acquire(labels map[string]string, extra label) *labelSet {
	t.pairs = t.pairs[:0]
	for k, v := range labels {
		if k != extra.key || extra.key == "" {
			t.pairs = append(t.pairs, label{k, v})
		}
	}
	if extra.key != "" {
		t.pairs = append(t.pairs, extra)
	}
	slices.SortFunc(t.pairs, func(a, b label) int { return strings.Compare(a.key, b.key) })
	t.scratch = t.scratch[:0]
	for _, p := range t.pairs {
		t.scratch = append(t.scratch, p.key...)
		t.scratch = append(t.scratch, 0)
		t.scratch = append(t.scratch, p.value...)
		t.scratch = append(t.scratch, 0)
	}
	if s := t.sets[string(t.scratch)]; s != nil {
		s.refs++
		return s
	}
	s := one(t.arena, &t.made)
	s.pairs = append(roomFor(t.arena, &t.lists, len(t.pairs)), t.pairs...)
	s.text, s.refs = t.arena.text(t.scratch), 1
	t.sets[s.text] = s
	return s
}

// release gives up one use of the set.
func (t *labelTable) release(s *labelSet) {
	if s.refs--; s.refs == 0 {
		delete(t.sets, s.text)
	}
}

// asMap returns the labels in a map of their own.
func (s *labelSet) asMap() map[string]string {
	out := make(map[string]string, len(s.pairs))
	for _, p := range s.pairs {
		out[p.key] = p.value
	}
	return out
}
