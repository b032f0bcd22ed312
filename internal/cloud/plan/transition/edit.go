package transition

import (
	"maps"
	"slices"

	"github.com/nephele-io/nephele/internal/cloud"
)

// tell emits an operation on a group.
func (w *worklist) tell(id string, op cloud.Op) {
	g := w.st.groups[id]
	op.Group.NetworkID, op.Group.Name = g.NetworkID, g.Name
	if !planned(id) {
		op.Target = id
	}
	op.Rules, op.Replaced = w.outward(op.Rules, id), w.outward(op.Replaced, id)
	w.script.emit(g.NetworkID, op)
}

// outward returns rules of a group as the cloud is told: groups that are to be created by name, and
// with descriptions.
func (w *worklist) outward(rules []cloud.Rule, group string) []cloud.Rule {
	out := slices.Clone(rules)
	for i, r := range rules {
		if id := r.Peer.GroupID; planned(id) {
			out[i].Peer = cloud.Peer{GroupName: w.st.groups[id].Name}
		}
		if text := w.descriptions[placed{group, r.Key()}]; text != "" {
			out[i].Description = text
		}
	}
	return out
}

// create creates groups, as far as the region has room.
func (w *worklist) create() (done bool) {
	w.script.next()
	for _, id := range w.order {
		if w.st.exists[id] {
			continue
		}
		g := w.st.groups[id]
		count := w.crowd(g.NetworkID)
		if count >= w.survey.Limits.GroupsPerRegion {
			w.block(&Violation{Kind: Room, Group: id, Needed: count + 1, Available: w.survey.Limits.GroupsPerRegion})
			continue
		}
		w.st.exists[id], done = true, true
		w.script.emit(g.NetworkID, cloud.Op{Kind: cloud.OpCreateGroup, Group: cloud.GroupSpec{
			NetworkID: g.NetworkID, Name: g.Name, Description: g.Description, Tags: maps.Clone(g.Tags),
		}})
	}
	return done
}

// crowd counts the groups of the region as a creation in a network finds them: what is deleted in
// networks that do not depend on that one may be there still.
func (w *worklist) crowd(network string) (n int) {
	n = w.survey.From.GroupsBeside
	near := w.around(map[string]bool{network: true})
	for id, there := range w.st.exists {
		if !w.st.groups[id].View && (there || w.deleted[id] && !near[w.st.groups[id].NetworkID]) {
			n++
		}
	}
	return n
}

// add adds the rules that may be added now.
func (w *worklist) add() (done bool) {
	w.script.next()
	for _, id := range w.order {
		if !w.st.exists[id] {
			continue
		}
		var clean []cloud.Rule
		for _, r := range missing(w.wanted[id], w.st.rules[id]) {
			if v := w.st.checkAdd(id, r); v != nil {
				w.block(v)
				continue
			}
			clean = append(clean, r)
		}
		added := w.asMany(clean, func(some []cloud.Rule) *Violation {
			if whole := slices.Concat(w.st.rules[id], some); !w.survey.Fits(whole) {
				return &Violation{Kind: Room, Group: id, Needed: len(whole), Available: w.survey.Limits.RulesPerGroup}
			}
			return nil
		})
		if len(added) > 0 {
			done = true
			w.st.setRules(id, sorted(slices.Concat(w.st.rules[id], added)))
			w.tell(id, cloud.Op{Kind: cloud.OpAddRules, Rules: added})
		}
	}
	return done
}

// asMany returns as many of some rules as there is nothing wrong with: all of them, or else those
// that can be had one after the other. It notes what is wrong with each of the rest.
func (w *worklist) asMany(rules []cloud.Rule, wrong func(some []cloud.Rule) *Violation) (right []cloud.Rule) {
	if len(rules) == 0 || wrong(rules) == nil {
		return rules
	}
	for _, r := range rules {
		with := append(right, r)
		if v := wrong(with); v != nil {
			v.Rule = r
			w.block(v)
			continue
		}
		right = with
	}
	return right
}

