package target

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/nephele-io/nephele/internal/cloud/plan/flow"
	"github.com/nephele-io/nephele/internal/cloud/plan/intent"
)

// formClasses groups the interfaces by what they must allow and by the peers they belong to.
func (s *Target) formClasses() {
	used, native := s.usedPeers()
	byKey := map[string]*Class{}
	s.fitter.forget()
	s.gatherings.reset()
	s.Classes, s.ClassOf = nil, map[*NIC]*Class{}
	for _, n := range s.NICs {
		if n.State == Untouched {
			continue
		}
		base := s.classKey(n, used, native) // one class in the end
		key := base + s.heldKey(n)
		c := byKey[key]
		if c == nil {
			sum := sha256.Sum256([]byte(base))
			c = &Class{key: key, Hash: hex.EncodeToString(sum[:6]), Network: n.Network, State: n.State, frozen: s.Frozen[n] != nil}
			if n.State == Guarded {
				c.Want = s.wantedNow(n)
			}
			byKey[key] = c
			s.Classes = append(s.Classes, c)
		}
		c.NICs = append(c.NICs, n)
		s.ClassOf[n] = c
	}
	s.formGatherings(used)
	slices.SortFunc(s.Classes, func(a, b *Class) int { return strings.Compare(a.key, b.key) })
	for _, c := range s.Classes {
		c.addrs = addressesOf(c.NICs, c.Network)
	}
}

// usedPeers returns the address groups and the native groups that rules of guarded interfaces name
// as peers.
func (s *Target) usedPeers() (used, native map[string]bool) {
	used, native = map[string]bool{}, map[string]bool{}
	profiles, formers := map[string]bool{}, map[string]bool{}
	for _, n := range s.NICs {
		if n.State != Guarded {
			continue
		}
		open := n.open()
		if n.VM != nil && !n.Given {
			if !profiles[n.VM.profile] || len(n.VM.Kept) > 0 {
				profiles[n.VM.profile] = true
				for _, r := range n.VM.InForce() {
					for _, g := range r.Groups {
						used[g] = true
					}
				}
			}
		}
		key := strings.Join(n.Former, " ") + fmt.Sprintf("%t%t", open[0], open[1])
		if formers[key] {
			continue
		}
		formers[key] = true
		for _, id := range n.Former {
			if g := s.Groups[id]; g != nil {
				for _, r := range g.Rules {
					if r.Peer.GroupID != "" && open[flow.Index(r.Direction)] {
						native[r.Peer.GroupID] = true
					}
				}
			}
		}
	}
	for _, groups := range s.dependents.followed {
		maps.Copy(native, groups)
	}
	return used, native
}

// classKey is the same for interfaces that are alike in the end.
func (s *Target) classKey(n *NIC, used, native map[string]bool) string {
	if s.Frozen[n] != nil {
		return n.Network.ID + "|frozen " + strings.Join(n.GroupIDs, " ")
	}
	var b strings.Builder
	b.WriteString(n.Network.ID + "|" + string(n.State) + "|")
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
	if n.State == Member {
		return b.String()
	}
	b.WriteByte('|')
	_, profile := n.rules()
	open := n.open()
	b.WriteString(profile + "|")
	for _, g := range n.Former {
		if native[g] {
			b.WriteString(g + " ")
		}
	}
	b.WriteString("|" + s.NativeMeaning(n.Former, open))
	if open[0] || open[1] {
		b.WriteString(s.KeptKey(n.NIC))
	}
	return b.String()
}

// heldKey tells interfaces of a class apart that are held at what they allow now; empty for those
// that are not.
func (s *Target) heldKey(n *NIC) string {
	held := s.held(n)
	if held == [2]bool{} || s.Frozen[n] != nil || n.State == Member {
		return ""
	}
	return fmt.Sprintf("|held %v %s", held, strings.Join(n.GroupIDs, " "))
}

// setTargets decides which groups every interface shall hold.
func (s *Target) setTargets() {
	s.fitter.forgetTargets()
	s.Targets, s.WantHeld = make(map[*NIC][]string, len(s.NICs)), map[string][]*NIC{}
	for _, n := range s.NICs {
		groups := s.groupsOf(n)
		slices.Sort(groups)
		s.Targets[n] = groups
		for _, g := range groups {
			s.WantHeld[g] = append(s.WantHeld[g], n)
		}
	}
	for _, c := range s.Classes {
		if c.Gathers {
			c.addrs = s.fitter.thenAddrs(c.Groups[0].Key, c.Network)
		}
	}
}

// groupsOf returns the keys of the groups that an interface shall hold.
func (s *Target) groupsOf(n *NIC) (out []string) {
	c := s.ClassOf[n]
	switch {
	case n.Unproven != nil && n.State != Guarded, n.State == Guarded && s.literal[c.key]:
		return slices.Clone(n.GroupIDs)
	case n.State == Guarded:
		for _, g := range c.Groups {
			out = append(out, g.Key)
		}
		return append(out, s.membershipKeys(n)...)
	case n.State == Member:
		out = slices.Clone(n.Foreign)
		if n.Taken() {
			out = s.Restorable(n.NIC)
		}
		return append(append(out, c.Groups[0].Key), s.membershipKeys(n)...)
	case n.Alien != nil || n.Network.Foreign != nil || len(n.Ours) == 0 && !n.HalfBack():
		return slices.Clone(n.GroupIDs)
	}
	return s.Restorable(n.NIC)
}

func (s *Target) membershipKeys(n *NIC) (out []string) {
	for _, c := range s.memberships[n] {
		out = append(out, c.Groups[0].Key)
	}
	return out
}

// Enforced is what will be in force on the interfaces of a class when the plan is done. What only
// waits is not in force yet.
func (s *Target) Enforced(c *Class) intent.Enforcement {
	if c.State != Guarded {
		return nil
	}
	return s.enforcedBy(c.NICs[0])
}
