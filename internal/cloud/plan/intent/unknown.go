package intent

import (
	"fmt"
	"strings"

	"github.com/nephele-io/nephele/internal/cloud/plan/addrset"
	"github.com/nephele-io/nephele/internal/cloud/plan/flow"
)

// Of an interface whose record is not believed nobody knows which groups it natively belongs to.
// Rules of others that refer to groups may mean it or not. What they were taken to mean when all
// was well is what is allowed now; so where its own groups decide what an interface allows, it goes
// on allowing what it allows now with interfaces of which nothing is known, as far as no policy
// takes it away. That opens nothing, and whoever writes into a record cuts nothing either.

// strangers returns the addresses in reach of a network that belong to interfaces whose record is
// not believed.
func (s *Region) strangers(view *Network) addrset.Set {
	return s.unknown.Get(view, func() addrset.Set { return addrsOf(s.Unknown, view) })
}

// kept is what an interface under control allows now, of what it allows with strangers; no grants
// if that is nothing.
func (s *Region) kept(n *NIC) (out [2]flow.Permit) {
	strangers := s.strangers(n.Network)
	if strangers.Empty() || !n.Taken() || n.Unproven != nil {
		return out
	}
	for i, h := range s.Actual(n.GroupIDs, n.Network) {
		for _, c := range h.Grants {
			c.All = c.All.Intersect(strangers)
			c.Anonymous, c.Plain, c.Opaque = c.All, c.All, nil
			out[i].Grants = append(out[i].Grants, c)
		}
		if out[i].Empty() {
			out[i] = flow.Permit{}
		}
	}
	return out
}

// KeptKey identifies it; empty if it is nothing. The label is what stands for it in the tags of
// groups, and identifies nothing.
func (s *Region) KeptKey(n *NIC) (key, label string) {
	if len(s.Unknown) == 0 {
		return "", ""
	}
	var b, short strings.Builder
	for i, h := range s.kept(n) {
		for _, c := range h.Grants {
			if !c.All.Empty() {
				fmt.Fprintf(&b, "|%d %v %s", i, c.Service, mark(fmt.Sprint(c.All.Prefixes())))
				fmt.Fprintf(&short, "|%d %v %x", i, c.Service, c.All.Hash())
			}
		}
	}
	return b.String(), short.String()
}
