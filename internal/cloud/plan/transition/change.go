package transition

import (
	"cmp"
	"slices"
	"strings"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan/addrset"
	"github.com/nephele-io/nephele/internal/cloud/plan/flow"
	"github.com/nephele-io/nephele/internal/cloud/plan/model"
)

// Change is what is observed and what is wanted.
type Change struct {
	// From is what was observed, To the same region as it shall be: groups of ours come and go
	// there, with their rules, and interfaces hold others. Groups to be created have IDs that begin
	// with model.PlannedGroupID. Nothing else differs.
	From, To *cloud.Snapshot
	// End is what further changes lead to, if To is a state in between; else nil. What is allowed
	// now, and in either of them, is not cut by this change.
	End    *cloud.Snapshot
	Limits cloud.Limits
	// Ours reports whether a group is ours to change.
	Ours func(*cloud.Group) bool
	// Extended reports whether a group is somebody else's in which some rules are ours; To tells
	// those that shall be there, and the others of it are those of From. Nil means that there are
	// none.
	Extended func(*cloud.Group) bool
	// Fits reports whether one group can hold the rules.
	Fits func([]cloud.Rule) bool
	// Relabels is set if the policies are unchanged, so that nothing but memberships differs: see
	// Conflicts.
	Relabels bool
	// Stable are groups that stand for the same interfaces' memberships before and after.
	Stable map[string]bool
	// Apart are interfaces that cannot move by one edit, so that nothing happens at once with their
	// moves; see Order.Apart.
	Apart map[string]bool
	// Leaving are interfaces that are given back, and Still those to which nothing is done,
	// whatever their peers do: who leaves does not wait for them.
	Leaving, Still map[string]bool
	// Beyond are interfaces that nobody can hold back: nothing is done to them.
	Beyond map[string]bool
	// First are the keys of tags of networks that are written before anything else is done; all
	// others when all is done.
	First []string
	// Mark is the key of the tag of networks that says what they are like when all is done. Where
	// it changes it is removed in the first stage, and written when all is done, each by a call of
	// its own.
	Mark string
	// Joint begins the keys of tags whose values are read together: what goes of them is emptied by
	// the call that writes the others, before it is removed.
	Joint string
	// Described reports whether a description is one that rules of ours have. Where the cloud keeps
	// descriptions, others are put right: a rule that has one of ours keeps it, whatever it says.
	// Nil means that no description is looked at.
	Described func(string) bool
	// Batch is how many objects one call tags; 0 is a default.
	Batch int
	// Stay are interfaces whose groups stay as they are: whatever they allow now they allow in the
	// end, too, so nobody whom their rules name by a group leaves that group.
	Stay map[string]bool
	// Kept are interfaces that are to allow what they allow now, and whose rules are written anew
	// for it when others change their groups. Only what they allow tells what that is.
	Kept map[string]bool
	// Urgent are interfaces that wait for nobody.
	Urgent map[string]bool
	// Stop is asked now and then; a panic in it ends the computation.
	Stop func()
}

// cohort is a set of interfaces that are alike: they hold the same groups now and in the end. They
// move together.
type cohort struct {
	network    string
	interfaces []*cloud.Interface
	// from, to and atLast are the groups that it holds before and after, and after all further
	// changes, sorted.
	from, to, atLast []string
	addrs            addrset.Set
	all              addrset.Set // public addresses included
	// now and then are what it allows before and after, ingress and egress, last what it allows
	// after all further changes, and end what it allows then or at last: with less room in between,
	// policies may be tightened in another way.
	now, then, last, end [2]flow.Permit
	// least and most are what it must and what it may allow on the way.
	least, most [2]flow.Permit
	// kept is set if it never allows again what it has lost on the way; see Change.Kept.
	kept bool
	// free is set if it goes from stable groups to other stable ones while nothing but memberships
	// differs.
	free bool
	// atomic is set if its groups have to change by one edit: somebody else's permits change by the
	// same one.
	atomic bool

	// at are the groups that it holds at this point of the plan, and next those that it may hold
	// already, if it moves in the present batch.
	at, next []string
}

