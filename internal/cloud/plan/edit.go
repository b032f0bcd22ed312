package plan

import (
	"slices"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan/addrset"
	"github.com/nephele-io/nephele/internal/cloud/plan/flow"
)

// edit is how the rules of one wanted group change, in the five moments at which a plan changes rules: the early changes come before
// interfaces move, the late ones after all of them have.
type edit struct {
	group                 *group
	earlyRemove, earlyAdd []cloud.Rule
	// replaced are removed after the early additions of all groups, which say the same anew.
	replaced            []cloud.Rule
	lateAdd, lateRemove []cloud.Rule
	current, stale      []cloud.Rule
	// swaps are pairs of an early removal and an early addition that are made in one call, after the others of the group.
	swaps []swap
}

// checker holds what checkEdits knows of one attempt.
type checker struct {
	*regionState
	holders, wanters map[string][]*atom
	retry            bool
}

// checkEdits decides when which rule changes, such that at every moment every interface allows at least what it is allowed both before
// and after, and at most what it is allowed before or after. Where no moment is right it rules out the reuse of an existing group, and
// reports that the design has to be made again.
//
// What can go wrong, seen from an interface y whose rules refer to a group g: others join g while y still has an old rule that
// refers to it; others have not left g yet while y already has a new rule that does; and y, being about to join or to leave a group
// whose rules change, is subject to rules that are not meant for it.
func (s *regionState) checkEdits() (retry bool) {
	k := &checker{regionState: s, holders: map[string][]*atom{}, wanters: map[string][]*atom{}}
	for _, a := range s.atoms {
		for _, key := range a.current {
			k.holders[key] = append(k.holders[key], a)
		}
		for _, key := range a.target {
			k.wanters[key] = append(k.wanters[key], a)
		}
	}
	s.edits = map[*group]*edit{}
	groups := s.allGroups()
	for _, g := range groups {
		s.edits[g] = k.begin(g)
	}
	for _, g := range groups {
		k.placeAdditions(s.edits[g])
		k.pair(s.edits[g])
	}
	k.checkJoinedPeers()
	k.checkRestored()
	for _, g := range groups {
		e := s.edits[g]
		k.checkJoiners(e)
		e.lateRemove = without(e.lateRemove, e.replaced)
		if len(k.holders[g.key]) > 0 && !s.lower.Fits(union(without(e.current, e.earlyRemove), g.rules), s.quota()) {
			k.ban(g)
		}
	}
	return k.retry
}

func union(a, b []cloud.Rule) []cloud.Rule { return ruleKeys(slices.Concat(a, b)) }

// ban rules out that the class goes on using the group; it gets a fresh one instead.
func (k *checker) ban(g *group) {
	if g.existing == nil {
		return
	}
	key := g.class.key
	if k.banned[key] == nil {
		k.banned[key] = map[string]bool{}
	}
	if !k.banned[key][g.existing.ID] {
		k.banned[key][g.existing.ID] = true
		k.retry = true
	}
}

// callsPerWait is about how many calls a class costs in which interfaces wait: its group comes and goes, and others refer to it meanwhile.
const callsPerWait = 10

// evade deals with interfaces that must not join in this round because of the group: either they wait in a class of their own, with what
// they are allowed before and after, and join in the next round; or the class of the group gets a fresh one, and all that stay in the class
// have to move. What takes fewer calls is done.
func (k *checker) evade(g *group, joiners ...*atom) {
	if g.existing == nil {
		return
	}
	staying := 0
	for _, a := range k.holders[g.key] {
		if a.keeps(g.key) {
			staying += len(a.nics)
		}
	}
	waits := k.evaded[g.key]
	if waits == nil {
		waits = map[*nic]bool{}
		k.evaded[g.key] = waits
	}
	able := len(joiners) > 0
	for _, a := range joiners {
		able = able && a.canWait()
		for _, n := range a.nics {
			waits[n] = true
		}
	}
	if !able || len(waits)+callsPerWait > staying {
		k.ban(g)
		return
	}
	for n := range waits {
		if k.restrict[n] != [2]bool{true, true} {
			k.restrict[n] = [2]bool{true, true}
			k.retry = true
		}
	}
}

