package design

import (
	"cmp"
	"slices"
	"strings"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan/form"
	"github.com/nephele-io/nephele/internal/cloud/plan/guard"
	"github.com/nephele-io/nephele/internal/cloud/plan/intent"
)

// Such groups cost every member an edit and a slot, so they are made only where the rules of a
// class fit in no other form. One that exists stays in use as long as it could be made: as long as
// it stands for a good many classes.

// membershipGroup names the members of an address group in a network.
type membershipGroup struct {
	network *intent.Network
	group   string
}

func (g membershipGroup) key() string { return "members|" + g.network.ID + "|" + g.group }

// crew are the interfaces of a gathering that could be, and the classes they belong to.
type crew struct {
	nics    []*guard.NIC
	classes map[*form.Class]bool
}

// lapses reports whether there are so few classes of members that references to them will hardly
// ever be too many.
func (c *crew) lapses(l cloud.Limits) bool { return len(c.classes) <= max(8, l.RulesPerGroup/8) }

// trialKey is the question what a reference to a gathering would mean in a network.
type trialKey struct {
	membershipGroup
	view *intent.Network
}

// gatherings are what is known of them.
type gatherings struct {
	existing map[string]bool // hashes of those that have a group
	// gathered has the groups that this computation has decided to make, and decided the ones among
	// them that this attempt has: the next one makes them, and until then it need not be found out
	// what they are good for to other classes.
	gathered, decided map[membershipGroup]bool
	// crews and trials belong to this attempt.
	crews  map[membershipGroup]*crew
	trials intent.Once[trialKey, form.Candidate]
}

// reset begins a new attempt.
func (g *gatherings) reset() {
	*g = gatherings{existing: g.existing, gathered: g.gathered, decided: map[membershipGroup]bool{}}
}

// formGatherings adds the gatherings that are in use to the classes.
func (s *Designer) formGatherings(used map[string]bool) {
	s.Memberships = map[*guard.NIC][]*form.Class{}
	existing := s.gatherings.existing
	if len(existing)+len(s.gatherings.gathered) == 0 {
		return
	}
	members := s.gatherable()
	keys := make([]membershipGroup, 0, len(members))
	for k, m := range members {
		if used[k.group] && (s.gatherings.gathered[k] || existing[hashOf(k.key())]) && !m.lapses(s.Region.Limits) {
			keys = append(keys, k)
		}
	}
	slices.SortFunc(keys, func(a, b membershipGroup) int { return strings.Compare(a.key(), b.key()) })
	for _, k := range keys {
		c := &form.Class{Key: k.key(), Hash: hashOf(k.key()), Network: k.network, State: guard.Member, Gathers: true}
		for _, n := range members[k].nics {
			if s.hasSlot(n) {
				c.NICs = append(c.NICs, n)
				s.Memberships[n] = append(s.Memberships[n], c)
			}
		}
		s.Classes = append(s.Classes, c)
	}
}

// gatherable returns the interfaces with a class by the address groups.
func (s *Designer) gatherable() map[membershipGroup]*crew {
	if s.gatherings.crews != nil {
		return s.gatherings.crews
	}
	out := map[membershipGroup]*crew{}
	for _, n := range s.Guard.NICs {
		class := s.ClassOf[n]
		if class == nil || n.VM == nil || s.literal[class.Key] {
			continue
		}
		for _, g := range n.VM.Groups {
			k := membershipGroup{n.Network, g}
			if out[k] == nil {
				out[k] = &crew{classes: map[*form.Class]bool{}}
			}
			out[k].nics = append(out[k].nics, n)
			out[k].classes[class] = true
		}
	}
	s.gatherings.crews = out
	return out
}

// hasSlot reports whether the interface can hold one more group besides that of its class and its
// gatherings.
func (s *Designer) hasSlot(n *guard.NIC) bool {
	needed := len(s.Memberships[n]) + 2
	if n.State() == guard.Member {
		needed += len(n.Groups.Former)
	}
	return needed <= s.Region.Limits.GroupsPerInterface
}

// trial is what a reference to a gathering would mean if it was made.
func (s *Designer) trial(k membershipGroup, view *intent.Network) form.Candidate {
	return s.gatherings.trials.Get(trialKey{k, view}, func() form.Candidate {
		var nics []*guard.NIC
		for _, n := range s.gatherable()[k].nics {
			if s.hasSlot(n) {
				nics = append(nics, n)
			}
		}
		addrs, _ := s.Account.Recall.Set(guard.AddressesOf(nics, view))
		return form.MadeUp(k.key(), addrs)
	})
}

// gather looks for address groups of which the class names so many members that it would fit if
// each of these groups was one reference. It reports whether it found some; they will be gathered
// in the next attempt.
func (s *Designer) gather(c *form.Class) bool {
	first := c.NICs[0]
	used := map[string]bool{}
	addPeers(used, first.VM)
	members := s.gatherable()
	var keys []membershipGroup
	for k, m := range members {
		if !used[k.group] || !c.Network.Reaches(k.network) || m.lapses(s.Region.Limits) {
			continue
		}
		if s.gatherings.decided[k] {
			return true // and perhaps it fits then
		}
		if present := slices.ContainsFunc(s.Classes, func(o *form.Class) bool { return o.Gathers && o.Key == k.key() }); !present {
			keys = append(keys, k)
		}
	}
	slices.SortFunc(keys, func(a, b membershipGroup) int {
		return cmp.Or(cmp.Compare(len(members[b].classes), len(members[a].classes)), strings.Compare(a.key(), b.key()))
	})
	var trials []form.Candidate
	for _, k := range keys {
		trials = append(trials, s.trial(k, c.Network))
	}
	if len(keys) == 0 || !s.fitter.MayFit(form.Demand{Class: c, Want: c.Want, Trial: trials}) {
		return false // not even if all of them cost no slot
	}
	slots := 0
	for i, k := range keys {
		if first.Network == k.network && slices.Contains(first.VM.Groups, k.group) && s.hasSlot(first) {
			slots++
		}
		if s.fitter.Fits(form.Demand{Class: c, Want: c.Want, Trial: trials[:i+1], Slots: slots}) {
			for _, k := range keys[:i+1] {
				s.gatherings.gathered[k], s.gatherings.decided[k] = true, true
			}
			return true
		}
	}
	return false
}
