package form

import (
	"maps"
	"net/netip"
	"slices"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan/addrset"
	"github.com/nephele-io/nephele/internal/cloud/plan/intent"
)

// mix returns the mixed form: the largest blocks of which every address is a member's, except those
// that consist of the classes that some other block needs for itself alone; these classes are
// referred to.
func (s *Fitter) mix(view *intent.Network, c *peerCover) *peerCover {
	if c.mixed != nil {
		return c.mixed
	}
	classes := s.classCandidates(view)
	owner := newOwners(classes, c.used)
	blocks := c.all.Prefixes()
	inside := make([][]int, len(blocks)) // the classes with addresses in a block; -1 stands for none
	chosen := map[int]bool{}
	for i, p := range blocks {
		if inside[i] = owner.of(p); len(inside[i]) == 1 && inside[i][0] >= 0 {
			chosen[inside[i][0]] = true
		}
	}
	needed := func(i int) bool { return slices.ContainsFunc(inside[i], func(k int) bool { return !chosen[k] }) }
	out := &peerCover{all: c.all, used: slices.Sorted(maps.Keys(chosen))}
	for _, k := range out.used {
		out.peers = append(out.peers, classes[k].peer)
	}
	slices.SortFunc(out.peers, cloud.Peer.Compare)
	var rest []netip.Prefix
	for i, p := range blocks {
		if needed(i) {
			rest = append(rest, p)
		}
	}
	out.rest = addrset.OfPrefixes(rest...)
	c.mixed = out
	return out
}

// owners finds the classes that addresses belong to: by family, the spans of all of them, sorted.
type owners [2][]ownedSpan

type ownedSpan struct {
	addrset.Range
	class int
}

func newOwners(classes []Candidate, used []int) (out owners) {
	for i, family := range Families() {
		for _, k := range used {
			for _, r := range family.of(classes[k].addrs) {
				out[i] = append(out[i], ownedSpan{r, k})
			}
		}
		slices.SortFunc(out[i], func(a, b ownedSpan) int { return a.From.Compare(b.From) })
	}
	return out
}

// of returns the classes with addresses in the block, sorted; -1 is among them if some addresses
// belong to none.
func (o owners) of(block netip.Prefix) []int {
	spans, part := o[1], addrset.RangeOf(block)
	if block.Addr().Is4() {
		spans = o[0]
	}
	var out []int
	at := part.From
	i, _ := slices.BinarySearchFunc(spans, at, func(x ownedSpan, a addrset.Number) int { return x.To.Compare(a) })
	for ; i < len(spans) && !part.To.Less(spans[i].From); i++ {
		if at.Less(spans[i].From) {
			out = append(out, -1)
		}
		out = append(out, spans[i].class)
		if at = spans[i].To.Next(); !spans[i].To.Less(part.To) {
			break
		}
	}
	if i == len(spans) || part.To.Less(spans[i].From) {
		out = append(out, -1)
	}
	slices.Sort(out)
	return slices.Compact(out)
}
