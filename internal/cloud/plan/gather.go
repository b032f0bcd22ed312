package plan

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"

	"github.com/nephele-io/nephele/internal/cloud"
)

// kindMembers is the cloud.TagKind of a group without rules that the members of one address group hold besides the groups of their
// classes, so that one reference stands for all of these classes.
const kindMembers = "members"

// Such groups cost every member an edit and a slot, so they are made only where the rules of a class fit in no other form. One that
// exists stays in use as long as it could be made: as long as it stands for a good many classes.

// gathering names the members of an address group in a network.
type gathering struct {
	network *network
	group   string
}

func (g gathering) key() string { return "members|" + g.network.ID + "|" + g.group }

// gathering is what a class gathers that does.
func (c *class) gathering() gathering {
	return gathering{c.network, strings.TrimPrefix(c.key, gathering{c.network, ""}.key())}
}

func (g gathering) hash() string {
	sum := sha256.Sum256([]byte(g.key()))
	return hex.EncodeToString(sum[:6])
}

// lapses reports whether there are so few classes of members that references to them will hardly ever be too many.
func (s *regionState) lapses(classes int) bool { return classes <= max(8, s.limits.RulesPerGroup/8) }

// formGatherings adds the gatherings that are in use to the classes.
func (s *regionState) formGatherings(used map[string]bool) {
	s.memberships = map[*nic][]*class{}
	existing := map[string]bool{}
	for i := range s.snap.Groups {
		if g := &s.snap.Groups[i]; s.owned(g) && g.Tags[cloud.TagKind] == kindMembers {
			existing[g.Tags[cloud.TagClass]] = true
		}
	}
	if len(existing)+len(s.gathered) == 0 {
		return
	}
	members := s.gatherable()
	keys := make([]gathering, 0, len(members))
	for k, m := range members {
		if used[k.group] && !s.dispersed[k] && (s.gathered[k] || existing[k.hash()]) && !s.lapses(m.classes) {
			keys = append(keys, k)
		}
	}
	slices.SortFunc(keys, func(a, b gathering) int { return strings.Compare(a.key(), b.key()) })
	for _, k := range keys {
		c := &class{key: k.key(), hash: k.hash(), network: k.network, state: Member, gathers: true}
		for _, n := range members[k].nics {
			if s.hasSlot(n, len(s.memberships[n])) {
				c.nics = append(c.nics, n)
				s.memberships[n] = append(s.memberships[n], c)
			}
		}
		s.classes = append(s.classes, c)
	}
}

// gathering reports whether the peer is the group of a gathering.
func (s *regionState) gathering(p cloud.Peer) bool {
	if len(s.memberships) == 0 {
		return false
	}
	g := s.byKey[groupKey(p)]
	return g != nil && g.class.gathers
}

// crew are the interfaces of a gathering that could be, and how many classes they belong to.
type crew struct {
	nics    []*nic
	classes int
}

// gatherable returns the interfaces with a class by the address groups.
func (s *regionState) gatherable() map[gathering]*crew {
	if s.memory.crews != nil {
		return s.memory.crews
	}
	out := map[gathering]*crew{}
	for _, n := range s.nics {
		if n.class == nil || n.vm == nil || s.literal[n.class.key] {
			continue
		}
		for _, g := range n.vm.groups {
			k := gathering{n.network, g}
			if out[k] == nil {
				out[k] = &crew{}
			}
			out[k].nics = append(out[k].nics, n)
		}
	}
	for _, c := range out {
		seen := map[*class]bool{}
		for _, n := range c.nics {
			seen[n.class] = true
		}
		c.classes = len(seen)
	}
	s.memory.crews = out
	return out
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

// hasSlot reports whether the interface can hold one more group besides that of its class and so many gatherings.
func (s *regionState) hasSlot(n *nic, memberships int) bool {
	needed := memberships + 2
	if n.state == Member {
		needed += len(n.former)
	}
	return needed <= s.limits.GroupsPerInterface
}

// quotaOf is the quota for the rules of a class: gatherings take slots of its interfaces.
func (s *regionState) quotaOf(c *class, taken int) Quota {
	q := s.quota()
	q.GroupsPerInterface -= len(s.memberships[c.nics[0]]) + taken
	return q
}

// trial is what a reference to a gathering would mean if it was made.
func (s *regionState) trial(k gathering, view *network) candidate {
	at := trialKey{k, view}
	out, known := s.memory.trials[at]
	if known {
		return out
	}
	var nics []*nic
	for _, n := range s.gatherable()[k].nics {
		if s.hasSlot(n, len(s.memberships[n])) {
			nics = append(nics, n)
		}
	}
	addrs, _ := s.in.Recall.set(addressesOf(nics, view))
	out = candidate{cloud.Peer{GroupName: k.key()}, addrs, addrs}
	if s.memory.trials == nil {
		s.memory.trials = map[trialKey]candidate{}
	}
	s.memory.trials[at] = out
	return out
}

type trialKey struct {
	gathering
	view *network
}

// gather looks for address groups of which the class names so many members that it would fit if each of these groups was one reference.
// It reports whether it found some; they will be gathered in the next attempt.
func (s *regionState) gather(c *class, held [][]cloud.Rule) bool {
	first := c.nics[0]
	used := map[string]bool{}
	for _, r := range first.vm.inForce() {
		for _, g := range r.groups {
			used[g] = true
		}
	}
	members := s.gatherable()
	var keys []gathering
	known := 0 // those that this attempt has decided on already, which come first
	for k, m := range members {
		if !used[k.group] || s.unlisted[k.group] || s.dispersed[k] || !c.network.reaches(k.network) || s.lapses(m.classes) {
			continue
		}
		if present := slices.ContainsFunc(s.classes, func(o *class) bool { return o.gathers && o.key == k.key() }); !present {
			keys = append(keys, k)
			if s.gathered[k] {
				known++
			}
		}
	}
	slices.SortFunc(keys, func(a, b gathering) int {
		return cmp.Or(b2i(s.gathered[b])-b2i(s.gathered[a]), cmp.Compare(members[b].classes, members[a].classes), strings.Compare(a.key(), b.key()))
	})
	f := forms{}
	for i, k := range keys {
		if first.network == k.network && slices.Contains(first.vm.groups, k.group) && s.hasSlot(first, len(s.memberships[first])) {
			f.slots++
		}
		f.trial = append(f.trial, s.trial(k, c.network))
		if i+1 < known || !s.fits(c, c.want, held, f) {
			continue
		}
		if s.gathered == nil {
			s.gathered = map[gathering]bool{}
		}
		for _, k := range keys[:i+1] {
			s.gathered[k] = true
		}
		return true
	}
	return false
}

// disperse gives up the gatherings that the interfaces of a class belong to if the class would fit without them.
func (s *regionState) disperse(c *class, held [][]cloud.Rule) bool {
	in := s.memberships[c.nics[0]]
	if len(in) == 0 || !s.fits(c, c.want, held, forms{slots: -len(in)}) {
		return false
	}
	if s.dispersed == nil {
		s.dispersed = map[gathering]bool{}
	}
	for _, o := range in {
		s.dispersed[o.gathering()] = true
	}
	return true
}