// missing returns the rules of a that are not in b. Both are sorted.
func missing(a, b []cloud.Rule) (out []cloud.Rule) {
	for _, r := range a {
		for len(b) > 0 && b[0] != r && b[0].Compare(r) < 0 {
			b = b[1:]
		}
		if len(b) == 0 || b[0] != r {
			out = append(out, r)
		}
	}
	return out
}

func sorted(rules []cloud.Rule) []cloud.Rule {
	slices.SortFunc(rules, cloud.Rule.Compare)
	return rules
}

// remove removes the rules that may be removed now.
func (w *worklist) remove() (done bool) {
	w.script.next()
	for _, id := range slices.Concat(w.order, w.doomed) {
		surplus := missing(w.st.rules[id], w.wanted[id])
		if _, kept := w.wanted[id]; !kept && len(w.st.holders[id]) == 0 || len(surplus) == 0 {
			continue // it is deleted anyway
		}
		if len(w.movers) > 0 {
			surplus = slices.DeleteFunc(surplus, func(r cloud.Rule) bool { return w.temp[placed{id, r}] })
		}
		removed := w.asMany(surplus, func(some []cloud.Rule) *Violation { return w.st.checkRules(id, missing(w.st.rules[id], some)) })
		if len(removed) > 0 {
			done = true
			w.st.setRules(id, missing(w.st.rules[id], removed))
			w.tell(id, cloud.Op{Kind: cloud.OpRemoveRules, Rules: removed})
		}
	}
	return done
}

// setWhole writes groups as they shall be, where the cloud writes the rules of a group as one and
// some come while others go: one call, and no moment between. Where that is not clean as a whole,
// what comes and what goes each wait for their moment.
func (w *worklist) setWhole() (done bool) {
	return w.survey.Limits.WholeGroups && w.exchange(func(id string, old, wanted []cloud.Rule) (after []cloud.Rule, op cloud.Op) {
		after = sorted(append(missing(w.st.rules[id], old), wanted...))
		if !w.survey.Fits(after) || w.st.checkRules(id, after) != nil || slices.ContainsFunc(wanted, func(r cloud.Rule) bool {
			return w.st.checkAdd(id, r) != nil
		}) {
			return nil, op
		}
		return after, cloud.Op{Kind: cloud.OpSetRules, Rules: w.described(after, id), Replaced: w.st.rules[id]}
	})
}

// replace turns rules into others in place, where a group has no room for both forms, and where it
// takes no more calls than to add and to remove. The rules of one call may take effect in any
// order.
func (w *worklist) replace() (done bool) {
	return w.exchange(func(id string, old, wanted []cloud.Rule) (after []cloud.Rule, op cloud.Op) {
		crowded := !w.survey.Fits(slices.Concat(w.st.rules[id], wanted))
		olds, news := w.pairs(id, old, wanted)
		if len(olds) == 0 || !crowded && len(olds) < len(old) && len(olds) < len(wanted) {
			return nil, op
		}
		after = sorted(append(missing(w.st.rules[id], sorted(slices.Clone(olds))), news...))
		return after, cloud.Op{Kind: cloud.OpReplaceRules, Rules: news, Replaced: olds}
	})
}

// exchange has rules of groups go while others come. edit returns what rules a group has after an
// operation, given which of its rules are to go and which to come; none if there is nothing to do.
func (w *worklist) exchange(edit func(id string, old, wanted []cloud.Rule) ([]cloud.Rule, cloud.Op)) (done bool) {
	w.script.next()
	touched := map[*cohort]bool{} // in this stage: what one group no longer says another one may have to
	for _, id := range w.order {
		if !w.st.exists[id] {
			continue
		}
		old := slices.DeleteFunc(missing(w.st.rules[id], w.wanted[id]), func(r cloud.Rule) bool { return w.temp[placed{id, r}] })
		wanted := missing(w.wanted[id], w.st.rules[id])
		if len(old) == 0 || len(wanted) == 0 {
			continue
		}
		after, op := edit(id, old, wanted)
		if len(after) == 0 {
			continue
		}
		if slices.ContainsFunc(w.st.holders[id], func(k *cohort) bool { return touched[k] }) {
			w.script.next()
			clear(touched)
		}
		for _, k := range w.st.holders[id] {
			touched[k] = true
		}
		done = true
		w.st.setRules(id, after)
		w.tell(id, op)
	}
	return done
}

