package target

import (
	"slices"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan/addrset"
	"github.com/nephele-io/nephele/internal/cloud/plan/intent"
)

// memory keeps what many classes and rules ask for again and again within one computation.
type memory struct {
	made map[string][]*cloud.Group       // of the whole computation: groups of ours by the class that they were made for
	then map[thenKey]addrset.Set         // of the present targets
	near map[*intent.Network]addrset.Set // of the whole computation: see Target.near

	// Of one attempt.
	classes map[*intent.Network][]candidate
	covers  map[coverKey][]*peerCover
	crews   map[membershipGroup]*crew
	// referable are the addresses that rules in a network can name by classes.
	referable map[*intent.Network]addrset.Set
	// unions are these together with other addresses, by the numbers of the latter.
	unions map[*intent.Network]map[string]addrset.Set
	// divisions are those of the addresses that are referable.
	divisions map[*intent.Network]division
	trials    map[trialKey]candidate
	// within tells which classes allowed addresses contain.
	within map[withinKey][]answer
}

// reset forgets what belongs to an attempt.
func (m *memory) reset() {
	m.then, m.classes, m.covers, m.crews, m.referable, m.unions, m.divisions, m.trials, m.within = nil, nil, nil, nil, nil, nil, nil, nil, nil
}

// thenAddrs returns the addresses that a reference to the group will mean.
func (s *fitter) thenAddrs(key string, view *intent.Network) addrset.Set {
	at := thenKey{key, view}
	set, ok := s.memory.then[at]
	if !ok {
		if s.memory.then == nil {
			s.memory.then = map[thenKey]addrset.Set{}
		}
		set = addressesOf(s.WantHeld[key], view)
		s.memory.then[at] = set
	}
	return set
}

type thenKey struct {
	group string
	view  *intent.Network
}

// coverKey stands for the question which classes cover addresses; the sets are compared where the
// hashes are equal.
type coverKey struct {
	view         *intent.Network
	allowed, all uint64
}

// peerCover is the answer: the indexes of the class candidates, in their order, and what remains.
type peerCover struct {
	allowed, all addrset.Set
	family       addrset.Set
	used         []int
	peers        []cloud.Peer // of used, sorted
	rest         addrset.Set
	mixed        *peerCover // see mix
	length       int        // see size
}

// coverByClasses covers addresses by gatherings and classes of which nothing is outside the allowed
// ones. Classes have no addresses in common.
func (s *fitter) coverByClasses(view *intent.Network, addrs, allowed, family addrset.Set) *peerCover {
	key := coverKey{view, allowed.Hash(), addrs.Hash()}
	for _, c := range s.memory.covers[key] {
		if c.all.Equal(addrs) && c.allowed.Equal(allowed) && c.family.Equal(family) {
			return c
		}
	}
	out := &peerCover{allowed: allowed, all: addrs, family: family, rest: addrs}
	if !addrs.Empty() {
		var taken []addrset.Set
		for i, c := range s.classCandidates(view) {
			set := c.in(family)
			if !set.Overlaps(out.rest) || !set.Within(allowed) {
				continue
			}
			out.used, out.peers = append(out.used, i), append(out.peers, c.peer)
			if s.gathering(c.peer) {
				out.rest = out.rest.Minus(set)
				continue
			}
			taken = append(taken, set)
		}
		out.rest = out.rest.Minus(addrset.Union(taken...))
		slices.SortFunc(out.peers, cloud.Peer.Compare)
	}
	if s.memory.covers == nil {
		s.memory.covers = map[coverKey][]*peerCover{}
	}
	s.memory.covers[key] = append(s.memory.covers[key], out)
	return out
}
