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
	covers  map[coverKey]*peerCover
	rests   map[[2]int]addrset.Set // what a set leaves of another one, by their numbers
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
	*m = memory{made: m.made, near: m.near}
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

// minus is what a set leaves of another one, remembered.
func (s *fitter) minus(set, other addrset.Set) addrset.Set {
	set, a := s.memo.Set(set)
	other, b := s.memo.Set(other)
	key := [2]int{a, b}
	out, known := s.memory.rests[key]
	if !known {
		out, _ = s.memo.Set(set.Minus(other))
		if s.memory.rests == nil {
			s.memory.rests = map[[2]int]addrset.Set{}
		}
		s.memory.rests[key] = out
	}
	return out
}

// coverKey is the question which classes cover addresses, with the numbers of the sets.
type coverKey struct {
	view                 *intent.Network
	all, allowed, family int
}

// peerCover is the answer: the indexes of the class candidates, in their order, and what remains.
type peerCover struct {
	all    addrset.Set
	used   []int
	peers  []cloud.Peer // of used, sorted
	rest   addrset.Set
	mixed  *peerCover // see mix
	length int        // see size
}

// coverByClasses covers addresses by gatherings and classes of which nothing is outside the allowed
// ones. Classes have no addresses in common.
func (s *fitter) coverByClasses(view *intent.Network, addrs, allowed, family addrset.Set) *peerCover {
	key := coverKey{view: view}
	addrs, key.all = s.memo.Set(addrs)
	allowed, key.allowed = s.memo.Set(allowed)
	family, key.family = s.memo.Set(family)
	if known := s.memory.covers[key]; known != nil {
		return known
	}
	out := &peerCover{all: addrs, rest: addrs}
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
		s.memory.covers = map[coverKey]*peerCover{}
	}
	s.memory.covers[key] = out
	return out
}
