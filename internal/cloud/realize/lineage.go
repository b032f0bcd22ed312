package realize

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
	"github.com/nephele-io/nephele/internal/cloud/plan"
	"github.com/nephele-io/nephele/internal/enforcer"
)

// lineage remembers in which order entities came to belong to other groups, until the cloud has followed; see plan.Succession. It is safe for
// concurrent use.
type lineage struct {
	// moment is how long what comes of an entity belongs to one change: the patches of several groups come one after the other.
	moment time.Duration

	mu   sync.Mutex
	seen enforcer.Computed
	// before and changes are those of a plan.Succession.
	before  map[plan.EntityRef]plan.Membership
	changes []change
	ids     uint64
}

// change is a change that the cloud has not followed. What it says may become another while the moment lasts; it gets another id then.
type change struct {
	plan.Change
	id uint64
	at time.Time
}

// succession is what a plan is made from, with the ids of its changes.
type succession struct {
	plan.Succession
	ids []uint64
}

// look takes notice of what is to be enforced now, and returns it with the changes that the cloud has not followed.
func (l *lineage) look(now time.Time, m *enforcer.Mirror) (want enforcer.Computed, version uint64, s succession, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if want, version, err = m.Current(); err != nil {
		return want, version, s, err
	}
	l.notice(want, now)
	s.Before = maps.Clone(l.before)
	for _, c := range l.changes {
		s.Changes, s.ids = append(s.Changes, c.Change), append(s.ids, c.id)
	}
	return want, version, s, nil
}

// follow says that the cloud follows the i-th change of a succession, or is about to.
func (l *lineage) follow(s succession, i int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	ch := s.Changes[i]
	if _, pending := l.before[ch.Entity]; !pending {
		return // forgotten meanwhile
	}
	of := func(c change) bool { return c.Entity == ch.Entity }
	l.changes = slices.DeleteFunc(l.changes, func(c change) bool { return c.id == s.ids[i] })
	l.before[ch.Entity] = ch.Membership
	if !slices.ContainsFunc(l.changes, of) {
		delete(l.before, ch.Entity)
	}
}

// notice compares what is to be enforced with what it was. If anything but entities in groups has changed, the order of changes says nothing
// any more: what has not been followed of them is one change, with that. It needs mu.
func (l *lineage) notice(want enforcer.Computed, now time.Time) {
	was := l.seen
	l.seen = want
	touched, comparable := difference(was, want)
	if l.before == nil || !comparable {
		l.before, l.changes = map[plan.EntityRef]plan.Membership{}, nil
		return
	}
	if len(touched) == 0 {
		return
	}
	then, is := memberships(was, touched), memberships(want, touched)
	for _, e := range slices.SortedFunc(maps.Keys(touched), func(a, b plan.EntityRef) int {
		return strings.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name)
	}) {
		if !is[e].Same(then[e]) {
			l.record(e, then[e], is[e], now)
		}
	}
}

// difference returns the entities that have come into groups or left them. It is false if anything else has changed that policies depend on.
func difference(was, want enforcer.Computed) (touched map[plan.EntityRef]bool, comparable bool) {
	touched = map[plan.EntityRef]bool{}
	if !slices.Equal(was.Policies, want.Policies) || len(was.AddressGroups) != len(want.AddressGroups) || len(was.AppliedToGroups) != len(want.AppliedToGroups) {
		return nil, false
	}
	for i, g := range want.AddressGroups {
		if o := was.AddressGroups[i]; g.Name != o.Name || g != o && !compareMembers(o.GroupMembers, g.GroupMembers, touched) {
			return nil, false
		}
	}
	for i, g := range want.AppliedToGroups {
		if o := was.AppliedToGroups[i]; g.Name != o.Name || g != o && !compareMembers(o.GroupMembers, g.GroupMembers, touched) {
			return nil, false
		}
	}
	return touched, true
}

// record notes that an entity belongs to other groups than it did.
func (l *lineage) record(e plan.EntityRef, then, is plan.Membership, now time.Time) {
	l.ids++
	for i := len(l.changes) - 1; i >= 0 && now.Sub(l.changes[i].at) < l.moment; i-- {
		if c := &l.changes[i]; c.Entity == e {
			c.Membership, c.id = is, l.ids
			return
		}
	}
	if _, pending := l.before[e]; !pending {
		l.before[e] = then
	}
	l.changes = append(l.changes, change{Change: plan.Change{Entity: e, Membership: is}, id: l.ids, at: now})
}

// compareMembers collects the entities that only one of two lists holds. It is false if another kind of member has come or gone.
func compareMembers(was, now []v1beta2.GroupMember, touched map[plan.EntityRef]bool) bool {
	entities, pods := map[plan.EntityRef]int{}, map[v1beta2.PodReference]int{}
	count := func(members []v1beta2.GroupMember, by int) {
		for i := range members {
			switch m := &members[i]; {
			case m.ExternalEntity != nil:
				entities[plan.EntityRef{Namespace: m.ExternalEntity.Namespace, Name: m.ExternalEntity.Name}] += by
			case m.Pod != nil:
				pods[*m.Pod] += by
			default:
				pods[v1beta2.PodReference{}] += by
			}
		}
	}
	count(was, 1)
	count(now, -1)
	for e, n := range entities {
		if n != 0 {
			touched[e] = true
		}
	}
	for _, n := range pods {
		if n != 0 {
			return false
		}
	}
	return true
}

// memberships returns what some entities belong to.
func memberships(c enforcer.Computed, of map[plan.EntityRef]bool) map[plan.EntityRef]plan.Membership {
	out := map[plan.EntityRef]plan.Membership{}
	each := func(group string, members []v1beta2.GroupMember, list func(*plan.Membership) *[]plan.Listing) {
		for i := range members {
			if members[i].ExternalEntity == nil {
				continue
			}
			e := plan.EntityRef{Namespace: members[i].ExternalEntity.Namespace, Name: members[i].ExternalEntity.Name}
			if !of[e] {
				continue
			}
			m, member := out[e], members[i] // a copy, so that the rest of the group can go
			to := list(&m)
			*to = append(*to, plan.Listing{Group: group, Member: &member})
			out[e] = m
		}
	}
	for _, g := range c.AddressGroups {
		each(g.Name, g.GroupMembers, func(m *plan.Membership) *[]plan.Listing { return &m.Address })
	}
	for _, g := range c.AppliedToGroups {
		each(g.Name, g.GroupMembers, func(m *plan.Membership) *[]plan.Listing { return &m.Applied })
	}
	return out
}
