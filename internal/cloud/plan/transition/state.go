package transition

import (
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan/addrset"
	"github.com/nephele-io/nephele/internal/cloud/plan/flow"
	"github.com/nephele-io/nephele/internal/cloud/plan/model"
)

// moment says which of the groups of an interface that is under way count. Interfaces move one by
// one and in any order, but whether one is a member of a group depends on nothing but its own move.
type moment bool

const (
	// before: those that it holds until it moves.
	before moment = false
	// after: those that it holds then.
	after moment = true
)

// state is the cloud at one point of the plan, with the moves of one batch under way.
type state struct {
	survey  *Survey
	groups  map[string]*cloud.Group // by ID, those to be created included
	exists  map[string]bool
	rules   map[string][]cloud.Rule              // present rules, sorted
	refs    map[string][]referral                // by the group that is referred to, sorted
	holders map[string][]*cohort                 // those that hold a group, or may hold it already
	members map[string]map[memberKey]addrset.Set // by group
	moving  int                                  // cohorts that are under way
}

type memberKey struct {
	network string
	moment  moment
}

func newState(s *Survey) *state {
	st := &state{
		survey: s, groups: map[string]*cloud.Group{}, exists: map[string]bool{}, rules: map[string][]cloud.Rule{}, refs: map[string][]referral{},
		holders: map[string][]*cohort{}, members: map[string]map[memberKey]addrset.Set{},
	}
	for i := range s.To.Groups {
		st.groups[s.To.Groups[i].ID] = &s.To.Groups[i]
	}
	for i := range s.From.Groups {
		g := &s.From.Groups[i]
		st.groups[g.ID], st.exists[g.ID] = g, true
		st.setRules(g.ID, cloud.RuleKeys(g.Rules))
	}
	for _, k := range s.cohorts {
		for _, g := range k.at {
			st.holders[g] = append(st.holders[g], k)
		}
	}
	return st
}

// referral are the rules of a group that refer to another one.
type referral struct {
	from  string
	rules []cloud.Rule
}

// setRules gives a group its present rules.
func (st *state) setRules(group string, rules []cloud.Rule) {
	at := func(id string) (int, bool) {
		return slices.BinarySearchFunc(st.refs[id], group, func(r referral, g string) int { return strings.Compare(r.from, g) })
	}
	for _, r := range st.rules[group] {
		if i, found := at(r.Peer.GroupID); found {
			st.refs[r.Peer.GroupID] = slices.Delete(st.refs[r.Peer.GroupID], i, i+1)
		}
	}
	st.rules[group] = rules
	for _, r := range rules {
		id := r.Peer.GroupID
		if id == "" {
			continue
		}
		i, found := at(id)
		if !found {
			st.refs[id] = slices.Insert(st.refs[id], i, referral{from: group})
		}
		st.refs[id][i].rules = append(st.refs[id][i].rules, r)
	}
}

// referring finds the rules by which a cohort's move changes what others allow: those that refer to
// groups that it joins or leaves. They come with each cohort that may hold such a rule in reach.
func (st *state) referring(k *cohort, groups []string) iter.Seq2[*cohort, referral] {
	return func(yield func(*cohort, referral) bool) {
		for _, g := range groups {
			for _, ref := range st.refs[g] {
				for _, y := range st.holders[ref.from] {
					if st.survey.from.Reaches(y.network, k.network) && !yield(y, ref) {
						return
					}
				}
			}
		}
	}
}

// options are the groups that a cohort may hold at this moment: one set, or two while it moves.
func (c *cohort) options() [][]string {
	if c.next == nil {
		return [][]string{c.at}
	}
	return [][]string{c.at, c.next}
}

// joins are the groups that a cohort under way comes to hold, and leaves those that it gives up.
func (c *cohort) joins() []string  { return without(c.next, c.at...) }
func (c *cohort) leaves() []string { return without(c.at, c.next...) }

// without are groups but for some of them.
func without(groups []string, gone ...string) []string {
	return slices.DeleteFunc(slices.Clone(groups), func(g string) bool { return slices.Contains(gone, g) })
}

