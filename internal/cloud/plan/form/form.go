package form

import (
	"cmp"
	"maps"
	"slices"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan/addrset"
	"github.com/nephele-io/nephele/internal/cloud/plan/flow"
	"github.com/nephele-io/nephele/internal/cloud/plan/intent"
)

// Forms chooses, for the members that the rules of one class name, between a reference to every
// class of members and the mixed form with fewer rules, in which blocks of addresses that members
// of several classes fill stand for these.
type Forms struct {
	mixed map[*peerCover]bool
	asked []*peerCover // everything that was to be named, once per service
	// references is how many groups were referred to in the direction with more of them. If counts
	// is set, nothing else is found out.
	references int
	counts     bool
	// Trial are gatherings that might be made, and slots how many of them would take a slot of the
	// class itself.
	Trial []Candidate
	Slots int
	// spelled is set if prefix lists are named by their entries where these are fewer than a
	// reference counts.
	spelled bool
	// repeat, if not nil, is the choice to be made: for everything that is to be named, in order,
	// whether that is done in the mixed form.
	repeat []bool
}

// count takes note of the groups that are referred to in a direction.
func (f *Forms) count(referred []bool) {
	n := 0
	for _, r := range referred {
		if r {
			n++
		}
	}
	f.references = max(f.references, n)
}

func (f *Forms) choose(s *Fitter, view *intent.Network, c *peerCover) *peerCover {
	at := len(f.asked)
	f.asked = append(f.asked, c)
	if f.mixed[c] || at < len(f.repeat) && f.repeat[at] {
		return s.mix(view, c)
	}
	return c
}

// choice is what was chosen.
func (f *Forms) choice() []bool {
	out := make([]bool, len(f.asked))
	for i, c := range f.asked {
		out[i] = f.mixed[c]
	}
	return out
}

// change chooses the mixed form where it saves the most, until it has saved so many rules or no
// more can be saved. It reports whether it changed anything.
func (f *Forms) change(s *Fitter, view *intent.Network, surplus int) (changed bool) {
	gain := map[*peerCover]int{}
	var order []*peerCover
	for _, c := range f.asked {
		if len(c.used) < 2 || f.mixed[c] {
			continue
		}
		if gain[c] == 0 {
			order = append(order, c)
		}
		gain[c] += c.size() - s.mix(view, c).size()
	}
	slices.SortStableFunc(order, func(a, b *peerCover) int { return cmp.Compare(gain[b], gain[a]) })
	for _, c := range order {
		if gain[c] <= 0 || surplus <= 0 {
			break
		}
		if f.mixed == nil {
			f.mixed = map[*peerCover]bool{}
		}
		f.mixed[c], changed = true, true
		surplus -= gain[c]
	}
	f.asked, f.references = nil, 0
	return changed
}

// size is how many rules name the members, for one service and the family with more of them.
func (c *peerCover) size() int {
	if c.length == 0 {
		v4 := len(c.rest.Intersect(addrset.AllIPv4()).Prefixes())
		c.length = len(c.peers) + max(v4, len(c.rest.Prefixes())-v4)
	}
	return c.length
}

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
		if inside[i] = owner.of(addrset.OfPrefixes(p)); len(inside[i]) == 1 && inside[i][0] >= 0 {
			chosen[inside[i][0]] = true
		}
	}
	needed := func(i int) bool { return slices.ContainsFunc(inside[i], func(k int) bool { return !chosen[k] }) }
	out := &peerCover{all: c.all, used: slices.Sorted(maps.Keys(chosen))}
	for _, k := range out.used {
		out.peers = append(out.peers, classes[k].peer)
	}
	slices.SortFunc(out.peers, cloud.Peer.Compare)
	var rest []addrset.Set
	for i, p := range blocks {
		if needed(i) {
			rest = append(rest, addrset.OfPrefixes(p))
		}
	}
	out.rest = addrset.Union(rest...)
	c.mixed = out
	return out
}

// owners finds the class that an address belongs to.
type owners struct {
	spans []ownedSpan // of IPv4, then of IPv6; sorted within each
	v4    int         // how many of them are of IPv4
}

type ownedSpan struct {
	addrset.Range
	class int
}

func newOwners(classes []Candidate, used []int) owners {
	var v4, v6 []ownedSpan
	for _, k := range used {
		for _, r := range classes[k].addrs.IPv4() {
			v4 = append(v4, ownedSpan{r, k})
		}
		for _, r := range classes[k].addrs.IPv6() {
			v6 = append(v6, ownedSpan{r, k})
		}
	}
	for _, spans := range [][]ownedSpan{v4, v6} {
		slices.SortFunc(spans, func(a, b ownedSpan) int { return a.From.Compare(b.From) })
	}
	return owners{append(v4, v6...), len(v4)}
}

// of returns the classes with addresses in the set, sorted; -1 is among them if some addresses
// belong to none.
func (o owners) of(set addrset.Set) []int {
	var out []int
	look := func(spans []ownedSpan, parts addrset.Ranges) {
		for _, part := range parts {
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
		}
	}
	look(o.spans[:o.v4], set.IPv4())
	look(o.spans[o.v4:], set.IPv6())
	slices.Sort(out)
	return slices.Compact(out)
}

