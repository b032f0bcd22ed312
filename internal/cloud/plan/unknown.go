package plan

import (
	"fmt"
	"strings"

	"github.com/nephele-io/nephele/internal/cloud/plan/addrset"
	"github.com/nephele-io/nephele/internal/cloud/plan/flow"
)

// Of an interface whose record is not believed nobody knows which groups it natively belongs to. Rules of others that refer to groups may mean it
// or not. What they were taken to mean when all was well is what is allowed now; so where its own groups decide what an interface allows, it
// goes on allowing what it allows now with interfaces of which nothing is known, as far as no policy takes it away. That opens nothing, and
// whoever writes into a record cuts nothing either.

// strangers returns the addresses in reach of a network that belong to interfaces whose record is not believed.
func (s *region) strangers(view *network) addrset.Set {
	if len(s.unknown) == 0 {
		return addrset.Set{}
	}
	out, known := s.strangerCache[view]
	if !known {
		out = addrsOf(s.unknown, view)
		s.strangerCache[view] = out
	}
	return out
}

// kept is what an interface under control allows now, of what it allows with strangers; no grants if that is nothing.
func (s *region) kept(n *iface) (out [2]flow.Permit) {
	strangers := s.strangers(n.network)
	if strangers.Empty() || !n.taken() || n.unproven != "" {
		return out
	}
	for i, h := range s.actual(n.GroupIDs, n.network) {
		any := false
		for _, c := range h.Grants {
			c.All = c.All.Intersect(strangers)
			c.Anonymous, c.Plain, c.Opaque = c.All, c.All, nil
			any = any || !c.All.Empty()
			out[i].Grants = append(out[i].Grants, c)
		}
		if !any {
			out[i] = flow.Permit{}
		}
	}
	return out
}

// keptKey identifies it; empty if it is nothing.
func (s *region) keptKey(n *iface) string {
	if len(s.unknown) == 0 {
		return ""
	}
	var b strings.Builder
	for i, h := range s.kept(n) {
		for _, c := range h.Grants {
			if !c.All.Empty() {
				fmt.Fprintf(&b, "|%d %v %x", i, c.Service, c.All.Hash())
			}
		}
	}
	return b.String()
}

// leans reports whether an interface that no policy applies to any more would lose something with strangers if it was given back: its own groups
// do not allow by themselves what it allows now.
func (s *regionState) leans(n *nic) bool {
	if len(s.unknown) == 0 || n.vm == nil || n.released != "" || !n.taken() || n.unproven != "" || !s.native(n) || s.keptKey(n.iface) == "" {
		return false
	}
	with := s.decided(n.iface, nil, "")
	for i, d := range directions {
		f := flattening{view: n.network, native: s.groupRules(n.former, d)}
		if len(with[i].Minus(f.flatten(s.region))) > 0 {
			s.note(n.ID, "it stays under control although no policy applies: rules of its own groups refer to groups, and of "+s.unknown[0].ID+
				", with which it has to do, nobody knows whether it belongs to them")
			return true
		}
	}
	return false
}
