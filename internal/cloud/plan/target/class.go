package target

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan/addrset"
	"github.com/nephele-io/nephele/internal/cloud/plan/flow"
	"github.com/nephele-io/nephele/internal/cloud/plan/intent"
)

// kindSpill is the cloud.TagKind of the further groups of a class whose rules do not fit into one.
const kindSpill = "class-spill"

// Class is a set of interfaces of one network that share groups of ours.
type Class struct {
	key, Hash string
	Network   *intent.Network
	State     InterfaceState // Guarded or Member
	NICs      []*NIC
	addrs     addrset.Set    // private addresses of the interfaces
	Want      [2]flow.Permit // what it must allow: ingress, egress
	// existing are the groups that it goes on using: the one that rules refer to first, then
	// spilled ones.
	existing []*cloud.Group
	Groups   []*Group
	// gathers is set for what is no class by itself, but stands for all classes of members of an
	// address group; see gathering.
	Gathers bool
	members membershipGroup // then
	// frozen is set if its interfaces stay as they are.
	frozen bool
}

// Group is a security group of ours as it is wanted.
type Group struct {
	Class    *Class
	Key      string // ID, or "+" and the name if it is to be created
	Name     string
	Existing *cloud.Group // nil if it is to be created
	Rules    []cloud.Rule
}

// peer is the group as a peer of rules.
func (g *Group) peer() cloud.Peer {
	if g.Existing != nil {
		return cloud.Peer{GroupID: g.Existing.ID}
	}
	return cloud.Peer{GroupName: g.Name}
}

// peerKey is the key of the group that a peer refers to; empty for other peers.
func groupKey(p cloud.Peer) string {
	if p.GroupName != "" {
		return "+" + p.GroupName
	}
	return p.GroupID
}

// design is the outcome of one attempt of settle.
type design struct {
	Classes  []*Class          // sorted by key
	ByKey    map[string]*Group // wanted groups of ours
	WantHeld map[string][]*NIC // group key -> interfaces that shall hold it, native groups included
	memory   memory
	// memberships are the gatherings that an interface belongs to; gathered those that this
	// computation has decided to make, and decided those of them that this attempt has.
	memberships       map[*NIC][]*Class
	gathered, decided map[membershipGroup]bool
}

// open tells which directions of the interface its former groups decide.
func (n *NIC) open() [2]bool {
	rules, _ := n.rules()
	return intent.OpenUnder(rules)
}

// Wanted is what the interface shall allow in the end, whoever enforces it.
func (s *Target) Wanted(n *NIC) [2]flow.Permit {
	var rules []*intent.Bound
	profile := ""
	if n.VM != nil && n.State == Guarded && s.Controllable(n) == nil {
		rules, profile = n.VM.Effective, n.VM.profile
	}
	if s.Frozen[n] != nil {
		return s.Actual(n.GroupIDs, n.Network)
	}
	return s.Decided(n.NIC, rules, profile)
}

// wantedNow is what the interface shall allow, as far as it is not held.
func (s *Target) wantedNow(n *NIC) [2]flow.Permit {
	want, held := s.Wanted(n), s.held(n)
	for i := range 2 {
		if held[i] {
			want[i] = s.Recall.Kept(want[i].Intersect(s.Actual(n.GroupIDs, n.Network)[i]))
		}
	}
	return want
}

// held are the directions in which an interface allows for now no more than it does already. For
// one that waits to be given back these are both: its own groups mean less when it holds them again
// than they do here, where a rule that names a group admits all that natively belong to it, also
// those that hold groups of ours instead.
func (s *Target) held(n *NIC) [2]bool {
	if s.waits(n) {
		return [2]bool{true, true}
	}
	return s.Restrict[n]
}

// waits reports whether an interface that no policy needs is under control, and it, or one it
// depends on, may wait to be given back.
func (s *Target) waits(n *NIC) bool {
	return s.between[n.Network] && n.Taken() && s.Frozen[n] == nil && !n.needed()
}

// formClasses groups the interfaces by what they must allow and by the peers they belong to.
func (s *Target) formClasses() {
	used, native := s.usedPeers()
	byKey := map[string]*Class{}
	s.memory.reset()
	s.Classes, s.decided = nil, nil
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
		n.Class = c
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
	for _, groups := range s.Dependents.followed {
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
	s.WantHeld, s.memory.then = map[string][]*NIC{}, nil
	for _, n := range s.NICs {
		switch {
		case n.Unproven != nil && n.State != Guarded:
			n.Target = slices.Clone(n.GroupIDs)
		case n.State == Guarded && s.literal[n.Class.key]:
			n.Target = slices.Clone(n.GroupIDs)
		case n.State == Guarded:
			n.Target = nil
			for _, g := range n.Class.Groups {
				n.Target = append(n.Target, g.Key)
			}
			n.Target = append(n.Target, s.membershipKeys(n)...)
		case n.State == Member:
			n.Target = append(slices.Clone(n.Foreign), n.Class.Groups[0].Key)
			if n.Taken() {
				n.Target = append(s.Restorable(n.NIC), n.Class.Groups[0].Key)
			}
			n.Target = append(n.Target, s.membershipKeys(n)...)
		case n.Alien != nil || n.Network.Foreign != nil || len(n.Ours) == 0 && !n.HalfBack():
			n.Target = slices.Clone(n.GroupIDs)
		default:
			n.Target = s.Restorable(n.NIC)
		}
		slices.Sort(n.Target)
		for _, g := range n.Target {
			s.WantHeld[g] = append(s.WantHeld[g], n)
		}
	}
	for _, c := range s.Classes {
		if c.Gathers {
			c.addrs = s.fitter.thenAddrs(c.Groups[0].Key, c.Network)
		}
	}
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

// enforcedBy is what will be in force on an interface of a class.
func (s *Target) enforcedBy(n *NIC) intent.Enforcement {
	before, any := s.EnforcedOn(n.NIC)
	if !any {
		before = intent.Enforcement{}
	}
	if s.Frozen[n] != nil {
		return before
	}
	waits := s.Restrict[n] != [2]bool{}
	if waits && before == nil {
		return nil
	}
	out := intent.Enforcement{}
	rules, _ := n.rules()
	for _, r := range rules {
		if r.Verdict == intent.Grant {
			continue
		}
		if name := intent.Shortened(r.Policy.Ref.UID); !waits || before[name] {
			out[name] = true
		}
	}
	return out
}

// Kind is that of the tag of a group.
func (g *Group) Kind() string {
	switch {
	case g.Class.Gathers:
		return kindMembers
	case g != g.Class.Groups[0]:
		return kindSpill
	}
	return cloud.KindClass
}

// unproven reports whether nothing but a record that is not believed makes the interfaces of the
// class stay as they are.
func (c *Class) unproven() bool {
	return !slices.ContainsFunc(c.NICs, func(n *NIC) bool { return n.Unproven == nil })
}
