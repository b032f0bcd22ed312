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

// Survey is a change, indexed. One goroutine may use it at a time, and Plan may be called once.
type Survey struct {
	Change
	from, to *model.View
	cohorts  []*cohort          // sorted by network, groups before and groups after
	cohortOf map[string]*cohort // by interface ID
	hasty    map[string]bool    // interfaces; see Hasty
	sides    []*side            // the cohorts that change
	meetings []meeting          // all of them within the region
}

// permits are what holders of groups allow.
type permits map[permitKey][2]flow.Permit

type permitKey struct {
	view            *model.View
	groups, network string
}

// NewSurvey looks at a change.
func NewSurvey(c Change) *Survey {
	s := &Survey{
		Change: c, from: model.NewView(c.From), to: model.NewView(c.To), hasty: map[string]bool{},
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
	known := permits{}
	for _, k := range s.cohorts {
		k.hold(k.interfaces)
		k.now, k.then, k.last = s.permit(known, s.from, k.from, k.network), s.permit(known, s.to, k.to, k.network), s.permit(known, last, k.atLast, k.network)
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

// groupsHeld are the groups of interfaces.
func groupsHeld(s *cloud.Snapshot) map[string][]string {
	out := make(map[string][]string, len(s.Interfaces))
	for i := range s.Interfaces {
		out[s.Interfaces[i].ID] = s.Interfaces[i].GroupIDs
	}
	return out
}

// gather puts interfaces into cohorts, given the groups that they hold after the change and after
// all further ones.
func (s *Survey) gather(to, atLast map[string][]string) {
	type likeness struct {
		network, from, to, atLast, drifted         string
		stay, kept, still, beyond, urgent, pausing bool
	}
	s.cohortOf = make(map[string]*cohort, len(s.From.Interfaces))
	alike := map[likeness]*cohort{}
	for i := range s.From.Interfaces {
		n := &s.From.Interfaces[i]
		key := likeness{
			n.NetworkID, strings.Join(n.GroupIDs, " "), strings.Join(to[n.ID], " "), strings.Join(atLast[n.ID], " "), strings.Join(s.Pausing[n.ID], " "),
			s.Stay[n.ID], s.Kept[n.ID], s.Still[n.ID], s.Beyond[n.ID], s.Urgent[n.ID], s.pausing(n),
		}
		k := alike[key]
		if k == nil {
			k = &cohort{
				network: n.NetworkID, from: distinct(n.GroupIDs), to: distinct(to[n.ID]), atLast: distinct(atLast[n.ID]),
				drifted: s.Pausing[n.ID], pausing: s.pausing(n),
			}
			k.at = k.from
			alike[key] = k
			s.cohorts = append(s.cohorts, k)
		}
		k.interfaces = append(k.interfaces, n)
		s.cohortOf[n.ID] = k
	}
}

func (s *Survey) pausing(n *cloud.Interface) bool {
	_, pauses := s.Pausing[n.ID]
	return pauses
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

// permit is what the holders of groups allow at the moment of a view.
func (s *Survey) permit(known permits, view *model.View, groups []string, network string) (out [2]flow.Permit) {
	key := permitKey{view, strings.Join(groups, " "), network}
	if p, ok := known[key]; ok {
		return p
	}
	s.stop()
	for i, d := range flow.Directions() {
		out[i] = view.Permit(view.Rules(groups, d), network)
	}
	known[key] = out
	return out
}
