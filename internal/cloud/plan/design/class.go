package design

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/nephele-io/nephele/internal/cloud/plan/flow"
	"github.com/nephele-io/nephele/internal/cloud/plan/form"
	"github.com/nephele-io/nephele/internal/cloud/plan/guard"
	"github.com/nephele-io/nephele/internal/cloud/plan/intent"
	"github.com/nephele-io/nephele/internal/cloud/plan/record"
)

// formClasses groups the interfaces by what they must allow and by the peers they belong to.
func (s *Designer) formClasses() {
	used, native := s.usedPeers()
	byKey := map[string]*form.Class{}
	s.fitter.Forget()
	s.gatherings.reset()
	s.Classes, s.ClassOf = nil, map[*guard.NIC]*form.Class{}
	for _, n := range s.Guard.NICs {
		if n.State() == guard.Untouched {
			continue
		}
		base, label := s.classKey(n, used, native) // one class in the end
		key := base + s.heldKey(n)
		c := byKey[key]
		if c == nil {
			c = &form.Class{Key: key, Hash: hashOf(label), Network: n.Network, State: n.State(), Frozen: n.Frozen() != nil}
			if n.State() == guard.Guarded {
				c.Want = s.Guard.WantedNow(n)
			}
			if c.Frozen && s.locked(n) {
				s.literal[key] = true
			}
			byKey[key] = c
			s.Classes = append(s.Classes, c)
		}
		c.NICs = append(c.NICs, n)
		s.ClassOf[n] = c
	}
	s.formGatherings(used)
	slices.SortFunc(s.Classes, func(a, b *form.Class) int { return strings.Compare(a.Key, b.Key) })
	for _, c := range s.Classes {
		c.Addrs = guard.AddressesOf(c.NICs, c.Network)
	}
}

// usedPeers returns the address groups and the native groups that rules of guarded interfaces name
// as peers.
func (s *Designer) usedPeers() (used, native map[string]bool) {
	used, native = map[string]bool{}, map[string]bool{}
	profiles := map[string]bool{}
	deciding := map[string][2]bool{} // native groups, with the directions in which they decide something
	for _, n := range s.Guard.NICs {
		if n.State() != guard.Guarded {
			continue
		}
		if n.VM != nil && (!profiles[n.VM.Profile] || n.VM.KeepsAny()) {
			profiles[n.VM.Profile] = true
			addPeers(used, n.VM)
		}
		open := n.Open()
		for _, id := range n.Groups.Former {
			deciding[id] = [2]bool{deciding[id][0] || open[0], deciding[id][1] || open[1]}
		}
	}
	for id, open := range deciding {
		if g := s.Region.Groups[id]; g != nil {
			for _, r := range g.Rules {
				if r.Peer.GroupID != "" && open[flow.Index(r.Direction)] {
					native[r.Peer.GroupID] = true
				}
			}
		}
	}
	for _, groups := range s.Guard.Followed() {
		maps.Copy(native, groups)
	}
	return used, native
}

// classKey is the same for interfaces that are alike in the end. The label is what their group is
// tagged with the hash of; it is as it was before marks in the key were longer, so that no group
// becomes one of another class with that, and identifies nothing.
func (s *Designer) classKey(n *guard.NIC, used, native map[string]bool) (key, label string) {
	if n.Frozen() != nil {
		key = n.Network.ID + "|frozen " + strings.Join(n.GroupIDs, " ")
		return key, key
	}
	var b strings.Builder
	b.WriteString(n.Network.ID + "|" + string(n.State()) + "|")
	if n.Alone {
		b.WriteString(n.ID + " ")
	}
	if n.VM != nil {
		for _, g := range n.VM.Groups {
			if used[g] {
				b.WriteString(g + " ")
			}
		}
	}
	if n.State() == guard.Member {
		return b.String(), b.String()
	}
	b.WriteByte('|')
	_, profile := n.Rules()
	open := n.Open()
	b.WriteString(profile + "|")
	for _, g := range n.Groups.Former {
		if native[g] {
			b.WriteString(g + " ")
		}
	}
	meaning := s.Region.NativeMeaning(n.Groups.Former, open)
	key, label = b.String()+"|"+meaning, b.String()+"|"+intent.ShortMark(meaning)
	return key, label
}

