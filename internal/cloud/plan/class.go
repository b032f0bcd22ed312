package plan

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
)

// kindSpill is the cloud.TagKind of the further groups of a class whose rules do not fit into one.
const kindSpill = "class-spill"

// class is a set of interfaces of one network that share groups of ours.
type class struct {
	key, hash string
	network   *network
	state     InterfaceState // Guarded or Member
	nics      []*nic
	addrs     addrset.Set    // private addresses of the interfaces
	want      [2]flow.Permit // what it must allow: ingress, egress
	// existing are the groups that it goes on using: the one that rules refer to first, then spilled ones.
	existing []*cloud.Group
	groups   []*group
	rules    []cloud.Rule // of all groups
	// gathers is set for what is no class by itself, but stands for all classes of members of an address group; see gathering.
	gathers bool
	// frozen is set if its interfaces stay as they are.
	frozen bool
}

// group is a security group of ours as it is wanted.
type group struct {
	class    *class
	key      string // ID, or "+" and the name if it is to be created
	name     string
	existing *cloud.Group // nil if it is to be created
	rules    []cloud.Rule
}

// peer is the group as a peer of rules.
func (g *group) peer() cloud.Peer {
	if g.existing != nil {
		return cloud.Peer{GroupID: g.existing.ID}
	}
	return cloud.Peer{GroupName: g.name}
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
	classes  []*class          // sorted by key
	byKey    map[string]*group // wanted groups of ours
	wantHeld map[string][]*nic // group key -> interfaces that shall hold it, native groups included
	memory   memory
	// memberships are the gatherings that an interface belongs to; gathered and dispersed what this computation has decided about some.
	memberships         map[*nic][]*class
	gathered, dispersed map[gathering]bool
}

// open tells which directions of the interface its former groups decide.
func (n *nic) open() [2]bool {
	if n.vm == nil {
		return [2]bool{true, true}
	}
	return openUnder(n.vm.effective)
}

// openUnder tells which directions the former groups decide under the rules: those in which none isolates.
func openUnder(rules []*bound) [2]bool {
	out := [2]bool{true, true}
	for _, r := range rules {
		if r.verdict == allow {
			out[indexOf(r.direction)] = false
		}
	}
	return out
}

// wanted is what the interface shall allow in the end, whoever enforces it.
func (s *regionState) wanted(n *nic) [2]flow.Permit {
	var rules []*bound
	profile := ""
	if n.vm != nil && n.state == Guarded && s.controllable(n) == "" {
		rules, profile = n.vm.effective, n.vm.profile
	}
	if s.frozen[n] != "" {
		return s.actual(n.GroupIDs, n.network)
	}
	return s.decided(n.iface, rules, profile)
}

// wantedNow is what the interface shall allow after this round.
func (s *regionState) wantedNow(n *nic) [2]flow.Permit {
	want := s.wanted(n)
	for i := range directions {
		if s.restrict[n][i] {
			want[i] = s.in.Recall.kept(want[i].Intersect(s.actual(n.GroupIDs, n.network)[i]))
		}
	}
	return want
}

// decided is what the rules, which the profile identifies, make of what the former groups of the interface allow.
func (s *region) decided(n *iface, rules []*bound, profile string) [2]flow.Permit {
	open := openUnder(rules)
	key := n.network.ID + "|" + profile
	if open[0] || open[1] {
		key += "|" + strings.Join(n.former, " ") + s.keptKey(n)
	}
	if h, ok := s.halfCache[key]; ok {
		return h
	}
	out := s.flattened(n, rules)
	s.halfCache[key] = out
	return out
}

func (s *region) flattened(n *iface, rules []*bound) (out [2]flow.Permit) {
	kept := s.kept(n)
	for i, d := range directions {
		f := flattening{view: n.network, kept: kept[i]}
		for _, r := range rules {
			if r.direction == d {
				f.rules = append(f.rules, r)
			}
		}
		f.native = s.groupRules(n.former, d)
		out[i] = s.in.Recall.kept(f.flatten(s))
	}
	return out
}

// formClasses groups the interfaces by what they must allow and by the peers they belong to.
func (s *regionState) formClasses() {
	used, native := s.usedPeers()
	byKey := map[string]*class{}
	s.memory.reset()
	s.classes = nil
	for _, n := range s.nics {
		if n.state == Untouched {
			continue
		}
		key := s.classKey(n, used, native)
		c := byKey[key]
		if c == nil {
			base, _, _ := strings.Cut(key, restricted) // one class in the end
			sum := sha256.Sum256([]byte(base))
			c = &class{key: key, hash: hex.EncodeToString(sum[:6]), network: n.network, state: n.state, frozen: s.frozen[n] != ""}
			if n.state == Guarded {
				c.want = s.wantedNow(n)
			}
			byKey[key] = c
			s.classes = append(s.classes, c)
		}
		c.nics = append(c.nics, n)
		n.class = c
	}
	s.formGatherings(used)
	slices.SortFunc(s.classes, func(a, b *class) int { return strings.Compare(a.key, b.key) })
	for _, c := range s.classes {
		c.addrs = addressesOf(c.nics, c.network)
	}
}

