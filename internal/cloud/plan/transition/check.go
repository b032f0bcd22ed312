package transition

import (
	"slices"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan/addrset"
	"github.com/nephele-io/nephele/internal/cloud/plan/flow"
)

// Kind is what is wrong with an edit.
type Kind string

// The kinds of violations.
const (
	// Leak: a flow would be allowed that is allowed neither now nor in the end.
	Leak Kind = "leak"
	// Gap: a flow would be cut that is allowed both now and in the end.
	Gap Kind = "gap"
	// Room: a group, an interface or the region has no room for it.
	Room Kind = "room"
	// Name: a rule refers to a group of another network that is still to be created, whose ID is
	// not known.
	Name Kind = "name"
)

// Violation is why an edit is not clean at this moment.
type Violation struct {
	Kind Kind
	// Network is where it would be done.
	Network string
	// Group and Rule are the edit of a rule; Group alone is a group that is to be created or
	// deleted.
	Group string
	Rule  cloud.Rule
	// Interfaces are those that would move.
	Interfaces []string
	// Direction, Service and Addrs are the flow, seen from Holders, whose rules allow it or do not
	// any more.
	Direction cloud.Direction
	Service   flow.Service
	Addrs     addrset.Set
	Holders   []string
	// Needed and Available are the numbers where there is no room.
	Needed, Available int

	mover, holder *cohort
}

func ids(k *cohort) []string {
	out := make([]string, len(k.interfaces))
	for i, n := range k.interfaces {
		out[i] = n.ID
	}
	return out
}

func violation(kind Kind, holder *cohort, i int, s flow.Service, addrs addrset.Set) *Violation {
	return &Violation{Kind: kind, Direction: flow.Directions()[i], Service: s, Addrs: addrs, Holders: ids(holder), holder: holder}
}

// leaks looks for a flow that a holder must not be allowed at any time.
func (st *state) leaks(y *cohort, r cloud.Rule, groups []string) *Violation {
	i, service := flow.Index(r.Direction), flow.ServiceOf(r.Match)
	addrs, known := st.anyone(r.Peer, y.network)
	if !known {
		if !flow.AllowEither(y.now[i], y.then[i], service, r.Peer) {
			return violation(Leak, y, i, service, addrs)
		}
		return nil
	}
	if addrs = y.others(addrs); addrs.Empty() || y.may(i, service, addrs, groups) {
		return nil
	}
	return violation(Leak, y, i, service, addrs)
}

// lacks looks for a flow of those that a cohort must be allowed that is not allowed by these rules.
// Only flows with another cohort count, unless that is nil, and only those that the other end
// allows all the time, too.
func (st *state) lacks(y *cohort, i int, must flow.Permit, rules []cloud.Rule, towards *cohort) *Violation {
	if y.pausing {
		return nil
	}
	only := addrset.All()
	if towards != nil {
		if only = y.others(towards.addrs); only.Empty() {
			return nil
		}
	}
	for want, have := range flow.Overlay(must, st.always(rules, y.network)) {
		if towards == nil {
			for _, p := range want.Opaque {
				if lost, known := have.Lacks(p); !known || !y.others(lost).Empty() {
					return violation(Gap, y, i, want.Service, addrset.Set{})
				}
			}
		}
		rest := y.others(want.All.Minus(have.All).Intersect(only))
		if !rest.Empty() && st.missed(y, i, want.Service, rest) {
			return violation(Gap, y, i, want.Service, rest)
		}
	}
	return nil
}

// misses returns the cohorts between which and this one flows would be cut if it moved now.
func (st *state) misses(k *cohort) map[*cohort]bool {
	out := map[*cohort]bool{}
	if slices.ContainsFunc(k.to, func(g string) bool { return !st.exists[g] }) {
		return out
	}
	st.under(k, k.to)
	defer st.revert(k)
	for i, d := range flow.Directions() {
		is := st.always(st.rulesOf(k.to, d), k.network)
		for want, have := range flow.Overlay(k.least[i], is) {
			rest := k.others(want.All.Minus(have.All))
			for _, x := range st.survey.cohorts {
				if !out[x] && st.survey.from.Reaches(k.network, x.network) && x.addrs.Overlaps(rest) && st.missed(k, i, want.Service, rest.Intersect(x.addrs)) {
					out[x] = true
				}
			}
		}
	}
	for y := range st.referring(k, k.leaves()) {
		for i, d := range flow.Directions() {
			if !out[y] && st.lacks(y, i, y.least[i], st.rulesOf(y.at, d), k) != nil {
				out[y] = true
			}
		}
	}
	return out
}

// covers reports whether rules of a group, with what else its holders have, give them all that an
// old one gives and that they must be allowed all the time.
func (st *state) covers(group string, old cloud.Rule, rules []cloud.Rule) bool {
	i := flow.Index(old.Direction)
	return !slices.ContainsFunc(st.holders[group], func(y *cohort) bool {
		has := overlapping(old, slices.Concat(st.rulesOf(without(y.at, group), old.Direction), rules))
		return st.lacks(y, i, y.least[i].Intersect(st.always([]cloud.Rule{old}, y.network)), has, nil) != nil
	})
}

// overlapping are the rules among some that may match packets that another one matches.
func overlapping(with cloud.Rule, rules []cloud.Rule) []cloud.Rule {
	service := flow.ServiceOf(with.Match)
	return slices.DeleteFunc(slices.Clone(rules), func(r cloud.Rule) bool {
		return r.Direction != with.Direction || !service.MayOverlap(flow.ServiceOf(r.Match))
	})
}