// heldKey tells interfaces of a class apart that are held at what they allow now; empty for those
// that are not. Interfaces that are closed for a while need not be distinguished by what they hold.
func (s *Designer) heldKey(n *guard.NIC) string {
	held := s.Guard.Held(n)
	switch {
	case held == [2]bool{} || n.Frozen() != nil || n.State() == guard.Member:
		return ""
	case s.Guard.Forced(n):
		return fmt.Sprintf("|closed %v", held)
	}
	return fmt.Sprintf("|held %v %s", held, strings.Join(n.GroupIDs, " "))
}

// setTargets decides which groups every interface shall hold.
func (s *Designer) setTargets() {
	s.fitter.ForgetTargets()
	s.Targets, s.WantHeld = make(map[*guard.NIC][]string, len(s.Guard.NICs)), map[string][]*guard.NIC{}
	for _, n := range s.Guard.NICs {
		groups := s.groupsOf(n)
		slices.Sort(groups)
		s.Targets[n] = groups
		for _, g := range groups {
			s.WantHeld[g] = append(s.WantHeld[g], n)
		}
	}
	for _, c := range s.Classes {
		if c.Gathers {
			c.Addrs = s.fitter.ThenAddrs(c.Groups[0].Key, c.Network)
		}
	}
}

// Stays are the interfaces under control that stay as they are: those that keep their rules word
// for word, and those whose rules are written anew when what they name changes.
func (s *Designer) Stays() (literal, kept map[string]bool) {
	literal, kept = map[string]bool{}, map[string]bool{}
	for _, n := range s.Guard.NICs {
		switch c := s.ClassOf[n]; {
		case c == nil:
		case s.literal[c.Key]:
			literal[n.ID] = true
		case c.Frozen && c.State == guard.Guarded:
			kept[n.ID] = true
		}
	}
	return literal, kept
}

// locked reports whether the cloud refuses to change the rules of a group that the interface holds.
func (s *Designer) locked(n *guard.NIC) bool {
	return slices.ContainsFunc(n.GroupIDs, func(id string) bool {
		return s.Account.In.Locked[intent.GroupKey{Region: s.Region.Snap.Region, ID: id}]
	})
}

// groupsOf returns the keys of the groups that an interface shall hold.
func (s *Designer) groupsOf(n *guard.NIC) (out []string) {
	c := s.ClassOf[n]
	switch {
	case n.Record.Unproven != nil && n.State() != guard.Guarded, n.State() == guard.Guarded && s.literal[c.Key]:
		return slices.Clone(n.GroupIDs)
	case n.State() == guard.Guarded:
		for _, g := range c.Groups {
			out = append(out, g.Key)
		}
		return append(out, s.membershipKeys(n)...)
	case n.State() == guard.Member:
		out = slices.Clone(n.Groups.Foreign)
		if n.Taken() {
			out = s.Region.Restorable(n.NIC)
		}
		return append(append(out, c.Groups[0].Key), s.membershipKeys(n)...)
	case n.Alien != nil || n.Network.Foreign != nil || len(n.Groups.Ours) == 0 && !n.HalfBack():
		return slices.Clone(n.GroupIDs)
	}
	return s.Region.Restorable(n.NIC)
}

func (s *Designer) membershipKeys(n *guard.NIC) (out []string) {
	for _, c := range s.Memberships[n] {
		out = append(out, c.Groups[0].Key)
	}
	return out
}

// Enforced is what will be in force on the interfaces of a class when the plan is done. What only
// waits is not in force yet.
func (s *Designer) Enforced(c *form.Class) record.Enforcement {
	if c.State != guard.Guarded {
		return nil
	}
	return s.Guard.EnforcedBy(c.NICs[0])
}
