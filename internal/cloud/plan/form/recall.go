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
	since    int                      // the age of the recall
	parts    intent.Once[string, int] // partitions of addresses into classes
	names    intent.Once[string, int] // the same with the names of their groups
	fittings intent.Once[fitKey, *fitting]
}

// fresh forgets what is about numbers that are no longer known.
func (m *memo) fresh() *memo {
	if m.since != m.Age {
		*m = memo{Recall: m.Recall, since: m.Age}
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
	return s.divisions.Get(view, func() division { return s.divide(view) })
}

// divide is division, worked out.
func (s *Fitter) divide(view *intent.Network) division {
	r := s.memo
	var spanning, plain []int
	var named []byte
	for _, c := range s.classCandidates(view) {
		_, n := r.Set(c.addrs)
		if c.gathers > 0 {
			spanning = append(spanning, n)
		} else {
			plain = append(plain, n)
		}
		named = binary.AppendVarint(append(named, c.peer.String()...), int64(n))
	}
	slices.Sort(plain)
	key := binary.AppendVarint(nil, int64(len(spanning)))
	for _, n := range slices.Concat(spanning, plain) {
		key = binary.AppendVarint(key, int64(n))
	}
	return division{r.fresh().parts.Get(string(key), r.Number), r.names.Get(string(named), r.Number)}
}

// fitKey is all that differs between the classes of a region and that the number of rules which one
// needs depends on.
type fitKey struct {
	partition int
	want      [2]int
	others    string // further candidates for references
	slots     int    // groups that an interface may have
}

// fitting is what is known of whether what a class shall allow fits into the quota.
type fitting struct {
	fits answer
	// short is what is lacking; nil for nothing, and if that was not found out.
	short *Shortage
	// bound is what was found to be exceeded before anything was tried; nil for nothing.
	bound *Shortage
	// mixed tells in what form the rules fit: for everything that is named, in order, whether that
	// is done in the mixed form.
	mixed []bool
	// rules holds the rules of the form that fits, with the names of the groups in named.
	rules []cloud.Rule
	named int
}

// fitting returns what is known of a demand. What was not asked before is for the caller to find
// out.
func (s *Fitter) fitting(d Demand) *fitting {
	for _, h := range d.Want {
		for _, cell := range h.Grants {
			if slices.ContainsFunc(cell.Opaque, func(p cloud.Peer) bool { return p.PrefixListID != "" }) {
				return &fitting{} // which group holds what matters for lists
			}
		}
	}
	r := s.memo
	key := fitKey{partition: s.division(d.Class.Network).number, slots: s.quota(d).GroupsPerInterface}
	var others strings.Builder
	for i, direction := range flow.Directions() {
		_, key.want[i] = r.Numbered(d.Want[i])
		for _, x := range s.others(d, direction) {
			_, addrs := r.Set(x.addrs)
			_, reach := r.Set(x.reach)
			others.WriteString(x.peer.String())
			others.Write(binary.AppendVarint(binary.AppendVarint([]byte{0}, int64(addrs)), int64(reach)))
		}
		others.WriteByte('|')
	}
	key.others = others.String()
	return r.fresh().fittings.Get(key, func() *fitting { return &fitting{} })
}
