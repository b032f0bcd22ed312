package compute

import (
	"iter"
	"slices"
	"strings"

	"github.com/nephele-io/nephele/internal/policy"
	"github.com/nephele-io/nephele/internal/policy/slab"
	"github.com/nephele-io/nephele/internal/policy/span"
)

// Changes is what one Commit changed. Objects that are new are described one by one, while somebody
// goes through them: they are all there is after the first Commit, and their descriptions would
// take as much memory again. Changes are good until the Engine is called again.
//
// First comes what is changed or gone, by name, then what is new: by name too, but if that is a
// great deal as it was made, so that what belongs together is near in memory.
type Changes struct {
	// serial numbers Commits; spans are those that have been spelled, see reach.spelled.
	serial uint32
	spans  spelledSpans
	hosts  span.Table
	// freshGroups and freshPolicies are new; groups and policies are the other changes.
	freshGroups   [2][]*group
	freshPolicies []*policyState
	groups        [2][]policy.GroupDelta
	policies      []policy.PolicyDelta
	problems      []policy.Problem
}

// again returns what the next Commit is to fill, in the memory of the last one; nil has none.
func (c *Changes) again(serial uint32) *Changes {
	if c == nil {
		return &Changes{serial: serial}
	}
	*c = Changes{
		serial: serial, spans: c.spans.again(), policies: slab.Scratch(c.policies), freshPolicies: slab.Scratch(c.freshPolicies),
		groups:      [2][]policy.GroupDelta{slab.Scratch(c.groups[0]), slab.Scratch(c.groups[1])},
		freshGroups: [2][]*group{slab.Scratch(c.freshGroups[0]), slab.Scratch(c.freshGroups[1])},
	}
	return c
}

// large reports whether it is so much that its memory is not kept.
func (c *Changes) large() bool {
	policies, addressGroups, appliedToGroups, problems := c.Size()
	return policies+addressGroups+appliedToGroups+problems > slab.MaxScratch
}

// collectFresh takes over what is new.
func (c *Changes) collectFresh(groups []*group, policies []*policyState) {
	var n [2]int
	for _, g := range groups {
		if g.fresh {
			n[g.role]++
		}
	}
	for role := range n {
		c.freshGroups[role] = slices.Grow(c.freshGroups[role], n[role])
	}
	for _, g := range groups {
		if g.fresh {
			c.freshGroups[g.role] = append(c.freshGroups[g.role], g)
		}
	}
	added := 0
	for _, p := range policies {
		if p.former == nil && p.out != nil {
			added++
		}
	}
	c.freshPolicies = slices.Grow(c.freshPolicies, added)
	for _, p := range policies {
		if p.former == nil && p.out != nil {
			c.freshPolicies = append(c.freshPolicies, p)
		}
	}
}

// update takes over the change of a group that is not new, unless nothing changed.
func (c *Changes) update(g *policy.GroupDelta, replaced bool) {
	if replaced || len(g.Added)+len(g.Removed)+len(g.SpanAdded)+len(g.SpanRemoved) > 0 {
		c.groups[g.Role] = append(c.groups[g.Role], *g)
	}
}

// maxSorted is how many new objects are put in order.
const maxSorted = 1000

// sort puts the changes in the order in which they are reported.
func (c *Changes) sort() {
	for role := range c.groups {
		slices.SortFunc(c.groups[role], func(a, b policy.GroupDelta) int { return strings.Compare(a.Name, b.Name) })
		if fresh := c.freshGroups[role]; len(fresh) <= maxSorted {
			slices.SortFunc(fresh, func(a, b *group) int { return strings.Compare(a.name, b.name) })
		}
	}
	slices.SortFunc(c.policies, func(a, b policy.PolicyDelta) int { return strings.Compare(a.Policy.Source.UID, b.Policy.Source.UID) })
	if len(c.freshPolicies) <= maxSorted {
		slices.SortFunc(c.freshPolicies, func(a, b *policyState) int { return strings.Compare(a.out.Source.UID, b.out.Source.UID) })
	}
}

// spelledSpans are spans as keys, each once: many reaches have the same one.
type spelledSpans struct {
	list []spelledSpan
	// byHosts finds them where there are more than fewSpans; text is a key of it.
	byHosts map[string]uint32
	text    []byte
}

// spelledSpan is a span by its hosts and by their keys.
type spelledSpan struct {
	hosts *span.Counts
	keys  []string
}

// fewSpans is the number of spans up to which a look at each of them finds one as fast.
const fewSpans = 8

// again returns room for others.
func (x *spelledSpans) again() spelledSpans {
	return spelledSpans{list: slab.Scratch(x.list), text: x.text[:0]}
}

// spell returns the place of a span, which must not change before the next Commit.
func (x *spelledSpans) spell(c *span.Counts, hosts span.Table) uint32 {
	if x.byHosts == nil {
		for i := range x.list {
			if x.list[i].hosts.SameHosts(c) {
				return uint32(i)
			}
		}
		if len(x.list) >= fewSpans {
			x.byHosts = make(map[string]uint32, 2*fewSpans)
			for i := range x.list {
				x.byHosts[string(x.list[i].hosts.AppendText(nil))] = uint32(i)
			}
		}
	}
	at := uint32(len(x.list))
	if x.byHosts != nil {
		x.text = c.AppendText(x.text[:0])
		if known, ok := x.byHosts[string(x.text)]; ok {
			return known
		}
		x.byHosts[string(x.text)] = at
	}
	x.list = append(x.list, spelledSpan{c, hosts.Keys(c)})
	return at
}

