package plan

import (
	"slices"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan/addrset"
	"github.com/nephele-io/nephele/internal/cloud/plan/flow"
)

// swap is a rule that becomes another one in place: the cloud changes it in one call, so that the group needs no room for both.
type swap struct{ from, to cloud.Rule }

// A swap is made where interfaces do not move yet, among the early changes. What comes may come then, and what goes may go: either no
// holder shall keep anything of it, or what shall stay is said by the new rule and by rules that no swap touches. So it does not matter
// in which order the swaps of one call take effect, nor whether they do before, between or after one another.

// pair finds rules of the group that go and rules that come which can take their place, and decides whether to make use of that: where
// the group has no room for both, and where it takes no more calls.
func (k *checker) pair(e *edit) {
	if e.group.existing == nil || len(e.stale) == 0 || len(e.earlyAdd) == 0 {
		return
	}
	all := k.pairs(e)
	late := slices.DeleteFunc(slices.Clone(all), func(w swap) bool { return !slices.Contains(e.lateRemove, w.from) })
	best, fewest := []swap(nil), e.calls(nil)
	if len(k.holders[e.group.key]) > 0 && !k.lower.Fits(union(without(e.current, e.earlyRemove), e.group.rules), k.quota()) {
		fewest = e.calls(late) // whatever it costs
	}
	for _, swaps := range [][]swap{late, all} {
		if n := e.calls(swaps); len(swaps) > 0 && n <= fewest {
			best, fewest = swaps, n
		}
	}
	for _, w := range best {
		if slices.Contains(e.lateRemove, w.from) {
			e.lateRemove = without(e.lateRemove, []cloud.Rule{w.from})
			e.earlyRemove = append(e.earlyRemove, w.from)
		}
	}
	e.swaps = best
}

// pairs returns the swaps that could be made, first those of rules that would go late otherwise.
func (k *checker) pairs(e *edit) (out []swap) {
	byPeer, byMatch := map[swapKey][]cloud.Rule{}, map[swapKey][]cloud.Rule{}
	for _, n := range e.earlyAdd {
		byPeer[peerKeyOf(n)] = append(byPeer[peerKeyOf(n)], n)
		if n.Peer.CIDR.IsValid() {
			byMatch[matchKeyOf(n)] = append(byMatch[matchKeyOf(n)], n)
		}
	}
	stay := without(e.current, e.stale)
	taken := map[cloud.Rule]bool{} // by a swap, or because a swap counts on them
	for i, o := range slices.Concat(e.lateRemove, e.earlyRemove) {
		alike := byPeer[peerKeyOf(o)]
		if o.Peer.CIDR.IsValid() {
			alike = slices.Concat(alike, byMatch[matchKeyOf(o)])
		}
		for _, n := range alike {
			if taken[n] {
				continue
			}
			if i < len(e.lateRemove) {
				added := slices.DeleteFunc(slices.Clone(e.earlyAdd), func(r cloud.Rule) bool { return taken[r] || r == n || !related(o, r) })
				if !k.harmless(e, swap{o, n}, stay) {
					if !k.harmless(e, swap{o, n}, slices.Concat(stay, added)) {
						continue
					}
					for _, r := range added {
						taken[r] = true
					}
				}
			}
			out, taken[n] = append(out, swap{o, n}), true
			break
		}
	}
	return out
}

// swapKey is what an old and a new rule must have in common: the peer, or all but the address.
type swapKey struct {
	direction cloud.Direction
	match     cloud.Match
	peer      cloud.Peer
	v6        bool
}

func peerKeyOf(r cloud.Rule) swapKey { return swapKey{direction: r.Direction, peer: r.Peer} }

func matchKeyOf(r cloud.Rule) swapKey {
	return swapKey{direction: r.Direction, match: r.Match, v6: r.Peer.CIDR.Addr().Is6()}
}

// related reports whether the second rule may allow some of what the first one allows.
func related(a, b cloud.Rule) bool {
	return a.Direction == b.Direction &&
		(a.Peer == b.Peer || b.Peer.CIDR.IsValid() && (!a.Peer.CIDR.IsValid() || a.Peer.CIDR.Overlaps(b.Peer.CIDR)))
}

// harmless reports whether nothing is missing that shall stay when the swap has been made and the other rules are there.
func (k *checker) harmless(e *edit, w swap, others []cloud.Rule) bool {
	if slices.ContainsFunc(e.lateAdd, func(o cloud.Rule) bool { return o.Direction == w.from.Direction && o.Peer == w.from.Peer }) {
		return false // which counts on the stale ones
	}
	now, then, known := k.addresses(w.from.Peer, e.group.class.network)
	if !known {
		return false
	}
	by := append(slices.Clip(others), w.to)
	for _, y := range k.holders[e.group.key] {
		if !saidBy(y.want[indexOf(w.from.Direction)], w.from, now.Union(then), by) {
			return false
		}
	}
	return true
}

// saidBy reports whether everything that the half allows of the rule to the addresses is said by the other rules: by one for the same peer,
// or by several for addresses.
func saidBy(h flow.Permit, r cloud.Rule, addrs addrset.Set, by []cloud.Rule) bool {
	cells, s := h.Grants, flow.ServiceOf(r.Match)
	if s.Protocol != cloud.AnyProtocol {
		cells = h.Within(s)
	}
	for _, c := range cells {
		left := c.All.Intersect(addrs)
		for _, o := range by {
			if left.Empty() {
				break
			}
			if !related(r, o) || !flow.ServiceOf(o.Match).Covers(c.Service) {
				continue
			}
			if o.Peer == r.Peer {
				left = addrset.Set{}
			} else {
				left = left.Minus(addrset.OfPrefixes(o.Peer.CIDR))
			}
		}
		if !left.Empty() {
			return false
		}
	}
	return true
}

// calls is how many calls the changes of the rules that are there and of those that come early take with the swaps: one for each direction
// and kind of change, and one for all swaps.
func (e *edit) calls(swaps []swap) int {
	var from, to []cloud.Rule
	for _, w := range swaps {
		from, to = append(from, w.from), append(to, w.to)
	}
	n := 0
	for _, rules := range [][]cloud.Rule{without(e.earlyRemove, from), without(e.earlyAdd, to), without(e.lateRemove, from)} {
		for _, d := range directions {
			if slices.ContainsFunc(rules, func(r cloud.Rule) bool { return r.Direction == d }) {
				n++
			}
		}
	}
	if len(swaps) > 0 {
		n++
	}
	return n
}

// keep gives up the swaps of rules that have to stay for a while.
func (e *edit) keep(rules []cloud.Rule) {
	e.swaps = slices.DeleteFunc(e.swaps, func(w swap) bool { return slices.Contains(rules, w.from) })
}

// early is what happens to the rules before interfaces move.
func (e *edit) early() ruleChange {
	var from, to []cloud.Rule
	for _, w := range e.swaps {
		from, to = append(from, w.from), append(to, w.to)
	}
	return ruleChange{without(e.earlyRemove, from), without(e.earlyAdd, to), e.swaps}
}

func (e *emitter) swapOp(g *group, swaps []swap) {
	if len(swaps) == 0 {
		return
	}
	op := cloud.Op{Kind: cloud.OpReplaceRules}
	for _, w := range swaps {
		w.to.Description = ruleDescription
		op.Rules, op.Replaced = append(op.Rules, w.to), append(op.Replaced, w.from)
	}
	e.add(g.class.network.ID, onGroup(g, op))
	e.becauseOfRules(g.class, op.Rules)
}
