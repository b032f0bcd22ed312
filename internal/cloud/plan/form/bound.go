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
func (s *Fitter) AtLeast(d Demand) *Shortage {
	q := s.quota(d)
	bound := s.lower.Bound(q)
	var out *Shortage
	for i, direction := range flow.Directions() {
		grants := d.Want[i].Grants
		byReference := s.referable(d, direction).Union(s.Listed(grants...))
		if !slices.ContainsFunc(grants, func(x flow.Grant) bool { return !s.contains(byReference, x.All) }) {
			continue // there may be no rule by address at all
		}
		for _, family := range Families() {
			needed := s.BlocksNeeded(d.Want[i], family, byReference, countedBeyond*bound.Blocks)
			if needed > bound.Blocks && (out == nil || needed > out.Needed) {
				out = &Shortage{
					Quota: bound.BlocksOf[i], Direction: direction, Family: family.Name, Needed: needed, Available: bound.Blocks, AtLeast: true,
				}
			}
		}
	}
	return out
}

// referable returns all addresses that a rule of the class can name by a group.
func (s *Fitter) referable(d Demand, direction cloud.Direction) addrset.Set {
	view := d.Class.Network
	out := s.byClasses.Get(view, func() addrset.Set {
		var sets []addrset.Set
		for _, o := range s.classCandidates(view) {
			sets = append(sets, o.addrs)
		}
		return addrset.Union(sets...)
	})
	for _, o := range s.others(d, direction) {
		out = s.union(out, o.addrs)
	}
	return out
}

// needKey is a question that BlocksNeeded answers.
type needKey struct {
	permit      int
	family      string
	byReference int
	enough      int
}

// BlocksNeeded is how many blocks of addresses the rules of a permit name at least in a family,
// besides references, which can name the given addresses: counted as the bound of the cloud counts
// them, up to about enough.
func (s *Fitter) BlocksNeeded(p flow.Permit, family Family, byReference addrset.Set, enough int) int {
	p, number := s.memo.Numbered(p)
	_, by := s.memo.Set(byReference)
	return s.memo.fresh().needs.Get(needKey{number, family.Name, by, enough}, func() int {
		return CountBlocks(p, family, byReference, enough, s.lower) // its effort is that of the sets
	})
}

// block is a largest allowed block of one or several cells.
type block struct {
	netip.Prefix
	addrset.Range
	cells []int
}

// CountBlocks is BlocksNeeded, worked out for the rules of a cloud.
func CountBlocks(p flow.Permit, family Family, byReference addrset.Set, enough int, lower Lowerer) int {
	p.Grants = slices.DeleteFunc(slices.Clone(p.Grants), func(g flow.Grant) bool {
		return lower.Unsupported(g.Service) != "" // no rule is made of it
	})
	c := &blockCount{
		permit: p, family: family, named: family.of(byReference), enough: enough, blocks: blocksOf(p, family), packed: lower.Bound(Quota{}).Packed,
	}
	for i := 0; i < len(c.blocks) && c.needed <= enough; {
		i = c.count(i)
	}
	return c.needed
}

// blockCount counts the blocks that rules name.
type blockCount struct {
	permit  flow.Permit
	family  Family
	named   addrset.Ranges // by reference
	blocks  []block        // sorted, larger ones before those inside them
	packed  bool           // see Bound
	needed  int
	enough  int
	stopped bool // because that is exceeded
}

// count counts those of a block and of the blocks inside it, and returns the index of the one after
// them. A block needs some if an address that is in none of the blocks inside it is not named by
// reference.
func (c *blockCount) count(i int) (next int) {
	b := c.blocks[i]
	from, found := b.From, false // up to there its own addresses were looked at
	look := func(to addrset.Number) {
		if found {
			return
		}
		if own := (addrset.Ranges{{From: from, To: to}}).Minus(c.named); len(own) > 0 {
			if found = true; c.packed {
				c.needed++
			} else {
				c.needed += runsAt(c.permit, own[0].From, c.family, b.cells)
			}
		}
	}
	for next = i + 1; next < len(c.blocks) && !b.To.Less(c.blocks[next].From); {
		inside := c.blocks[next]
		if c.stopped = c.needed > c.enough; c.stopped {
			return next
		}
		if from.Less(inside.From) {
			look(inside.From.Prev())
		}
		if next = c.count(next); c.stopped || inside.To == b.To {
			return next
		}
		from = inside.To.Next()
	}
	look(b.To)
	return next
}

// blocksOf returns the largest blocks of all cells, larger ones before those inside them.
func blocksOf(h flow.Permit, family Family) []block {
	at := map[netip.Prefix]int{}
	var out []block
	for k, c := range h.Grants {
		for _, p := range c.All.Intersect(family.All).Prefixes() {
			i, known := at[p]
			if !known {
				i, at[p] = len(out), len(out)
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
func runsAt(h flow.Permit, at addrset.Number, family Family, cells []int) int {
	runs, asked, open, everything := 0, 0, false, true
	for k, c := range h.Grants {
		if k == 0 || h.Grants[k-1].Service.Protocol != c.Service.Protocol {
			open = false
		}
		here := family.of(c.All).Contains(at)
		everything = everything && (here || !flow.Family(c.Service.Protocol).Overlaps(family.All))
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