// under marks a cohort as moving.
func (st *state) under(k *cohort, next []string) {
	k.next = next
	st.moving++
	for _, g := range k.joins() {
		st.holders[g] = append(st.holders[g], k)
		st.joined(k, g, after)
	}
	for _, g := range k.leaves() {
		st.forget(g, after)
	}
}

// revert takes a mark away.
func (st *state) revert(k *cohort) {
	for _, g := range k.joins() {
		st.withdraw(k, g)
		st.forget(g, after)
	}
	for _, g := range k.leaves() {
		st.forget(g, after)
	}
	k.next = nil
	st.moving--
}

// arrive makes the move of a cohort done.
func (st *state) arrive(k *cohort) {
	for _, g := range k.joins() {
		st.joined(k, g, before)
	}
	for _, g := range k.leaves() {
		st.withdraw(k, g)
		st.forget(g, before)
	}
	k.at, k.next = k.next, nil
	st.moving--
}

// withdraw takes a cohort out of the holders of a group.
func (st *state) withdraw(k *cohort, group string) {
	st.holders[group] = slices.DeleteFunc(slices.Clone(st.holders[group]), func(o *cohort) bool { return o == k })
}

// joined adds a cohort to what is remembered of the members of a group.
func (st *state) joined(k *cohort, group string, m moment) {
	for key, set := range st.members[group] {
		if key.moment == m && st.survey.from.Reaches(key.network, k.network) {
			st.members[group][key] = set.Union(k.addrs)
		}
	}
}

// forget drops what is remembered of the members of a group at a moment.
func (st *state) forget(group string, m moment) {
	maps.DeleteFunc(st.members[group], func(k memberKey, _ addrset.Set) bool { return k.moment == m })
}

// addresses are those that a peer of a rule means in a network.
func (st *state) addresses(p cloud.Peer, network string, m moment) (addrset.Set, bool) {
	if p.GroupID == "" || st.groups[p.GroupID] == nil {
		return st.survey.from.Addresses(p, network)
	}
	key := memberKey{network, m}
	set, ok := st.members[p.GroupID][key]
	if !ok {
		var sets []addrset.Set
		for _, k := range st.holders[p.GroupID] {
			groups := k.at
			if k.next != nil && m == after {
				groups = k.next
			}
			if slices.Contains(groups, p.GroupID) && st.survey.from.Reaches(network, k.network) {
				sets = append(sets, k.addrs)
			}
		}
		set = addrset.Union(sets...)
		if st.members[p.GroupID] == nil {
			st.members[p.GroupID] = map[memberKey]addrset.Set{}
		}
		st.members[p.GroupID][key] = set
	}
	return set, true
}

// anyone returns the addresses that a peer means before or after the moves that are under way.
func (st *state) anyone(p cloud.Peer, network string) (addrset.Set, bool) {
	was, known := st.addresses(p, network, before)
	if st.moving == 0 || !known {
		return was, known
	}
	will, _ := st.addresses(p, network, after)
	return was.Union(will), true
}

// rulesOf are the present rules of groups in a direction.
func (st *state) rulesOf(groups []string, d cloud.Direction) []cloud.Rule {
	var out []cloud.Rule
	for _, g := range cloud.Deciding(groups, st.group) {
		for _, r := range st.rules[g] {
			if r.Direction == d {
				out = append(out, r)
			}
		}
	}
	return out
}

func (st *state) group(id string) *cloud.Group { return st.groups[id] }

// slots is how many of the groups that an interface can hold are taken: one, where one group
// decides alone.
func (st *state) slots(groups []string) int { return len(cloud.Deciding(groups, st.group)) }

// always is what rules allow in a network, whichever interfaces have moved by now.
func (st *state) always(rules []cloud.Rule, network string) flow.Permit {
	at := func(m moment) flow.Permit {
		return model.Permit(rules, func(p cloud.Peer) model.Meaning { return model.Known(st.addresses(p, network, m)) })
	}
	if st.moving == 0 {
		return at(before)
	}
	return at(before).Intersect(at(after))
}

// planned reports whether a group is still to be created.
func planned(id string) bool { return strings.HasPrefix(id, model.PlannedGroupID) }
