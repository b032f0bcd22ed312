package form

import (
	"encoding/binary"
	"slices"
	"strings"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan/flow"
	"github.com/nephele-io/nephele/internal/cloud/plan/intent"
)

// memo keeps what was found out about the forms of rules, in the way of recall, whose numbers it
// uses.
type memo struct {
	*intent.Recall
	since    int            // the age of the recall
	parts    map[string]int // partitions of addresses into classes
	names    map[string]int // the same with the names of their groups
	fittings map[fitKey]*fitting
	needs    map[needKey]int
}

// fresh forgets what is about numbers that are no longer known.
func (m *memo) fresh() *memo {
	if m.since != m.Age {
		m.parts, m.names, m.fittings, m.needs = map[string]int{}, map[string]int{}, map[fitKey]*fitting{}, map[needKey]int{}
		m.since = m.Age
	}
	return m
}

// division is the way in which the addresses that rules in a network can name by reference are
// divided into classes. The order matters for gatherings only, which may have addresses in common.
type division struct {
	number int
	// named is the number of the same with the names of the groups.
	named int
}

func (s *Fitter) division(view *intent.Network) division {
	return s.divisions.get(view, func() division { return s.divide(view) })
}

// divide is division, worked out.
func (s *Fitter) divide(view *intent.Network) division {
	r := s.memo.fresh()
	var gathered, plain []int
	var named []byte
	for _, c := range s.classCandidates(view) {
		_, n := r.Set(c.addrs)
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
	return division{numberOf(r, r.fresh().parts, key), numberOf(r, r.names, named)}
}

func numberOf(r *memo, known map[string]int, key []byte) int {
	n, ok := known[string(key)]
	if !ok {
		n = r.Number()
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
	// known is set once the rules were counted. Then short is what is lacking, nil for nothing; and
	// mixed tells in what form they fit: for everything that is named, in order, whether that is
	// done in the mixed form.
	known bool
	short *Shortage
	mixed []bool
	// rules are those of the form that fits, with the names of the groups in named.
	rules []cloud.Rule
	named int
}

// Fits reports whether it is known to fit.
func (k *fitting) Fits() bool { return k.known && k.short == nil }

// excluded reports whether it is known not to fit, although perhaps not how much is lacking.
func (k *fitting) excluded() bool {
	return k.counted && !k.mayFit || k.known && k.short != nil
}

// Fitting returns what is known of how a class fits. What was not asked before is for the caller to
// find out.
func (s *Fitter) Fitting(c *Class, want [2]flow.Permit, f Forms) *fitting {
	for _, h := range want {
		for _, cell := range h.Grants {
			if slices.ContainsFunc(cell.Opaque, func(p cloud.Peer) bool { return p.PrefixListID != "" }) {
				return &fitting{} // which group holds what matters for lists
			}
		}
	}
	r := s.memo.fresh()
	q := s.QuotaOf(c, f.Slots)
	key := fitKey{region: s.Snap.Region, partition: s.division(c.Network).number, rules: q.RulesPerGroup, groups: q.GroupsPerInterface}
	var others strings.Builder
	for i, d := range flow.Directions() {
		_, key.want[i] = r.Numbered(want[i])
		for _, x := range slices.Concat(f.Trial, s.nativeCandidates(c, d)) {
			_, addrs := r.Set(x.addrs)
			_, reach := r.Set(x.reach)
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
