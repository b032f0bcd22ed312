package plan

import (
	"slices"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan/addrset"
	"github.com/nephele-io/nephele/internal/cloud/plan/flow"
)

// bridging finds rules that hold only while interfaces move. There are two gaps that they bridge. An interface that has moved already
// is to reach one that has not: its new group also names a group that the other one still holds. An interface that has not moved yet
// is to reach one that has: its old group, if that is ours, also names a group that the other one will hold. If the holders of such a
// group are not all within the promise, the addresses of the other interfaces are named.
type bridging struct {
	*regionState
	subjects map[string][]*atom      // group key -> interfaces that hold the group now or shall hold it
	contents map[string][]cloud.Rule // group key -> the rules it has, those it shall have, and those that all bridges so far need
	full     map[string]bool         // whether a group has no room for any
	scratch  []cloud.Rule
	tried    map[crossing]bool // whether a rule for a group is taken. What is not once never is: bridges only become more
}

// crossing is a rule for the sake of which a group is named as well.
type crossing struct {
	holder    string
	direction cloud.Direction
	match     cloud.Match
	peer      cloud.Peer
}

func (s *regionState) newBridging() *bridging {
	b := &bridging{regionState: s, subjects: map[string][]*atom{}, contents: map[string][]cloud.Rule{}, full: map[string]bool{}, tried: map[crossing]bool{}}
	for _, a := range s.atoms {
		for _, key := range a.current {
			b.subjects[key] = append(b.subjects[key], a)
		}
		for _, key := range a.joining {
			b.subjects[key] = append(b.subjects[key], a)
		}
	}
	return b
}

// relax bridges what it can of the demands within a cycle. It reports whether there was any.
func (b *bridging) relax(cycle []*atom, edges []*edge) (relaxed bool) {
	member := map[*atom]bool{}
	for _, a := range cycle {
		member[a] = true
	}
	b.in.effort.spend(len(edges) / 8)
	for _, e := range edges {
		if e.bridged || !member[e.first] || !member[e.then] {
			continue
		}
		e.bridged = true
		for i := range e.causes {
			if e.bridged = b.find(&e.causes[i]); !e.bridged {
				break
			}
		}
		relaxed = relaxed || e.bridged
	}
	return relaxed
}

// find looks for rules that bridge the gap of one cause.
func (b *bridging) find(c *cause) bool {
	if c.bridges != nil || c.hopeless {
		return !c.hopeless
	}
	c.hopeless = !b.look(c)
	return !c.hopeless
}

func (b *bridging) look(c *cause) bool {
	b.in.effort.spend(5)
	wanted, ours := b.byKey[c.holder], b.owned(b.groups[c.holder])
	if c.joins && wanted == nil || !c.joins && !ours || wanted != nil && b.literal[wanted.class.key] {
		return false
	}
	if b.content(c.holder); b.full[c.holder] {
		return false
	}
	view := b.subjects[c.holder][0].network
	keys := c.peer.target
	if c.joins {
		keys = c.peer.current
	}
	for _, key := range keys {
		peer := cloud.Peer{GroupID: key}
		if g := b.byKey[key]; g != nil {
			if peer = g.peer(); g.existing == nil && g.class.network != view {
				continue // its ID is not known in this round
			}
		}
		at := crossing{c.holder, c.rule.Direction, c.rule.Match, peer}
		taken, known := b.tried[at]
		if !known && view.reaches(c.peer.network) {
			now, then, known := b.addresses(peer, view)
			taken = known && b.accept(c, now.Union(then), []cloud.Peer{peer})
			b.tried[at] = taken
		}
		if taken && view.reaches(c.peer.network) {
			c.bridges = c.across([]cloud.Peer{peer})
			return true
		}
	}
	var hosts []cloud.Peer
	family := flow.Family(c.rule.Match.Protocol)
	for _, p := range c.peer.private.Intersect(family).Prefixes() {
		hosts = append(hosts, cloud.Peer{CIDR: p})
	}
	return b.accept(c, c.peer.private, hosts)
}

// accept takes the peers as a bridge if it fits, and if everybody who is subject to it may be allowed the addresses.
func (b *bridging) accept(c *cause, addrs addrset.Set, peers []cloud.Peer) bool {
	rules := c.across(peers)
	had := b.content(c.holder)
	b.scratch = append(b.scratch[:0], had...)
	for _, r := range rules {
		if !slices.Contains(had, r) {
			b.scratch = append(b.scratch, r)
		}
	}
	if !b.lower.Fits(b.scratch, b.quota()) {
		return false
	}
	for _, a := range b.subjects[c.holder] {
		if !a.may(c.rule.Direction, flow.ServiceOf(c.rule.Match), addrs) {
			return false
		}
	}
	b.contents[c.holder], c.bridges = slices.Clone(b.scratch), rules
	return true
}

// content returns the rules of a group with all bridges so far.
func (b *bridging) content(key string) []cloud.Rule {
	if has, known := b.contents[key]; known {
		return has
	}
	var has []cloud.Rule
	if g := b.groups[key]; g != nil {
		has = ruleKeys(g.Rules)
	}
	if g := b.byKey[key]; g != nil {
		has = union(has, g.rules)
	}
	b.contents[key] = has
	b.full[key] = !b.lower.Fits(has, b.quota())
	return has
}

// across returns the rules that bridge the gap if the peers are named.
func (c *cause) across(peers []cloud.Peer) []cloud.Rule {
	rules := make([]cloud.Rule, 0, len(peers))
	for _, p := range peers {
		rules = append(rules, cloud.Rule{Direction: c.rule.Direction, Match: c.rule.Match, Peer: p})
	}
	return rules
}

// build plans the bridges that the order needs: early into the groups concerned, and out again at the end.
func (s *regionState) build(b *bridging, order []*atom, edges []*edge) {
	position := map[*atom]int{}
	for i, a := range order {
		position[a] = i
	}
	needed := map[string][]cloud.Rule{}
	for _, e := range edges {
		if !e.bridged || e.first != e.then && position[e.first] < position[e.then] {
			continue
		}
		for _, c := range e.causes {
			needed[c.holder] = append(needed[c.holder], c.bridges...)
		}
	}
	s.bridges = map[string][]cloud.Rule{}
	for _, key := range sortedKeys(needed) {
		rules := ruleKeys(needed[key])
		g := b.byKey[key]
		if g == nil {
			s.bridges[key] = without(rules, ruleKeys(s.groups[key].Rules))
			continue
		}
		e := s.edits[g]
		e.earlyRemove, e.replaced = without(e.earlyRemove, rules), without(e.replaced, rules)
		e.lateAdd = without(e.lateAdd, rules)
		e.keep(rules)
		for _, r := range rules {
			if !slices.Contains(e.current, r) && !slices.Contains(e.earlyAdd, r) {
				e.earlyAdd = append(e.earlyAdd, r)
			}
			if !slices.Contains(g.rules, r) && !slices.Contains(e.lateRemove, r) {
				e.lateRemove = append(e.lateRemove, r)
			}
		}
	}
}