// missed reports whether somebody misses a flow to or from the addresses: an address that no
// interface here has, or an interface that allows its half of it all the time and does not pause.
// An interface that is kept never allows again what it has lost on the way, so that its peers miss
// what they allow in the end.
func (st *state) missed(y *cohort, i int, s flow.Service, addrs addrset.Set) bool {
	for _, x := range st.survey.cohorts {
		if !st.survey.from.Reaches(y.network, x.network) || !x.addrs.Overlaps(addrs) {
			continue
		}
		// What is unknown there may be anybody.
		if !x.pausing && (y.kept || x.now[1-i].MayTouch(s, y.all)) && x.end[1-i].MayTouch(s, y.all) {
			return true
		}
		addrs = addrs.Minus(x.addrs)
	}
	return !addrs.Empty()
}

// checkAdd is the question about a rule of a group, while nobody moves. Whether there is room for
// it is another one.
func (st *state) checkAdd(group string, r cloud.Rule) *Violation {
	peer := st.groups[r.Peer.GroupID]
	switch {
	case peer != nil && (peer.View || planned(peer.ID) && peer.NetworkID != st.groups[group].NetworkID):
		return &Violation{Kind: Name, Group: group, Rule: r}
	case !st.exists[group] || planned(r.Peer.GroupID) && !st.exists[r.Peer.GroupID]:
		return &Violation{Kind: Room, Group: group, Rule: r}
	}
	for _, y := range st.holders[group] {
		if v := st.leaks(y, r, y.at); v != nil {
			v.Group, v.Rule = group, r
			return v
		}
	}
	return nil
}

// mayBridge reports whether a rule may be there as long as others move: there is room, and nobody
// gets anything by it that is not allowed all the time.
func (st *state) mayBridge(group string, r cloud.Rule) bool {
	if st.checkAdd(group, r) != nil || !st.survey.Fits(append(slices.Clone(st.rules[group]), r)) {
		return false
	}
	i, service := flow.Index(r.Direction), flow.ServiceOf(r.Match)
	return !slices.ContainsFunc(st.holders[group], func(y *cohort) bool {
		addrs, known := st.anyone(r.Peer, y.network)
		if !known {
			return !flow.AllowEither(y.least[i], y.least[i], service, r.Peer)
		}
		return !y.least[i].Allows(service, y.others(addrs))
	})
}

// checkRules is the question about removing rules from a group, or adding some in their place,
// while nobody moves: rules are those that it has afterwards.
func (st *state) checkRules(group string, rules []cloud.Rule) *Violation {
	for _, y := range st.holders[group] {
		for i, d := range flow.Directions() {
			after := slices.Concat(st.rulesOf(without(y.at, group), d), inDirection(rules, d))
			if v := st.lacks(y, i, y.least[i], after, nil); v != nil {
				v.Group = group
				return v
			}
		}
	}
	return nil
}

func inDirection(rules []cloud.Rule, d cloud.Direction) []cloud.Rule {
	return slices.DeleteFunc(slices.Clone(rules), func(r cloud.Rule) bool { return r.Direction != d })
}

// checkMove is the question about a cohort's move, which may happen before or after any other that
// is under way, an interface at a time. If it is clean the cohort is under way then.
func (st *state) checkMove(k *cohort, next []string) *Violation {
	for _, g := range next {
		if !st.exists[g] {
			return &Violation{Kind: Room, Group: g, mover: k, Interfaces: ids(k)}
		}
	}
	if st.slots(next) > st.survey.Limits.GroupsPerInterface {
		return &Violation{Kind: Room, mover: k, Interfaces: ids(k), Needed: len(next), Available: st.survey.Limits.GroupsPerInterface}
	}
	st.under(k, next)
	v := st.checkOwn(k)
	if v == nil {
		v = st.checkOthers(k)
	}
	if v != nil {
		st.revert(k)
		v.mover, v.Interfaces = k, ids(k)
	}
	return v
}

// checkOwn asks what the cohort allows once it has moved.
func (st *state) checkOwn(k *cohort) *Violation {
	for i, d := range flow.Directions() {
		rules := st.rulesOf(k.next, d)
		for _, r := range rules {
			if v := st.leaks(k, r, k.next); v != nil {
				v.Rule = r
				return v
			}
		}
		if v := st.lacks(k, i, k.least[i], rules, nil); v != nil {
			return v
		}
	}
	return nil
}

// checkOthers asks what others allow while the cohort moves: those whose rules refer to groups that
// it joins or leaves.
func (st *state) checkOthers(k *cohort) *Violation {
	for y, ref := range st.referring(k, k.joins()) {
		addrs := y.others(k.addrs)
		if addrs.Empty() {
			continue
		}
		for _, r := range ref.rules {
			i, service := flow.Index(r.Direction), flow.ServiceOf(r.Match)
			for _, groups := range y.options() {
				if slices.Contains(groups, ref.from) && !y.may(i, service, addrs, groups) {
					v := violation(Leak, y, i, service, addrs)
					v.Group, v.Rule = ref.from, r
					return v
				}
			}
		}
	}
	type half struct {
		y      *cohort
		option int
		i      int
	}
	asked := map[half]bool{}
	for y, ref := range st.referring(k, k.leaves()) {
		for option, groups := range y.options() {
			for i, d := range flow.Directions() {
				x := half{y, option, i}
				refers := slices.ContainsFunc(ref.rules, func(r cloud.Rule) bool { return r.Direction == d })
				if asked[x] || !refers || !slices.Contains(groups, ref.from) {
					continue
				}
				asked[x] = true
				if v := st.lacks(y, i, y.least[i], st.rulesOf(groups, d), k); v != nil {
					return v
				}
			}
		}
	}
	return nil
}