// usedPeers returns the address groups and the native groups that rules of guarded interfaces name as peers.
func (s *regionState) usedPeers() (used, native map[string]bool) {
	used, native = map[string]bool{}, map[string]bool{}
	profiles, formers := map[string]bool{}, map[string]bool{}
	for _, n := range s.nics {
		if n.state != Guarded {
			continue
		}
		open := [2]bool{true, true}
		if n.vm != nil {
			open = n.open()
			if !profiles[n.vm.profile] || len(n.vm.kept) > 0 {
				profiles[n.vm.profile] = true
				for _, r := range n.vm.inForce() {
					for _, g := range r.groups {
						used[g] = used[g] || !s.unlisted[g]
					}
				}
			}
		}
		key := fmt.Sprint(n.former, open)
		if formers[key] {
			continue
		}
		formers[key] = true
		for _, id := range n.former {
			if g := s.groups[id]; g != nil {
				for _, r := range g.Rules {
					if r.Peer.GroupID != "" && open[indexOf(r.Direction)] {
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

// restricted begins what tells interfaces apart that must not become wider in this round.
const restricted = "|restricted "

func (s *regionState) classKey(n *nic, used, native map[string]bool) string {
	if s.frozen[n] != "" {
		return n.network.ID + "|frozen " + strings.Join(n.GroupIDs, " ")
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s|%s|", n.network.ID, n.state)
	if n.vm != nil {
		for _, g := range n.vm.groups {
			if used[g] {
				b.WriteString(g + " ")
			}
		}
	}
	if n.state == Member {
		return b.String()
	}
	b.WriteByte('|')
	open := [2]bool{true, true}
	if n.vm != nil {
		b.WriteString(n.vm.profile)
		open = n.open()
	}
	b.WriteByte('|')
	for _, g := range n.former {
		if native[g] {
			b.WriteString(g + " ")
		}
	}
	b.WriteString("|" + s.nativeMeaning(n.former, open))
	if open[0] || open[1] {
		b.WriteString(s.keptKey(n.iface))
	}
	switch {
	case s.restrict[n] == [2]bool{}:
	default:
		fmt.Fprintf(&b, restricted+"%v %s", s.restrict[n], strings.Join(n.GroupIDs, " "))
	}
	return b.String()
}

// nativeMeaning identifies what former groups allow in the open directions. Groups with equal rules mean the same, so that interfaces
// with copies of one group need not be told apart.
func (s *region) nativeMeaning(former []string, open [2]bool) string {
	key := fmt.Sprint(former, open)
	if id, ok := s.meanings[key]; ok {
		return id
	}
	var b strings.Builder
	for i, d := range directions {
		if !open[i] {
			continue
		}
		for _, r := range ruleKeys(s.groupRules(former, d)) {
			fmt.Fprintf(&b, "%s/%s;", r, r.Peer.GroupOwner)
		}
	}
	id := ""
	if b.Len() > 0 {
		sum := sha256.Sum256([]byte(b.String()))
		id = hex.EncodeToString(sum[:6])
	}
	s.meanings[key] = id
	return id
}

// setTargets decides which groups every interface shall hold.
func (s *regionState) setTargets() {
	s.wantHeld, s.memory.then = map[string][]*nic{}, nil
	for _, n := range s.nics {
		switch {
		case n.unproven != "" && n.state != Guarded:
			n.target = slices.Clone(n.GroupIDs)
		case n.state == Guarded && s.literal[n.class.key]:
			n.target = slices.Clone(n.GroupIDs)
		case n.state == Guarded:
			n.target = nil
			for _, g := range n.class.groups {
				n.target = append(n.target, g.key)
			}
			n.target = append(n.target, s.membershipKeys(n)...)
			if kept := s.keptNative(n); len(n.target)+len(kept) <= s.limits.GroupsPerInterface {
				n.target = append(n.target, kept...)
			}
		case n.state == Member:
			n.target = append(slices.Clone(n.foreign), n.class.groups[0].key)
			if n.taken() {
				n.target = append(s.restorable(n.iface), n.class.groups[0].key)
			}
			n.target = append(n.target, s.membershipKeys(n)...)
		case n.alien != "" || n.network.foreign != "" || len(n.ours) == 0:
			n.target = slices.Clone(n.GroupIDs)
		default:
			n.target = s.restorable(n.iface)
		}
		slices.Sort(n.target)
		for _, g := range n.target {
			s.wantHeld[g] = append(s.wantHeld[g], n)
		}
	}
	for _, c := range s.classes {
		if c.gathers {
			c.addrs = s.thenAddrs(c.groups[0].key, c.network)
		}
	}
}

func (s *regionState) membershipKeys(n *nic) (out []string) {
	for _, c := range s.memberships[n] {
		out = append(out, c.groups[0].key)
	}
	return out
}

// keptNative returns the former groups that an interface holds already while it, or one it depends on, waits to be given back. What they allow is allowed
// now and in the end, so they do no harm, and somebody else's rules may refer to them.
func (s *regionState) keptNative(n *nic) []string {
	waits := len(s.restrict) > 0 && n.taken()
	if !waits || s.frozen[n] != "" || n.vm != nil && len(n.vm.effective) > 0 {
		return nil
	}
	var out []string
	for _, g := range n.GroupIDs {
		if slices.Contains(n.former, g) {
			out = append(out, g)
		}
	}
	return out
}

// restorable returns the former groups of the interface that still exist, or else the default group of its network.
func (s *region) restorable(n *iface) []string {
	var out, gone []string
	for _, id := range n.former {
		if s.groups[id] != nil {
			out = append(out, id)
		} else {
			gone = append(gone, id)
		}
	}
	if len(gone) > 0 {
		s.note(n.ID, "of its former groups "+strings.Join(gone, ", ")+" no longer exist and cannot be restored")
	}
	if len(out) == 0 {
		for i := range s.snap.Groups {
			if g := &s.snap.Groups[i]; g.Default && g.NetworkID == n.NetworkID {
				out = []string{g.ID}
				s.note(n.ID, "none of its former groups exists any more; it gets the default group of the network, "+g.ID)
			}
		}
	}
	return out
}
