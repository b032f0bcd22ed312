package plan

import (
	"cmp"
	"net/netip"
	"slices"

	"github.com/nephele-io/nephele/internal/cloud"
)

// A rule by address names one block, and the block must be allowed as a whole for everything that the rule matches. So an address that is
// allowed for some service needs a rule whose block lies in the largest allowed block around it, and addresses that have nothing but
// such blocks of their own need rules of their own. That many rules are needed whatever the form; finding the best form of far more rules than
// there is room for would take long and be of no use.
const (
	// farBeyond is how many times the room must be exceeded before the bound is told in place of the exact number.
	farBeyond = 4
	// countedBeyond is how many times the room is counted up to.
	countedBeyond = 16
)

// atLeast returns the shortage that the class has whatever the form of its rules, if the bound tells of one.
func (s *regionState) atLeast(c *class, want [2]half, f *forms, q Quota) *Shortage {
	var out *Shortage
	for i, d := range directions {
		byReference := s.referable(c, d, f).Union(s.listed(want[i].cells...))
		if !slices.ContainsFunc(want[i].cells, func(x halfCell) bool { return !x.all.Within(byReference) }) {
			continue // there may be no rule by address at all
		}
		for _, family := range []struct {
			name string
			all  Set
		}{{"IPv4", Set{v4: everyV4}}, {"IPv6", Set{v6: everyV6}}} {
			needed := s.in.recall.blocksNeeded(want[i], family.all, byReference, countedBeyond*room(q))
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
func (s *regionState) referable(c *class, d cloud.Direction, f *forms) Set {
	byClass, known := s.memory.referable[c.network]
	if !known {
		byClass = unionOf(s.classCandidates(c.network))
		if s.memory.referable == nil {
			s.memory.referable = map[*network]Set{}
		}
		s.memory.referable[c.network] = byClass
	}
	more := slices.Concat(f.trial, s.nativeCandidates(c, d))
	if len(more) == 0 {
		return byClass
	}
	return byClass.Union(unionOf(more))
}

func unionOf(candidates []candidate) Set {
	sets := make([]Set, len(candidates))
	for i, c := range candidates {
		sets[i] = c.addrs
	}
	return unionAll(sets)
}

// needKey is a question that blocksNeeded answers.
type needKey struct {
	half, family, byReference, enough int
}

// blocksNeeded is half.blocksNeeded, remembered.
func (r *recall) blocksNeeded(h half, family, byReference Set, enough int) int {
	h = r.numbered(h)
	_, f := r.set(family)
	_, by := r.set(byReference)
	key := needKey{h.number, f, by, enough}
	n, ok := r.needs[key]
	if !ok {
		n = h.blocksNeeded(family, byReference, enough) // its effort is that of the sets
		r.needs[key] = n
	}
	return n
}

// block is a largest allowed block of one or several cells.
type block struct {
	netip.Prefix
	span
	cells []int
}

// blocksNeeded is how many rules by address the half needs at least in a family, besides references, which can name the given addresses. It
// counts up to about enough.
func (h half) blocksNeeded(family, byReference Set, enough int) (needed int) {
	blocks := h.blocks(family)
	if len(blocks) == 0 {
		return 0
	}
	named := slices.Concat(byReference.Intersect(family).v4, byReference.Intersect(family).v6)
	every := slices.Concat(family.v4, family.v6)[0].to
	// The blocks around the present one, the innermost last, and for each how far its addresses were looked at.
	type around struct {
		*block
		next  u128
		ended bool
		found bool
	}
	var stack []around
	lookUpTo := func(at u128, inclusive bool) {
		top := &stack[len(stack)-1]
		if top.found || top.ended || at.less(top.next) || !inclusive && at == top.next {
			return
		}
		if !inclusive {
			at = at.prev()
		}
		if own := subtract([]span{{top.next, at}}, named); len(own) > 0 {
			top.found = true
			needed += h.runsAt(own[0].from, family, top.cells)
		}
	}
	leave := func() {
		top := stack[len(stack)-1]
		lookUpTo(top.to, true)
		stack = stack[:len(stack)-1]
		if len(stack) > 0 {
			up := &stack[len(stack)-1]
			if up.ended = top.to == every; !up.ended {
				up.next = top.to.next()
			}
		}
	}
	for i := range blocks {
		b := &blocks[i]
		for len(stack) > 0 && stack[len(stack)-1].to.less(b.from) {
			leave()
		}
		if needed > enough {
			return needed
		}
		if len(stack) > 0 {
			lookUpTo(b.from, false)
		}
		stack = append(stack, around{block: b, next: b.from})
	}
	for len(stack) > 0 {
		leave()
	}
	return needed
}

// blocks returns the largest blocks of all cells, larger ones before those inside them.
func (h half) blocks(family Set) []block {
	at := map[netip.Prefix]int{}
	var out []block
	for k, c := range h.cells {
		set := c.all.Intersect(family)
		for _, p := range set.Prefixes() {
			i, known := at[p]
			if !known {
				i = len(out)
				at[p] = i
				from := toU128(p.Addr())
				out = append(out, block{Prefix: p, span: span{from, from.or(mask128(p.Bits() + 128 - p.Addr().BitLen()))}})
			}
			out[i].cells = append(out[i].cells, k)
		}
	}
	slices.SortFunc(out, func(a, b block) int { return cmp.Or(a.from.compare(b.from), a.Bits()-b.Bits()) })
	return out
}

// runsAt is how many rules an address needs at least for the given cells, which allow it: one if it may use everything, else one for every run of
// cells.
func (h half) runsAt(at u128, family Set, cells []int) int {
	allows := func(c halfCell) bool {
		spans := c.all.v4
		if len(family.v4) == 0 {
			spans = c.all.v6
		}
		i := reaching(spans, at)
		return i < len(spans) && !at.less(spans[i].from)
	}
	runs, asked, open, everything := 0, 0, false, true
	for k, c := range h.cells {
		if k == 0 || h.cells[k-1].service.Protocol != c.service.Protocol {
			open = false
		}
		here := allows(c)
		everything = everything && (here || !familyOf(c.service.Protocol).Overlaps(family))
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
