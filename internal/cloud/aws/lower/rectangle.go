package lower

import (
	"math/bits"
	"net/netip"
	"slices"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan/addrset"
	"github.com/nephele-io/nephele/internal/cloud/plan/flow"
)

// Rules by address cover a plane of (address, service). Finding the fewest is set cover; it is
// solved exactly where the plane has few enough pieces, that is, for what one or a few policies
// with a handful of blocks and ports say. searched bounds the steps of a search that does not end
// soon.
const (
	pieces   = 64
	searched = 20000
)

// rectangle is a rule that could be used: what it covers of the plane, piece by piece.
type rectangle struct {
	rule   block
	covers uint64
}

// fewest returns the shortest list of rules that covers exactly the given sets, if it is shorter
// than limit and the search ends in time; else nil. All sets are of one family.
func (c *compiler) fewest(sets []addrset.Set, limit int) []block {
	blocks := disjointBlocks(sets)
	var all uint64
	at := func(block, cell int) int { return block*len(sets) + cell }
	if len(blocks)*len(sets) > pieces {
		return nil
	}
	for b, p := range blocks {
		set := addrset.OfPrefixes(p)
		for i := range sets {
			if set.Within(sets[i]) {
				all |= 1 << at(b, i)
			}
		}
	}
	var choices []rectangle
	for _, p := range parents(blocks) {
		set := addrset.OfPrefixes(p)
		needs := make([]need, len(sets))
		for i := range sets {
			if set.Within(sets[i].Union(withoutPackets(c.cells[i].Service))) {
				needs[i] = always
				if set.Within(withoutPackets(c.cells[i].Service)) {
					needs[i] = either
				}
			}
		}
		for _, r := range c.appendBlocks(nil, p, needs) {
			x := rectangle{rule: r}
			for b, block := range blocks {
				if !p.Overlaps(block) {
					continue
				}
				for i := range sets {
					if covered(r.match, c.cells, i) {
						x.covers |= 1 << at(b, i)
					}
				}
			}
			if x.covers &= all; x.covers != 0 {
				choices = append(choices, x)
			}
		}
	}
	slices.SortStableFunc(choices, func(a, b rectangle) int { return bits.OnesCount64(b.covers) - bits.OnesCount64(a.covers) })
	s := search{choices: choices, best: limit}
	s.cover(all, nil)
	return s.found
}

// covered reports whether the match allows the whole of a cell. The cell of all other protocols is
// covered by a rule for all protocols only.
func covered(m cloud.Match, cells []flow.Cell, i int) bool {
	s := cells[i].Service
	if m.Protocol == cloud.AnyProtocol {
		return true
	}
	of := flow.ServiceOf(m)
	return of.Protocol == s.Protocol && of.From <= s.From && s.To <= of.To
}

// disjointBlocks cuts the addresses of the sets into prefixes each of which is in or out of every
// set as a whole.
func disjointBlocks(sets []addrset.Set) []netip.Prefix {
	parts := []addrset.Set{addrset.All()}
	for _, set := range sets {
		var next []addrset.Set
		for _, p := range parts {
			for _, half := range []addrset.Set{p.Intersect(set), p.Minus(set)} {
				if !half.Empty() {
					next = append(next, half)
				}
			}
		}
		if parts = next; len(parts) > pieces {
			return make([]netip.Prefix, pieces+1)
		}
	}
	var out []netip.Prefix
	for _, p := range parts {
		if slices.ContainsFunc(sets, p.Within) {
			if out = append(out, p.Prefixes()...); len(out) > pieces {
				break
			}
		}
	}
	return out
}

// parents returns the blocks and all the larger prefixes that hold several of them.
func parents(blocks []netip.Prefix) []netip.Prefix {
	seen := map[netip.Prefix]bool{}
	var out []netip.Prefix
	add := func(p netip.Prefix) {
		if p = p.Masked(); !seen[p] {
			seen[p] = true
			out = append(out, p)
		}
	}
	for _, a := range blocks {
		add(a)
		for size := a.Bits() - 1; size >= 0; size-- {
			p := netip.PrefixFrom(a.Addr(), size).Masked()
			inside := 0
			for _, b := range blocks {
				if p.Overlaps(b) {
					inside++
				}
			}
			if inside > 1 {
				add(p)
			}
		}
	}
	return out
}

// search looks for the smallest cover, trying the largest rectangles first.
type search struct {
	choices []rectangle
	found   []block
	best    int // length to be undercut
	steps   int
}

func (s *search) cover(open uint64, used []rectangle) {
	if open == 0 {
		s.best, s.found = len(used), nil
		for _, x := range used {
			s.found = append(s.found, x.rule)
		}
		return
	}
	if s.steps++; s.steps > searched {
		return
	}
	// The piece with the fewest rectangles over it decides soonest; the largest rectangle bounds
	// how many more are needed.
	piece, fewest, largest := 0, len(s.choices)+1, 1
	var over [pieces]int
	for _, x := range s.choices {
		rest := x.covers & open
		largest = max(largest, bits.OnesCount64(rest))
		for ; rest != 0; rest &= rest - 1 {
			over[bits.TrailingZeros64(rest)]++
		}
	}
	for rest := open; rest != 0; rest &= rest - 1 {
		if k := bits.TrailingZeros64(rest); over[k] < fewest {
			piece, fewest = k, over[k]
		}
	}
	if len(used)+(bits.OnesCount64(open)+largest-1)/largest >= s.best {
		return
	}
	for _, x := range s.choices {
		if x.covers>>piece&1 == 1 {
			s.cover(open&^x.covers, append(used[:len(used):len(used)], x))
		}
	}
}
