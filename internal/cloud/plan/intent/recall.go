package intent

import (
	"slices"

	"github.com/nephele-io/nephele/internal/cloud/plan/addrset"
	"github.com/nephele-io/nephele/internal/cloud/plan/flow"
)

// Recall keeps what is worked out again and again, by the attempts of one computation and by
// several of them. Whatever is kept is found by content, never by the name or the identity of what
// it was asked for, so it stays true whatever groups come and go: neither addresses nor networks
// nor policies change between them.
type Recall struct {
	walks map[string]*[2]walked
	sets  map[uint64][]numberedSet
	last  int // number that was given
	spans int // that are kept
}

// keptSpans bounds the memory of a recall: 32 bytes each. What is forgotten is worked out once
// more. See Trim.
const keptSpans = 4 << 20

// newRecall returns one that knows nothing.
func newRecall() *Recall {
	r := &Recall{}
	r.forget()
	return r
}

// forget forgets everything. Numbers are not given twice.
func (r *Recall) forget() {
	*r = Recall{walks: map[string]*[2]walked{}, sets: map[uint64][]numberedSet{}, last: r.last}
}

// Trim makes room if too much is kept. Numbers from before may mean nothing to it afterwards, so
// it is called where nobody is in the middle of something.
func (r *Recall) Trim() {
	if r.spans > keptSpans {
		r.forget()
	}
}

type numberedSet struct {
	addrset.Set
	number int
}

// Set returns the number of a set, and the first set of that number, so that equal sets need not be
// kept twice.
func (r *Recall) Set(s addrset.Set) (addrset.Set, int) {
	h := s.Hash()
	for _, known := range r.sets[h] {
		if known.Equal(s) {
			return known.Set, known.number
		}
	}
	r.spans += s.Len()
	r.last++
	r.sets[h] = append(r.sets[h], numberedSet{s, r.last})
	return s, r.last
}

// Kept returns the permit with its sets as they are kept: equal ones are not kept twice.
func (r *Recall) Kept(p flow.Permit) flow.Permit {
	p.Grants = slices.Clone(p.Grants)
	for i := range p.Grants {
		g := &p.Grants[i]
		g.All, _ = r.Set(g.All)
		g.Anonymous, _ = r.Set(g.Anonymous)
		g.Plain, _ = r.Set(g.Plain)
	}
	return p
}
