package form

import (
	"cmp"
	"net/netip"
	"slices"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan/addrset"
	"github.com/nephele-io/nephele/internal/cloud/plan/flow"
)

// A rule by address names one block, and the block must be allowed as a whole for everything that
// the rule matches. So an address that is allowed for some service needs a rule whose block lies in
// the largest allowed block around it, and addresses that have nothing but such blocks of their own
// need rules of their own. That many rules are needed whatever the form; finding the best form of
// far more rules than there is room for would take long and be of no use.
const (
	// farBeyond is how many times the room must be exceeded before the bound is told in place of
	// the exact number.
	farBeyond = 4
	// countedBeyond is how many times the room is counted up to.
	countedBeyond = 16
)

// AtLeast returns the shortage that the class has whatever the form of its rules, if the bound
// tells of one.
func (s *Fitter) AtLeast(c *Class, want [2]flow.Permit, f *Forms, q Quota) *Shortage {
	var out *Shortage
	for i, d := range flow.Directions() {
		byReference := s.referable(c, d, f).Union(s.Listed(want[i].Grants...))
		if !slices.ContainsFunc(want[i].Grants, func(x flow.Grant) bool { return !s.contains(byReference, x.All) }) {
			continue // there may be no rule by address at all
		}
		for _, family := range []struct {
			name string
			all  addrset.Set
		}{{"IPv4", addrset.AllIPv4()}, {"IPv6", addrset.AllIPv6()}} {
			needed := s.BlocksNeeded(want[i], family.all, byReference, countedBeyond*room(q))
			if needed > room(q) && (out == nil || needed > out.Needed) {
				out = &Shortage{Direction: d, Family: family.name, Needed: needed, Available: room(q), AtLeast: true}
				if q.GroupsPerInterface > 0 {
					out.RulesPerGroup = (needed + q.GroupsPerInterface - 1) / q.GroupsPerInterface
				}
			}
		}
	}
	return out
}

// referable returns all addresses that a rule of the class can name by a group.
func (s *Fitter) referable(c *Class, d cloud.Direction, f *Forms) addrset.Set {
	out := s.byClasses.get(c.Network, func() addrset.Set {
		var sets []addrset.Set
		for _, o := range s.classCandidates(c.Network) {
			sets = append(sets, o.addrs)
		}
		return addrset.Union(sets...)
	})
	for _, o := range slices.Concat(f.Trial, s.nativeCandidates(c, d)) {
		out = s.union(out, o.addrs)
	}
	return out
}

// needKey is a question that BlocksNeeded answers.
type needKey struct {
	permit, family, byReference, enough int
}

// BlocksNeeded is how many rules by address a permit needs at least in a family, besides
// references, which can name the given addresses. It counts up to about enough.
func (s *Fitter) BlocksNeeded(h flow.Permit, family, byReference addrset.Set, enough int) int {
	r := s.memo
	h, number := r.Numbered(h)
	_, f := r.Set(family)
	_, by := r.Set(byReference)
	key := needKey{number, f, by, enough}
	n, ok := r.fresh().needs[key]
	if !ok {
		n = blocksNeeded(h, family, byReference, enough) // its effort is that of the sets
		r.needs[key] = n
	}
	return n
}

// inFamily returns the part of a set that is of the family, which is all of IPv4 or all of IPv6.
func inFamily(s, family addrset.Set) addrset.Ranges {
	if len(family.IPv4()) > 0 {
		return s.IPv4()
	}
	return s.IPv6()
}

// block is a largest allowed block of one or several cells.
type block struct {
	netip.Prefix
	addrset.Range
	cells []int
}

// blocksNeeded is BlocksNeeded, worked out.
func blocksNeeded(h flow.Permit, family, byReference addrset.Set, enough int) (needed int) {
	blocks := blocksOf(h, family)
	if len(blocks) == 0 {
		return 0
	}
	named := inFamily(byReference, family)
	every := inFamily(family, family)[0].To
	// The blocks around the present one, the innermost last, and for each how far its addresses
	// were looked at.
	type around struct {
		*block
		next  addrset.Number
		ended bool
		found bool
	}
	var stack []around
	lookUpTo := func(at addrset.Number, inclusive bool) {
		top := &stack[len(stack)-1]
		if top.found || top.ended || at.Less(top.next) || !inclusive && at == top.next {
			return
		}
		if !inclusive {
			at = at.Prev()
		}
		if own := (addrset.Ranges{{From: top.next, To: at}}).Minus(named); len(own) > 0 {
			top.found = true
			needed += runsAt(h, own[0].From, family, top.cells)
		}
	}
	leave := func() {
		top := stack[len(stack)-1]
		lookUpTo(top.To, true)
		stack = stack[:len(stack)-1]
		if len(stack) > 0 {
			up := &stack[len(stack)-1]
			if up.ended = top.To == every; !up.ended {
				up.next = top.To.Next()
			}
		}
	}
	for i := range blocks {
		b := &blocks[i]
		for len(stack) > 0 && stack[len(stack)-1].To.Less(b.From) {
			leave()
		}
		if needed > enough {
			return needed
		}
		if len(stack) > 0 {
			lookUpTo(b.From, false)
		}
		stack = append(stack, around{block: b, next: b.From})
	}
	for len(stack) > 0 {
		leave()
	}
	return needed
}

// blocks returns the largest blocks of all cells, larger ones before those inside them.
func blocksOf(h flow.Permit, family addrset.Set) []block {
	at := map[netip.Prefix]int{}
	var out []block
	for k, c := range h.Grants {
		set := c.All.Intersect(family)
		for _, p := range set.Prefixes() {
			i, known := at[p]
			if !known {
				i = len(out)
				at[p] = i
				out = append(out, block{Prefix: p, Range: addrset.RangeOf(p)})
			}
			out[i].cells = append(out[i].cells, k)
		}
	}
	slices.SortFunc(out, func(a, b block) int { return cmp.Or(a.From.Compare(b.From), a.Bits()-b.Bits()) })
	return out
}

// runsAt is how many rules an address needs at least for the given cells, which allow it: one if it
// may use everything, else one for every run of cells.
func runsAt(h flow.Permit, at addrset.Number, family addrset.Set, cells []int) int {
	allows := func(c flow.Grant) bool {
		return inFamily(c.All, family).Contains(at)
	}
	runs, asked, open, everything := 0, 0, false, true
	for k, c := range h.Grants {
		if k == 0 || h.Grants[k-1].Service.Protocol != c.Service.Protocol {
			open = false
		}
		here := allows(c)
		everything = everything && (here || !flow.Family(c.Service.Protocol).Overlaps(family))
		wanted := asked < len(cells) && cells[asked] == k
		if wanted {
			asked++
		}
		switch {
		case !here:
			open = false
		case wanted && !open:
			runs++
			open = true
		}
	}
	if everything {
		return 1
	}
	return runs
}