// may reports whether a cohort may be allowed the addresses for a service at this point of the
// plan. One that has to move by one edit has what it had until then, and what it shall have from
// then on.
func (c *cohort) may(i int, service flow.Service, addrs addrset.Set, groups []string) bool {
	switch {
	case c.atomic && slices.Equal(groups, c.from):
		return c.now[i].Allows(service, addrs)
	case c.atomic && slices.Equal(groups, c.to):
		return c.then[i].Allows(service, addrs)
	}
	return c.most[i].Allows(service, addrs)
}

// moves reports whether its groups change.
func (c *cohort) moves() bool { return !slices.Equal(c.from, c.to) }

// apart reports whether the cohort cannot move by one edit.
func (s *Survey) apart(c *cohort) bool {
	return slices.ContainsFunc(c.interfaces, func(n *cloud.Interface) bool { return s.Apart[n.ID] })
}

// others are addresses without those of the cohort's only interface: what it sends to itself passes
// no group.
func (c *cohort) others(addrs addrset.Set) addrset.Set {
	if len(c.interfaces) == 1 {
		return addrs.Minus(c.addrs)
	}
	return addrs
}

// Survey is a change, indexed. One goroutine may use it at a time, and Plan may be called once.
type Survey struct {
	Change
	from, to *model.View
	cohorts  []*cohort          // sorted by network, groups before and groups after
	cohortOf map[string]*cohort // by interface ID
	permits  map[permitKey][2]flow.Permit
	hasty    map[string]bool // interfaces; see Hasty
	sides    []*side         // the cohorts that change
	meetings []meeting       // all of them within the region
}

// NewSurvey looks at a change.
func NewSurvey(c Change) *Survey {
	s := &Survey{
		Change: c, from: model.NewView(c.From), to: model.NewView(c.To), permits: map[permitKey][2]flow.Permit{}, hasty: map[string]bool{},
	}
	to := groupsHeld(c.To)
	last, atLast := s.to, to
	if c.End != nil {
		last, atLast = model.NewView(c.End), groupsHeld(c.End)
	}
	s.gather(to, atLast)
	if s.still() {
		return s
	}
	for _, k := range s.cohorts {
		k.hold(k.interfaces)
		k.now, k.then, k.last = s.permit(s.from, k.from, k.network), s.permit(s.to, k.to, k.network), s.permit(last, k.atLast, k.network)
		switch {
		case s.Stay[k.interfaces[0].ID]:
			k.last, k.end = k.now, k.now
		case c.End == nil:
			k.end = k.then
		default:
			for i := range 2 {
				k.end[i] = k.last[i].Union(k.then[i])
			}
		}
		for i := range 2 {
			k.least[i], k.most[i] = k.now[i].Intersect(k.end[i]), k.now[i].Union(k.then[i])
		}
		k.kept = s.Kept[k.interfaces[0].ID]
		k.free = s.Relabels && k.moves() && s.stable(k)
	}
	s.mix()
	slices.SortFunc(s.cohorts, func(a, b *cohort) int {
		return cmp.Or(strings.Compare(a.network, b.network), slices.Compare(a.from, b.from), slices.Compare(a.to, b.to))
	})
	s.sides = s.changing()
	s.meetings = s.meet(s.sides, s.sides)
	return s
}

