package form

import (
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan/addrset"
	"github.com/nephele-io/nephele/internal/cloud/plan/guard"
	"github.com/nephele-io/nephele/internal/cloud/plan/intent"
)

// memory keeps what many classes and rules ask for again and again within one attempt.
type memory struct {
	then intent.Once[thenKey, addrset.Set] // of the present targets

	classes intent.Once[*intent.Network, []Candidate]
	covers  intent.Once[coverKey, *peerCover]
	// byClasses are the addresses that rules in a network can name by classes, and divisions are
	// their divisions.
	byClasses intent.Once[*intent.Network, addrset.Set]
	divisions intent.Once[*intent.Network, division]
	// spans tells which classes but gatherings have addresses where.
	spans intent.Once[*intent.Network, owners]
	// used and ruled are the classes that rules refer to.
	used, ruled marks
	// within tells which classes allowed addresses contain.
	within intent.Once[withinKey, []answer]
}

// marks is a set of small numbers that is emptied without a look at any of them.
type marks struct {
	at   []int // when each was added
	turn int
}

// begin empties the set, which numbers below n can be added to from then on.
func (m *marks) begin(n int) *marks {
	if len(m.at) < n {
		m.at = make([]int, n)
	}
	m.turn++
	return m
}

// add reports whether a number was not in the set before.
func (m *marks) add(i int) bool {
	added := m.at[i] != m.turn
	m.at[i] = m.turn
	return added
}

// Forget begins a new attempt.
func (m *memory) Forget() { *m = memory{} }

// ForgetTargets is for an attempt that gives interfaces other groups.
func (m *memory) ForgetTargets() { m.then = nil }

// ThenAddrs returns the addresses that a reference to the group will mean.
func (s *Fitter) ThenAddrs(key string, view *intent.Network) addrset.Set {
	return s.then.Get(thenKey{key, view}, func() addrset.Set { return guard.AddressesOf(s.WantHeld[key], view) })
}

type thenKey struct {
	group string
	view  *intent.Network
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

// size is how many rules name the members, for one service and the family with more of them.
func (c *peerCover) size() int {
	if c.length == 0 {
		for _, family := range Families() {
			c.length = max(c.length, len(c.peers)+len(c.rest.Intersect(family.All).Prefixes()))
		}
	}
	return c.length
}