// canWait reports whether the interfaces are under control before and after, so that they can be given a class for the time between.
func (a *atom) canWait() bool {
	return !slices.ContainsFunc(a.nics, func(n *nic) bool { return n.state != Guarded || !n.taken() || len(n.ours) == 0 })
}

// begin compares the group with what it is now, and finds the rules that may go at once: those that only open what no holder shall
// keep.
func (k *checker) begin(g *group) *edit {
	e := &edit{group: g}
	if g.existing == nil {
		return e
	}
	e.current = ruleKeys(g.existing.Rules)
	e.stale = without(e.current, g.rules)
	for _, r := range e.stale {
		now, then, known := k.addresses(r.Peer, g.class.network)
		early := known || len(k.holders[g.key]) == 0
		for _, y := range k.holders[g.key] {
			early = early && !y.want[indexOf(r.Direction)].Touches(flow.ServiceOf(r.Match), now.Union(then))
		}
		if early {
			e.earlyRemove = append(e.earlyRemove, r)
		} else {
			e.lateRemove = append(e.lateRemove, r)
		}
	}
	return e
}

// checkJoinedPeers looks at the groups that interfaces join while rules refer to them that stay until later.
func (k *checker) checkJoinedPeers() {
	type reference struct {
		holder string
		rule   cloud.Rule
	}
	refs := map[string][]reference{}
	for i := range k.snap.Groups {
		h := &k.snap.Groups[i]
		if len(k.holders[h.ID]) == 0 {
			continue
		}
		var gone []cloud.Rule
		if g := k.byKey[h.ID]; g != nil {
			gone = k.edits[g].earlyRemove
		}
		for _, r := range without(ruleKeys(h.Rules), gone) {
			if r.Peer.GroupID != "" {
				refs[r.Peer.GroupID] = append(refs[r.Peer.GroupID], reference{h.ID, r})
			}
		}
	}
	for _, z := range k.atoms {
		for _, key := range z.joining {
			for _, ref := range refs[key] {
				for _, y := range k.holders[ref.holder] {
					if !y.network.reaches(z.network) || y.may(ref.rule.Direction, flow.ServiceOf(ref.rule.Match), z.private) {
						continue
					}
					if h := k.byKey[ref.holder]; h != nil && slices.Contains(k.edits[h].lateRemove, ref.rule) && k.replace(k.edits[h], ref.rule) {
						continue
					}
					if g := k.byKey[key]; g != nil {
						k.evade(g, z)
					} else {
						k.holdBack(z)
					}
				}
			}
		}
	}
}

// checkRestored looks at interfaces that get native groups back whose rules refer to groups that somebody holds only until later.
func (k *checker) checkRestored() {
	for _, y := range k.atoms {
		for _, key := range y.joining {
			g := k.groups[key]
			if g == nil || k.byKey[key] != nil {
				continue
			}
			for _, r := range g.Rules {
				if r.Peer.GroupID == "" {
					continue
				}
				if now, _, known := k.addresses(r.Peer, y.network); known && !y.may(r.Direction, flow.ServiceOf(r.Match), now) {
					k.holdBack(y)
				}
			}
		}
	}
}

// holdBack keeps interfaces guarded that were to be given back; meanwhile their former groups decide everything.
func (k *checker) holdBack(a *atom) {
	for _, n := range a.nics {
		if !k.hold[n] {
			k.hold[n] = true
			k.retry = true
		}
	}
}

// checkJoiners looks at interfaces that join the group while it still has rules that are not meant for them.
func (k *checker) checkJoiners(e *edit) {
	for _, r := range e.lateRemove {
		now, then, known := k.addresses(r.Peer, e.group.class.network)
		for _, j := range k.wanters[e.group.key] {
			if j.holds(e.group.key) || known && j.may(r.Direction, flow.ServiceOf(r.Match), now.Union(then)) || k.replace(e, r) {
				continue
			}
			k.evade(e.group, j)
		}
	}
}

