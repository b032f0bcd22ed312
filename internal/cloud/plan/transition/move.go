package transition

import (
	"cmp"
	"slices"

	"github.com/nephele-io/nephele/internal/cloud"
)

// urgent moves interfaces that wait for nobody.
func (w *worklist) urgent() {
	var rest []*cohort
	for _, k := range w.movers {
		if !slices.ContainsFunc(k.interfaces, func(n *cloud.Interface) bool { return w.survey.Urgent[n.ID] }) {
			rest = append(rest, k)
			continue
		}
		w.st.under(k, k.to)
		w.st.arrive(k)
		for _, n := range k.interfaces {
			w.set(n)
			w.script.steps[len(w.script.steps)-1].Urgent = true
		}
		k.now, k.least, k.most = k.then, k.then, k.then // nobody is to wait for what they no longer are
	}
	w.movers = rest
	w.script.next()
}

// repair has interfaces leave the groups that somebody has put them into, as far as they hold
// others, too. That opens nothing.
func (w *worklist) repair() {
	var under []*cohort
	for _, k := range w.movers {
		if kept := without(k.at, k.drifted...); len(kept) > 0 && len(kept) < len(k.at) {
			w.st.under(k, kept)
			under = append(under, k)
		}
	}
	if len(under) > 0 {
		w.depart(under)
	}
	w.movers = slices.DeleteFunc(w.movers, func(k *cohort) bool { return slices.Equal(k.at, k.to) })
}

// move moves all interfaces that may move now, in any order.
func (w *worklist) move() (done bool) {
	var under, rest []*cohort
	for _, k := range w.movers {
		w.survey.stop()
		if v := w.st.checkMove(k, k.to); v != nil {
			w.block(v)
			rest = append(rest, k)
			continue
		}
		under = append(under, k)
	}
	w.movers = rest
	w.depart(under)
	return len(under) > 0
}

// depart emits the moves of cohorts that are under way, and makes them done. Tags that remember
// former groups are written before an interface moves, while others move, and removed after it, in
// the same way.
func (w *worklist) depart(under []*cohort) {
	var moved []*cloud.Interface
	for _, k := range under {
		w.st.arrive(k)
		moved = append(moved, k.interfaces...)
	}
	w.script.steps = slices.Grow(w.script.steps, len(moved)+len(moved)/8) // with the calls that tag
	trains := slices.Collect(slices.Chunk(moved, w.survey.Batch))
	var last, train []*cloud.Interface
	for _, following := range append(trains, nil, nil) {
		w.script.next()
		w.tags.tagInterfaces(cloud.OpTag, following)
		w.forgetTags(last)
		for _, n := range train {
			w.set(n)
		}
		last, train = train, following
	}
}

// set has an interface hold the groups that its cohort holds.
func (w *worklist) set(n *cloud.Interface) {
	op := cloud.Op{Kind: cloud.OpSetInterfaceGroups, Target: n.ID}
	for _, id := range w.survey.cohortOf[n.ID].at {
		if planned(id) {
			op.GroupNames = append(op.GroupNames, w.st.groups[id].Name)
		} else {
			op.GroupIDs = append(op.GroupIDs, id)
		}
	}
	w.script.emit(n.NetworkID, op)
}

// forgetTags removes tags from interfaces that have the wanted groups.
func (w *worklist) forgetTags(interfaces []*cloud.Interface) {
	var there []*cloud.Interface
	for _, n := range interfaces {
		if k := w.survey.cohortOf[n.ID]; slices.Equal(k.at, k.to) {
			there = append(there, n)
		}
	}
	w.tags.tagInterfaces(cloud.OpUntag, there)
}

// join makes interfaces that would be missed on either side of their move join their new groups now
// and leave the old ones later. It picks as few as possible, so first the interfaces that most
// others would miss.
func (w *worklist) join() bool {
	misses := map[*cohort]int{}
	missed := map[*cohort]int{}
	for _, k := range w.movers[:min(len(w.movers), triedJoins)] {
		w.survey.stop()
		for o := range w.st.misses(k) {
			if o != k {
				misses[k]++
				missed[o]++
			}
		}
	}
	order := slices.Clone(w.movers)
	slices.SortStableFunc(order, func(a, b *cohort) int {
		return cmp.Compare(misses[b]*missed[b]*len(a.interfaces), misses[a]*missed[a]*len(b.interfaces))
	})
	for _, k := range order {
		both := distinct(slices.Concat(k.at, k.to))
		if k.atomic || slices.Equal(both, k.at) || slices.Equal(both, k.to) {
			continue
		}
		if w.st.checkMove(k, both) == nil {
			w.depart([]*cohort{k})
			return true
		}
	}
	return false
}

// triedJoins bounds how many cohorts are looked at to find the one whose joining helps most.
const triedJoins = 256