// Shortfall tells what a class is short of; it is nil for one that fits. What takes long to find
// out is found out when it is called.
type Shortfall func() Shortage

func ShortfallOf(short *Shortage) Shortfall {
	if short == nil {
		return nil
	}
	return func() Shortage { return *short }
}

// Fit returns the rules of a class in the first form that fits into the quota: references first,
// because they need no edit when members come and go, and then as many mixed forms as are
// necessary.
func (s *Fitter) Fit(c *Class, want [2]flow.Permit, held [][]cloud.Rule, f Forms) (rules []cloud.Rule, packed [][]cloud.Rule, short Shortfall) {
	known := s.Fitting(c, want, f)
	if known.Fits() {
		if named := s.division(c.Network).named; known.named != named {
			f.repeat = known.mixed
			s.spendOn(want, c.Network)
			known.rules, known.named = s.lower.Lower(s.Traffic(c, want, &f)), named
		}
		packed, _ = s.lower.Pack(known.rules, held, s.QuotaOf(c, f.Slots))
		return known.rules, packed, nil
	}
	if !known.excluded() {
		known.mayFit, known.counted = s.MayFit(c, want, f), true
	}
	count := func() (rules []cloud.Rule, packed [][]cloud.Rule) {
		if !known.known {
			rules, packed, known.mixed, known.short = s.tryForms(c, want, held, f)
			known.known, known.rules, known.named = true, rules, s.division(c.Network).named
		}
		return rules, packed
	}
	if known.mayFit {
		if rules, packed = count(); known.Fits() {
			return rules, packed, nil
		}
	}
	return nil, nil, func() Shortage {
		count()
		return *known.short
	}
}

// tryForms counts the rules in one form after the other. It returns them in the first form that
// fits, and which that is; or else what is lacking.
func (s *Fitter) tryForms(c *Class, want [2]flow.Permit, held [][]cloud.Rule, f Forms) (rules []cloud.Rule, packed [][]cloud.Rule, mixed []bool, short *Shortage) {
	q := s.QuotaOf(c, f.Slots)
	if bound := s.AtLeast(c, want, &f, q); bound != nil && bound.Needed > farBeyond*bound.Available {
		return nil, nil, nil, bound
	}
	for {
		s.spendOn(want, c.Network)
		t := s.Traffic(c, want, &f)
		if surplus := f.references - room(q); surplus > 0 && f.change(s, c.Network, surplus) {
			continue
		}
		rules = s.lower.Lower(t)
		packed, shortage := s.lower.Pack(rules, held, q)
		if shortage == nil {
			return rules, packed, f.choice(), nil
		}
		if short == nil || shortage.Needed < short.Needed {
			short = shortage
		}
		if !f.spelled && s.worthSpelling(want) {
			f.spelled, f.asked, f.references = true, nil, 0
			continue
		}
		if !f.change(s, c.Network, shortage.Needed-shortage.Available) {
			return nil, nil, nil, short
		}
	}
}

// MayFit reports false if the references alone, in the form with the fewest of them, are too many
// for the class.
func (s *Fitter) MayFit(c *Class, want [2]flow.Permit, f Forms) bool {
	q := s.QuotaOf(c, f.Slots)
	if q.GroupsPerInterface <= 0 || s.AtLeast(c, want, &f, q) != nil {
		return false
	}
	for quick := (Forms{counts: true, Trial: f.Trial}); ; {
		s.spendOn(want, c.Network)
		s.Traffic(c, want, &quick)
		surplus := quick.references - room(q)
		if surplus <= 0 {
			return true
		}
		if !quick.change(s, c.Network, surplus) {
			return false
		}
	}
}

// spendOn is the effort of naming what two halves allow.
func (s *Fitter) spendOn(want [2]flow.Permit, view *intent.Network) {
	named := len(s.classCandidates(view)) + 4
	s.Effort.Spend(500)
	for _, h := range want {
		plain := 0
		for _, cell := range h.Grants {
			plain += cell.Anonymous.Len()
		}
		s.Effort.Spend(len(h.Grants) * plain / 2)
		for _, cell := range h.Grants {
			units := 1 + cell.All.Len()/8
			if !cell.All.Equal(cell.Anonymous) {
				units += named / 4
			}
			s.Effort.Spend(units)
		}
	}
}

// Fits reports whether the class would fit if it wanted something else.
func (s *Fitter) Fits(c *Class, want [2]flow.Permit, held [][]cloud.Rule, f Forms) bool {
	if known := s.Fitting(c, want, f); known.known || known.excluded() {
		return known.Fits()
	}
	_, _, short := s.Fit(c, want, held, f)
	return short == nil
}

// room is how many rules of a direction and family an interface can have.
func room(q Quota) int { return q.RulesPerGroup * q.GroupsPerInterface }
