package intent

import (
	"encoding/binary"
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
	wants map[string]int // permits
	last  int            // number that was given
	spans int            // that are kept
	// age counts how often everything was forgotten.
	Age int
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
	*r = Recall{
		walks: map[string]*[2]walked{}, sets: map[uint64][]numberedSet{},
		wants: map[string]int{}, last: r.last, Age: r.Age + 1,
	}
}

// Trim makes room if too much is kept. Numbers from before may mean nothing to it afterwards, so
// it is called where nobody is in the middle of something.
func (r *Recall) Trim() {
	if r.spans > keptSpans {
		r.forget()
	}
}

// Number gives a number.
func (r *Recall) Number() int {
	r.last++
	return r.last
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
	n := r.Number()
	r.sets[h] = append(r.sets[h], numberedSet{s, n})
	return s, n
}

// Numbered returns the permit as it is kept, and its number: equal permits have the same one.
func (r *Recall) Numbered(p flow.Permit) (flow.Permit, int) {
	var key []byte
	grants := slices.Clone(p.Grants)
	for i := range grants {
		g := &grants[i]
		var all, anonymous, plain int
		g.All, all = r.Set(g.All)
		g.Anonymous, anonymous = r.Set(g.Anonymous)
		g.Plain, plain = r.Set(g.Plain)
		for _, x := range []int{g.Service.Protocol, int(g.Service.From), int(g.Service.To), all, anonymous, plain, len(g.Opaque)} {
			key = binary.AppendVarint(key, int64(x))
		}
		for _, peer := range g.Opaque {
			key = append(append(key, peer.GroupOwner+"/"+peer.String()...), 0)
		}
	}
	p.Grants = grants
	n, ok := r.wants[string(key)]
	if !ok {
		n = r.Number()
		r.wants[string(key)] = n
	}
	return p, n
}

// Kept returns the permit as it is kept: equal sets in it are not kept twice.
func (r *Recall) Kept(p flow.Permit) flow.Permit {
	p, _ = r.Numbered(p)
	return p
}