// gather puts interfaces into cohorts, given the groups that they hold after the change and after
// all further ones.
func (s *Survey) gather(to, atLast map[string][]string) {
	type likeness struct {
		network, from, to, atLast         string
		stay, kept, still, beyond, urgent bool
	}
	s.cohortOf = make(map[string]*cohort, len(s.From.Interfaces))
	alike := map[likeness]*cohort{}
	for i := range s.From.Interfaces {
		n := &s.From.Interfaces[i]
		key := likeness{
			n.NetworkID, strings.Join(n.GroupIDs, " "), strings.Join(to[n.ID], " "), strings.Join(atLast[n.ID], " "),
			s.Stay[n.ID], s.Kept[n.ID], s.Still[n.ID], s.Beyond[n.ID], s.Urgent[n.ID],
		}
		k := alike[key]
		if k == nil {
			k = &cohort{network: n.NetworkID, from: distinct(n.GroupIDs), to: distinct(to[n.ID]), atLast: distinct(atLast[n.ID])}
			k.at = k.from
			alike[key] = k
			s.cohorts = append(s.cohorts, k)
		}
		k.interfaces = append(k.interfaces, n)
		s.cohortOf[n.ID] = k
	}
}

// groupsHeld are the groups of interfaces.
func groupsHeld(s *cloud.Snapshot) map[string][]string {
	out := make(map[string][]string, len(s.Interfaces))
	for i := range s.Interfaces {
		out[s.Interfaces[i].ID] = s.Interfaces[i].GroupIDs
	}
	return out
}

// still reports whether nothing changes but tags and descriptions.
func (s *Survey) still() bool {
	if slices.ContainsFunc(s.cohorts, (*cohort).moves) || len(s.From.Groups) != len(s.To.Groups) {
		return false
	}
	for i := range s.From.Groups {
		is, want := &s.From.Groups[i], &s.To.Groups[i]
		if is.ID != want.ID || !slices.EqualFunc(is.Rules, want.Rules, cloud.Rule.Same) && !slices.Equal(cloud.RuleKeys(is.Rules), cloud.RuleKeys(want.Rules)) {
			return false
		}
	}
	return true
}

// stable reports whether a cohort holds nothing of ours that means something else before or after.
func (s *Survey) stable(k *cohort) bool {
	return !slices.ContainsFunc(slices.Concat(k.from, k.to), func(g string) bool {
		kept := slices.Contains(k.from, g) && slices.Contains(k.to, g) && !s.owns(g)
		return !s.Stable[g] && !kept
	})
}

func (s *Survey) owns(group string) bool {
	g := s.to.Group(group)
	if g == nil {
		g = s.from.Group(group)
	}
	return g != nil && s.Ours(g)
}

// mix extends what free cohorts may allow one another: each end of a flow may be taken for what it
// was or for what it will be. What they must allow does not become less by that.
func (s *Survey) mix() {
	var sets []addrset.Set
	for _, k := range s.cohorts {
		if k.free {
			sets = append(sets, k.addrs)
		}
	}
	if len(sets) == 0 {
		return
	}
	free := addrset.Union(sets...)
	for _, k := range s.cohorts {
		if !k.free {
			continue
		}
		for _, m := range []struct {
			rules, members *model.View
			groups         []string
		}{{s.from, s.to, k.from}, {s.to, s.to, k.from}, {s.to, s.from, k.to}} {
			for i, d := range flow.Directions() {
				k.most[i] = k.most[i].Union(model.Permit(m.rules.Rules(m.groups, d), func(p cloud.Peer) model.Meaning {
					if !s.Stable[p.GroupID] {
						return model.Meaning{}
					}
					set, _ := m.members.Addresses(p, k.network)
					return model.Known(set.Intersect(free), true)
				}))
			}
		}
	}
}

type permitKey struct {
	view            *model.View
	groups, network string
}

// permit is what the holders of groups allow at the moment of a view.
func (s *Survey) permit(view *model.View, groups []string, network string) (out [2]flow.Permit) {
	key := permitKey{view, strings.Join(groups, " "), network}
	if p, ok := s.permits[key]; ok {
		return p
	}
	s.stop()
	for i, d := range flow.Directions() {
		out[i] = view.Permit(view.Rules(groups, d), network)
	}
	s.permits[key] = out
	return out
}

func (s *Survey) stop() {
	if s.Stop != nil {
		s.Stop()
	}
}