// replace lets a stale rule go before interfaces move, if rules that are there by then give the same peer all of it that is to stay. It
// reports whether that is so.
func (k *checker) replace(e *edit, r cloud.Rule) bool {
	if slices.Contains(e.replaced, r) {
		return true
	}
	if slices.ContainsFunc(e.lateAdd, func(o cloud.Rule) bool { return o.Direction == r.Direction && o.Peer == r.Peer }) {
		return false // which counts on the stale ones
	}
	now, then, known := k.addresses(r.Peer, e.group.class.network)
	by := slices.DeleteFunc(slices.Concat(e.current, e.earlyAdd), func(o cloud.Rule) bool { return slices.Contains(e.stale, o) })
	for _, y := range k.holders[e.group.key] {
		if !known || !spoken(y.want[indexOf(r.Direction)], r, now.Union(then), by) {
			return false
		}
	}
	e.replaced = append(e.replaced, r)
	return true
}

// spoken reports whether everything that the half allows of the rule to the addresses is said by one of the other rules for the same peer.
func spoken(h flow.Permit, r cloud.Rule, addrs addrset.Set, by []cloud.Rule) bool {
	cells, s := h.Grants, flow.ServiceOf(r.Match)
	if s.Protocol != cloud.AnyProtocol {
		cells = h.Within(s)
	}
	for _, c := range cells {
		if c.All.Overlaps(addrs) && !slices.ContainsFunc(by, func(o cloud.Rule) bool {
			return o.Direction == r.Direction && o.Peer == r.Peer && flow.ServiceOf(o.Match).Covers(c.Service)
		}) {
			return false
		}
	}
	return true
}

// placeAdditions decides when the new rules come, and checks the rules that stay for the sake of the interfaces that join.
func (k *checker) placeAdditions(e *edit) {
	g := e.group
	for _, r := range g.rules {
		k.in.effort.spend(1 + len(k.wanters[g.key]) + len(k.holders[g.key]))
		stays := slices.Contains(e.current, r)
		now, then, known := k.addresses(r.Peer, g.class.network)
		if !known {
			now, then = addrset.Set{}, addrset.Set{}
		}
		d, s := r.Direction, flow.ServiceOf(r.Match)
		peerFits := true
		var early []*atom // those that would join too early
		for _, y := range k.wanters[g.key] {
			if stays && y.holds(g.key) || y.may(d, s, now) {
				continue
			}
			peerFits = false
			if y.holds(g.key) {
				early = nil
				break
			}
			early = append(early, y)
		}
		leaversFit := true
		for _, x := range k.holders[g.key] {
			leaversFit = leaversFit && (stays || x.keeps(g.key) || known && x.may(d, s, now.Union(then)))
		}
		switch {
		case stays && peerFits:
		case peerFits && leaversFit:
			e.earlyAdd = append(e.earlyAdd, r)
		case !stays && k.mayWait(e, r, then):
			e.lateAdd = append(e.lateAdd, r)
		case !peerFits:
			k.banPeer(g, r.Peer, early)
		default:
			k.ban(g)
		}
	}
}

// mayWait reports whether nobody who shall hold the group is allowed any of the rule now, unless by a rule for the same peer that stays
// until the end, so that nothing is missing before.
func (k *checker) mayWait(e *edit, r cloud.Rule, then addrset.Set) bool {
	by := without(e.current, e.earlyRemove)
	for _, y := range k.wanters[e.group.key] {
		now := y.now[indexOf(r.Direction)]
		if now.Touches(flow.ServiceOf(r.Match), then) && !spoken(now, r, then, by) {
			return false
		}
	}
	return true
}

// banPeer rules out that the group's rules refer to the peer while others still have to leave it, or that the interfaces join that make
// this wrong, if it is only they.
func (k *checker) banPeer(g *group, p cloud.Peer, early []*atom) {
	if other := k.byKey[groupKey(p)]; other != nil {
		k.evade(other, early...)
		return
	}
	key := g.class.key
	if k.unfit[key] == nil {
		k.unfit[key] = map[string]bool{}
	}
	if !k.unfit[key][p.GroupID] {
		k.unfit[key][p.GroupID] = true
		k.retry = true
	}
}
