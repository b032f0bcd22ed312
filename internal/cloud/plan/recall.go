package plan

import (
	"encoding/binary"
	"slices"
	"strings"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan/addrset"
	"github.com/nephele-io/nephele/internal/cloud/plan/flow"
)

// recall keeps what is worked out again and again, by the attempts of one computation and by several of them. Whatever is kept is found by
// content, never by the name or the identity of what it was asked for, so it stays true whatever groups come and go: neither addresses nor
// networks nor policies change between them.
type recall struct {
	walks   map[string]*[2]walked
	sets    map[uint64][]numberedSet
	numbers map[setRef]int // of the sets in sets
	permits map[permitRef]int
	wants   map[string]int // permits
	last    int            // number that was given
	spans   int            // that are kept
	// age counts how often everything was forgotten.
	age int
}

// keptSpans bounds the memory of a recall: 32 bytes each. What is forgotten is worked out once more.
const keptSpans = 4 << 20

func newRecall() *recall {
	r := &recall{}
	r.forget()
	return r
}

// forget forgets everything. Numbers are not given twice.
func (r *recall) forget() {
	r.walks, r.sets, r.numbers, r.permits = map[string]*[2]walked{}, map[uint64][]numberedSet{}, map[setRef]int{}, map[permitRef]int{}
	r.wants, r.spans = map[string]int{}, 0
	r.age++
}

// room makes room for so many more spans.
func (r *recall) room(spans int) {
	if r.spans += spans; r.spans > keptSpans {
		r.forget()
		r.spans = spans
	}
}

// number gives a number.
func (r *recall) number() int {
	r.last++
	return r.last
}

// memo keeps what was found out about the forms of rules, in the way of recall, whose numbers it uses.
type memo struct {
	*recall
	since    int            // the age of the recall
	parts    map[string]int // partitions of addresses into classes
	names    map[string]int // the same with the names of their groups
	fittings map[fitKey]*fitting
	needs    map[needKey]int
}

func newMemo(r *recall) *memo { return &memo{recall: r} }

// fresh forgets what is about numbers that are no longer known.
func (m *memo) fresh() *memo {
	if m.since != m.age {
		m.parts, m.names, m.fittings, m.needs = map[string]int{}, map[string]int{}, map[fitKey]*fitting{}, map[needKey]int{}
		m.since = m.age
	}
	return m
}

type numberedSet struct {
	addrset.Set
	number int
}

// setRef is where a set lies. Sets never change, so those that lie in the same place are the same as long as one of them is kept.
type setRef struct {
	v4, v6     *addrset.Range
	len4, len6 int
}

func refOf(s addrset.Set) setRef {
	v4, v6 := s.IPv4(), s.IPv6()
	out := setRef{len4: len(v4), len6: len(v6)}
	if len(v4) > 0 {
		out.v4 = &v4[0]
	}
	if len(v6) > 0 {
		out.v6 = &v6[0]
	}
	return out
}

// set returns the number of a set, and the first set of that number, so that equal sets need not be kept twice.
func (r *recall) set(s addrset.Set) (addrset.Set, int) {
	if n, ok := r.numbers[refOf(s)]; ok {
		return s, n
	}
	h := s.Hash()
	for _, known := range r.sets[h] {
		if known.Equal(s) {
			return known.Set, known.number
		}
	}
	r.room(s.Len())
	n := r.number()
	r.sets[h] = append(r.sets[h], numberedSet{s, n})
	r.numbers[refOf(s)] = n
	return s, n
}

// permitRef is where a permit lies, in the way of setRef.
type permitRef struct {
	first *flow.Grant
	len   int
}

func refOfPermit(p flow.Permit) permitRef {
	if len(p.Grants) == 0 {
		return permitRef{}
	}
	return permitRef{&p.Grants[0], len(p.Grants)}
}

// numbered returns the permit as it is kept, and its number: equal permits have the same one.
func (r *recall) numbered(p flow.Permit) (flow.Permit, int) {
	if n, ok := r.permits[refOfPermit(p)]; ok {
		return p, n
	}
	var key []byte
	grants := slices.Clone(p.Grants)
	for i := range grants {
		g := &grants[i]
		var all, anonymous, plain int
		g.All, all = r.set(g.All)
		g.Anonymous, anonymous = r.set(g.Anonymous)
		g.Plain, plain = r.set(g.Plain)
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
		n = r.number()
		r.wants[string(key)] = n
	}
	r.permits[refOfPermit(p)] = n
	return p, n
}

