package form

import (
	"net/netip"
	"slices"

	"github.com/nephele-io/nephele/internal/cloud/plan/addrset"
)

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
