package form

import (
	"cmp"
	"slices"

	"github.com/nephele-io/nephele/internal/cloud/plan/intent"
)

// forms chooses, for the members that the rules of one class name, between a reference to every
// class of members and the mixed form with fewer rules, in which blocks of addresses that members
// of several classes fill stand for these.
type forms struct {
	mixed map[*peerCover]bool
	asked []*peerCover // everything that was to be named, once per service
	// references is how many groups were referred to in the direction with more of them. If counts
	// is set, nothing else is found out.
	references int
	most       int // the index of that direction
	counts     bool
	// spelled is set if prefix lists are named by their entries where these are fewer than a
	// reference counts.
	spelled bool
	// repeat, if not nil, is the choice to be made: for everything that is to be named, in order,
	// whether that is done in the mixed form.
	repeat []bool
}

// count takes note of how many groups are referred to in a direction: of others, and of classes.
func (f *forms) count(direction int, natives []bool, classes int) {
	n := classes
	for _, r := range natives {
		if r {
			n++
		}
	}
	if n > f.references {
		f.references, f.most = n, direction
	}
}

func (f *forms) choose(s *Fitter, view *intent.Network, c *peerCover) *peerCover {
	at := len(f.asked)
	f.asked = append(f.asked, c)
	if f.mixed[c] || at < len(f.repeat) && f.repeat[at] {
		return s.mix(view, c)
	}
	return c
}

// choice is what was chosen.
func (f *forms) choice() []bool {
	out := make([]bool, len(f.asked))
	for i, c := range f.asked {
		out[i] = f.mixed[c]
	}
	return out
}

// change chooses the mixed form where it saves the most, until it has saved so many rules or no
// more can be saved. It reports whether it changed anything.
func (f *forms) change(s *Fitter, view *intent.Network, surplus int) (changed bool) {
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
	return changed
}