// kept returns the permit as it is kept: equal sets in it are not kept twice.
func (r *recall) kept(p flow.Permit) flow.Permit {
	p, _ = r.numbered(p)
	return p
}

// division is the way in which the addresses that rules in a network can name by reference are divided into classes. The order matters for
// gatherings only, which may have addresses in common.
type division struct {
	number int
	// named is the number of the same with the names of the groups.
	named int
}

func (s *regionState) division(view *network) division {
	if p, ok := s.memory.divisions[view]; ok {
		return p
	}
	r := s.memo.fresh()
	var gathered, plain []int
	var named []byte
	for _, c := range s.classCandidates(view) {
		_, n := r.set(c.addrs)
		if s.gathering(c.peer) {
			gathered = append(gathered, n)
		} else {
			plain = append(plain, n)
		}
		named = binary.AppendVarint(append(named, c.peer.String()...), int64(n))
	}
	slices.Sort(plain)
	key := binary.AppendVarint(nil, int64(len(gathered)))
	for _, n := range slices.Concat(gathered, plain) {
		key = binary.AppendVarint(key, int64(n))
	}
	p := division{numberOf(r, r.fresh().parts, key), numberOf(r, r.names, named)}
	if s.memory.divisions == nil {
		s.memory.divisions = map[*network]division{}
	}
	s.memory.divisions[view] = p
	return p
}

func numberOf(r *memo, known map[string]int, key []byte) int {
	n, ok := known[string(key)]
	if !ok {
		n = r.number()
		known[string(key)] = n
	}
	return n
}

// fitKey is all that the number of rules which a class needs depends on.
type fitKey struct {
	region        string // whose prefix lists count
	partition     int
	want          [2]int
	others        string // further candidates for references
	rules, groups int    // the quota
}

// fitting is whether what a class shall allow fits into the quota.
type fitting struct {
	// counted is set once it is known whether the references alone may fit, and mayFit if they may.
	counted, mayFit bool
	// known is set once the rules were counted. Then short is what is lacking, nil for nothing; and mixed tells in what form they fit: for
	// everything that is named, in order, whether that is done in the mixed form.
	known bool
	short *Shortage
	mixed []bool
	// rules are those of the form that fits, with the names of the groups in named.
	rules []cloud.Rule
	named int
}

// fits reports whether it is known to fit.
func (k *fitting) fits() bool { return k.known && k.short == nil }

// excluded reports whether it is known not to fit, although perhaps not how much is lacking.
func (k *fitting) excluded() bool {
	return k.counted && !k.mayFit || k.known && k.short != nil
}

// fitting returns what is known of how a class fits. What was not asked before is for the caller to find out.
func (s *regionState) fitting(c *class, want [2]flow.Permit, f forms) *fitting {
	for _, h := range want {
		for _, cell := range h.Grants {
			if slices.ContainsFunc(cell.Opaque, func(p cloud.Peer) bool { return p.PrefixListID != "" }) {
				return &fitting{} // which group holds what matters for lists
			}
		}
	}
	r := s.memo.fresh()
	q := s.quotaOf(c, f.slots)
	key := fitKey{region: s.snap.Region, partition: s.division(c.network).number, rules: q.RulesPerGroup, groups: q.GroupsPerInterface}
	var others strings.Builder
	for i, d := range directions {
		_, key.want[i] = r.numbered(want[i])
		for _, x := range slices.Concat(f.trial, s.nativeCandidates(c, d)) {
			_, addrs := r.set(x.addrs)
			_, reach := r.set(x.reach)
			others.WriteString(x.peer.String())
			others.Write(binary.AppendVarint(binary.AppendVarint([]byte{0}, int64(addrs)), int64(reach)))
		}
		others.WriteByte('|')
	}
	key.others = others.String()
	v := r.fresh().fittings[key]
	if v == nil {
		v = &fitting{}
		r.fittings[key] = v
	}
	return v
}
