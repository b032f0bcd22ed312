package intent

import (
	"fmt"
	"strings"

	"github.com/nephele-io/nephele/internal/cloud/plan/addrset"
	"github.com/nephele-io/nephele/internal/cloud/plan/flow"
)

// While a service cannot be read, its interfaces do not show which groups they natively belong to.
// Rules of others that refer to groups may mean them or not. What the rules were taken to mean when
// the service was read is what is allowed now; so where its own groups decide what an interface
// allows, it goes on allowing what it allows now with the interfaces of unread services, as far as
// no policy takes it away. That opens nothing, and a missing right cuts nothing.

// unreadAddrs returns the addresses in reach of a network that belong to the interfaces of unread
// services.
func (s *Region) unreadAddrs(view *Network) addrset.Set {
	return s.unread.Get(view, func() addrset.Set { return addrsOf(s.OfUnread, view) })
}

// kept is what an interface under control allows now, of what it allows with the interfaces of
// unread services; no grants if that is nothing.
func (s *Region) kept(n *NIC) (out [2]flow.Permit) {
	unread := s.unreadAddrs(n.Network)
	if unread.Empty() || !n.Taken() || n.Unproven != nil {
		return out
	}
	for i, h := range s.Actual(n.GroupIDs, n.Network) {
		for _, c := range h.Grants {
			c.All = c.All.Intersect(unread)
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
	if len(s.OfUnread) == 0 {
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