// at returns the keys of the span at a place, and its number.
func (x *spelledSpans) at(place uint32) (keys []string, number uint32) {
	return x.list[place].keys, place + 1
}

// wholeSpan returns the keys of a reach, spelled once, and the number of that span.
func (c *Changes) wholeSpan(r *reach) (keys []string, number uint32) {
	if r.spelled.serial != c.serial {
		r.spelled.serial, r.spelled.at = c.serial, c.spans.spell(r.hostSpan(), c.hosts)
	}
	return c.spans.at(r.spelled.at)
}

// wholeSpanOf returns the keys of a group: the keys of its reach where it has just one, and they
// are the same.
func (c *Changes) wholeSpanOf(g *group) (keys []string, number uint32) {
	if r := g.reaches.one; r != nil && (g.role == policy.AddressGroup || r.several == nil) {
		return c.wholeSpan(r)
	}
	return c.spans.at(c.spans.spell(&g.hosts, c.hosts))
}

// Groups goes through the changes of groups of a role. Each, with its lists of members, is good
// until the next one. The members of an applied-to group that is new are in no order: a holder that
// keeps them by host sorts them in another one.
func (c *Changes) Groups(role policy.GroupRole) iter.Seq[*policy.GroupDelta] {
	return func(yield func(*policy.GroupDelta) bool) {
		for i := range c.groups[role] {
			if !yield(&c.groups[role][i]) {
				return
			}
		}
		if len(c.freshGroups[role]) == 0 {
			return
		}
		var fresh policy.GroupDelta
		var members []*policy.Member
		for _, g := range c.freshGroups[role] {
			if members = members[:0]; role == policy.AddressGroup {
				members = g.appendMembers(members)
			} else {
				members = g.appendUnsorted(members)
			}
			fresh = policy.GroupDelta{Change: policy.Added, Role: role, Name: g.name, UID: g.uidOf(), Added: members}
			fresh.SpanAdded, fresh.SpanNumber = c.wholeSpanOf(g)
			if !yield(&fresh) {
				return
			}
		}
	}
}

// Policies goes through the changes of policies. Each is good until the next one.
func (c *Changes) Policies() iter.Seq[*policy.PolicyDelta] {
	return func(yield func(*policy.PolicyDelta) bool) {
		for i := range c.policies {
			if !yield(&c.policies[i]) {
				return
			}
		}
		if len(c.freshPolicies) == 0 {
			return
		}
		var fresh policy.PolicyDelta
		for _, p := range c.freshPolicies {
			fresh = policy.PolicyDelta{Change: policy.Added, Policy: p.out}
			fresh.SpanAdded, fresh.SpanNumber = c.wholeSpan(p.reach)
			if !yield(&fresh) {
				return
			}
		}
	}
}

// Problems are as in Delta.
func (c *Changes) Problems() []policy.Problem { return c.problems }

// Size returns the numbers of changes.
func (c *Changes) Size() (policies, addressGroups, appliedToGroups, problems int) {
	groups := func(role policy.GroupRole) int { return len(c.freshGroups[role]) + len(c.groups[role]) }
	return len(c.freshPolicies) + len(c.policies), groups(policy.AddressGroup), groups(policy.AppliedToGroup), len(c.problems)
}

// Empty reports whether nothing changed.
func (c *Changes) Empty() bool {
	policies, addressGroups, appliedToGroups, problems := c.Size()
	return policies+addressGroups+appliedToGroups+problems == 0
}

// Delta returns all of it, to keep.
func (c *Changes) Delta() *policy.Delta {
	policies, addressGroups, appliedToGroups, _ := c.Size()
	d := &policy.Delta{Problems: c.problems}
	d.AddressGroups = c.listGroups(policy.AddressGroup, addressGroups)
	d.AppliedToGroups = c.listGroups(policy.AppliedToGroup, appliedToGroups)
	d.Policies = slices.Grow(d.Policies, policies)
	for p := range c.Policies() {
		p.SpanNumber = 0
		d.Policies = append(d.Policies, *p)
	}
	slices.SortFunc(d.Policies, func(a, b policy.PolicyDelta) int { return strings.Compare(a.Policy.Source.UID, b.Policy.Source.UID) })
	return d
}

func (c *Changes) listGroups(role policy.GroupRole, n int) []policy.GroupDelta {
	out := slices.Grow([]policy.GroupDelta(nil), n)
	for g := range c.Groups(role) {
		g.SpanNumber = 0
		if g.Change == policy.Added {
			g.Added = slices.Clone(g.Added)
			slices.SortFunc(g.Added, policy.CompareMembers)
		}
		out = append(out, *g)
	}
	slices.SortFunc(out, func(a, b policy.GroupDelta) int { return strings.Compare(a.Name, b.Name) })
	return out
}
