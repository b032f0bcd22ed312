package transition

import (
	"cmp"
	"slices"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan/model"
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

// forgetTags removes tags from those of the interfaces that are where they shall be.
func (w *worklist) forgetTags(interfaces []*cloud.Interface) {
	var there []*cloud.Interface
	for _, n := range interfaces {
		if k := w.survey.cohortOf[n.ID]; slices.Equal(k.at, k.to) {
			there = append(there, n)
		}
	}
	w.tags.tagInterfaces(cloud.OpUntag, there)
}

// join has interfaces that would be missed on either side of their move join their new groups, and
// leave the old ones later: as few as possible, so those first of whom most others miss someone.
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
		most := w.survey.Limits.GroupsPerInterface
		if w.st.slots(both) == 1 {
			most = max(most, len(both))
		}
		if w.pass(k, fitting(both, k.to, most)) {
			return true
		}
	}
	return w.joinOne(order)
}

// shed has interfaces that hold all of their new groups leave old ones one after the other.
func (w *worklist) shed() bool {
	for _, k := range w.movers {
		w.survey.stop()
		all := distinct(slices.Concat(k.at, k.to))
		if !k.atomic && slices.Equal(all, k.at) && w.pass(k, fitting(all, k.to, min(w.survey.Limits.GroupsPerInterface, len(all)-1))) {
			return true
		}
	}
	return false
}

// pass has a cohort hold the first of some sets of groups that it may hold on its way.
func (w *worklist) pass(k *cohort, sets [][]string) bool {
	for _, groups := range sets {
		if !slices.Equal(groups, k.to) && w.st.checkMove(k, groups) == nil {
			w.depart([]*cohort{k})
			return true
		}
	}
	return false
}

// joinOne has one cohort that somebody has put into a group join a single one of its new groups.
// Others of them may admit that group, and it cannot leave it before it has joined this one.
func (w *worklist) joinOne(order []*cohort) bool {
	for _, k := range order {
		if _, put := w.withoutStrange(k); !put {
			continue
		}
		for _, g := range k.to {
			with := distinct(append(slices.Clone(k.at), g))
			if !slices.Contains(k.at, g) && !slices.Equal(with, k.to) && w.st.checkMove(k, with) == nil {
				w.depart([]*cohort{k})
				return true
			}
		}
	}
	return false
}

// withoutStrange returns the groups of a cohort without those of others that it shall not hold in
// the end, and whether somebody has put it into such a group beside ours. One that has to move by
// one edit does not count.
func (w *worklist) withoutStrange(k *cohort) (kept []string, put bool) {
	kept = slices.DeleteFunc(slices.Clone(k.at), func(g string) bool { return !w.survey.owns(g) && !slices.Contains(k.to, g) })
	return kept, !k.atomic && len(kept) > 0 && len(kept) < len(k.at)
}

// mostLeft bounds how many groups too many there may be.
const mostLeft = 2

// fitting returns the largest sets of groups that an interface may hold on its way: all of those
// that it will hold, and of the others as many as there is room for.
func fitting(all, kept []string, most int) (out [][]string) {
	switch {
	case len(all) <= most:
		return [][]string{all}
	case len(all) > most+mostLeft:
		return nil
	}
	for i, g := range all {
		if !slices.Contains(kept, g) {
			for _, set := range fitting(slices.Delete(slices.Clone(all), i, i+1), kept, most) {
				if !slices.ContainsFunc(out, func(o []string) bool { return slices.Equal(o, set) }) {
					out = append(out, set)
				}
			}
		}
	}
	return out
}

// mostSplits bounds how many cohorts are taken apart.
const mostSplits = 64

// split takes a cohort apart whose interfaces would miss one another while they move, so that those
// who would be missed can go first.
func (w *worklist) split() bool {
	for _, v := range w.blocked {
		k := v.mover
		if k == nil || v.holder != k || v.Kind != Gap || w.splits == mostSplits {
			continue
		}
		var missed, rest []*cloud.Interface
		for _, n := range k.interfaces {
			if model.Private(n).Overlaps(v.Addrs) {
				missed = append(missed, n)
			} else {
				rest = append(rest, n)
			}
		}
		if len(missed) == 0 || len(rest) == 0 {
			continue
		}
		w.splits++
		first := *k
		first.hold(missed)
		k.hold(rest)
		for _, n := range missed {
			w.survey.cohortOf[n.ID] = &first
		}
		for _, g := range k.at {
			w.st.holders[g] = append(slices.Clip(w.st.holders[g]), &first)
		}
		clear(w.st.members)
		w.survey.cohorts, w.movers = append(w.survey.cohorts, &first), append(w.movers, &first)
		return true
	}
	return false
}

// triedJoins bounds how many cohorts are looked at to find the one whose joining helps most.
const triedJoins = 256