// described are rules of a group with the descriptions of those that are there.
func (w *worklist) described(rules []cloud.Rule, id string) []cloud.Rule {
	out := slices.Clone(rules)
	if is := w.survey.from.Group(id); is != nil {
		for i, r := range rules {
			if at := slices.IndexFunc(is.Rules, r.Same); at >= 0 {
				out[i].Description = is.Rules[at].Description
			}
		}
	}
	return out
}

// pairs finds for old rules of a group wanted ones that they can be turned into at this moment,
// with the same peer or the same match: where what the old one gave and shall stay is said by the
// new one and by rules that no pair touches.
func (w *worklist) pairs(id string, old, wanted []cloud.Rule) (olds, news []cloud.Rule) {
	base := missing(w.st.rules[id], old)
	wanted = slices.DeleteFunc(slices.Clone(wanted), func(n cloud.Rule) bool { return w.st.checkAdd(id, n) != nil })
	for _, o := range old {
		w.survey.stop()
		stay := overlapping(o, base)
		at := slices.IndexFunc(wanted, func(n cloud.Rule) bool {
			return (o.Match == n.Match || o.Peer == n.Peer) && o.CanBecome(n) && w.st.covers(id, o, append(slices.Clip(stay), n))
		})
		if at >= 0 {
			olds, news = append(olds, o), append(news, wanted[at])
			wanted = slices.Delete(wanted, at, at+1)
		}
	}
	if !w.survey.Fits(append(missing(w.st.rules[id], sorted(slices.Clone(olds))), news...)) {
		return nil, nil // prefix lists differ in size
	}
	return olds, news
}

// discard deletes the groups of ours that are no longer wanted, once nobody holds them and no rule
// refers to them; none of some networks.
func (w *worklist) discard(spared map[string]bool) (done bool) {
	var free []string
	for _, id := range w.doomed {
		if w.st.exists[id] && len(w.st.holders[id]) == 0 && !spared[w.st.groups[id].NetworkID] {
			free = append(free, id)
		}
	}
	w.script.next()
	for _, id := range free {
		var loose []cloud.Rule
		for _, r := range w.st.rules[id] {
			if r.Peer.GroupID != "" && r.Peer.GroupID != id {
				loose = append(loose, r)
			}
		}
		if len(loose) > 0 {
			w.st.setRules(id, missing(w.st.rules[id], loose))
			w.tell(id, cloud.Op{Kind: cloud.OpRemoveRules, Rules: loose})
		}
	}
	w.script.next()
	for _, id := range free {
		if slices.ContainsFunc(w.st.refs[id], func(r referral) bool { return r.from != id && w.st.exists[r.from] }) {
			continue
		}
		done = true
		w.st.exists[id], w.deleted[id] = false, true
		w.st.setRules(id, nil)
		w.tell(id, cloud.Op{Kind: cloud.OpDeleteGroup})
	}
	return done
}

// describe puts the descriptions of rules right that stay as they are.
func (w *worklist) describe() {
	if w.survey.Described == nil {
		return
	}
	ours := func(r cloud.Rule) bool { return w.survey.Described(r.Description) }
	if !slices.ContainsFunc(w.survey.From.Groups, func(g cloud.Group) bool { return w.survey.Ours(&g) && slices.ContainsFunc(g.Rules, ours) }) {
		return // the cloud seems to keep none
	}
	w.script.next()
	for i := range w.survey.From.Groups {
		g := &w.survey.From.Groups[i]
		var rules []cloud.Rule
		for _, r := range g.Rules {
			if w.survey.Ours(g) && !ours(r) && slices.Contains(w.wanted[g.ID], r.Key()) {
				rules = append(rules, r.Key())
			}
		}
		if len(rules) > 0 {
			w.tell(g.ID, cloud.Op{Kind: cloud.OpReplaceRules, Rules: rules, Replaced: rules})
		}
	}
}
