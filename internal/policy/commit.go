package policy

import (
	"slices"
	"strings"
)

// Commit brings everything computed up to date and returns what changed since the last Commit.
//
// The order matters. First the structure: groups are redefined, policies translated, references to groups and reaches
// moved. Then the numbers flow down: members of applied-to groups, their hosts, reaches, address groups, policies.
func (e *Engine) Commit() *Delta {
	d := &Delta{}
	e.updateGroupDefs()
	policies := e.updatePolicies()
	e.sweepReaches()
	e.sweepGroups(d)
	e.updateNodes()
	d.room(e.dirtyGroups)
	e.updateAppliedToGroups(d)
	e.fillReaches()
	e.updateAddressGroups(d)
	e.collectPolicies(d, policies)
	d.Problems = e.takeProblems()
	e.clean(policies)
	sortGroups(d.AddressGroups)
	sortGroups(d.AppliedToGroups)
	slices.SortFunc(d.Policies, func(a, b PolicyDelta) int { return strings.Compare(a.Policy.Source.UID, b.Policy.Source.UID) })
	return d
}

func sortGroups(list []GroupDelta) {
	slices.SortFunc(list, func(a, b GroupDelta) int { return strings.Compare(a.Name, b.Name) })
}

// list returns the delta's list for a role.
func (d *Delta) list(role GroupRole) *[]GroupDelta {
	if role == AddressGroup {
		return &d.AddressGroups
	}
	return &d.AppliedToGroups
}

// room makes the lists as long as the groups to look at may make them.
func (d *Delta) room(dirty []*group) {
	var n [2]int
	for _, g := range dirty {
		n[g.role]++
	}
	d.AddressGroups = slices.Grow(d.AddressGroups, n[AddressGroup])
	d.AppliedToGroups = slices.Grow(d.AppliedToGroups, n[AppliedToGroup])
}

// sweepGroups removes the groups to which no policy refers any more.
func (e *Engine) sweepGroups(d *Delta) {
	live := e.dirtyGroups[:0]
	for _, g := range e.dirtyGroups {
		if g.refs > 0 {
			live = append(live, g)
			continue
		}
		g.dirty = false
		if !g.fresh {
			g.span.keep(g.hostSpan())
			list := d.list(g.role)
			*list = append(*list, GroupDelta{
				Change: Removed, Role: g.role, Name: g.name, UID: g.uid, SpanRemoved: keysOf(g.span.former),
			})
		}
		e.forget(g)
	}
	clear(e.dirtyGroups[len(live):])
	e.dirtyGroups = live
}

// updateNodes brings the groups of Services in line with the Nodes.
func (e *Engine) updateNodes() {
	for h, n := range e.nodeShifts {
		if n == 0 {
			continue
		}
		before, after := e.nodeHosts.add(h, n)
		if before == after {
			continue
		}
		for g := range e.serviceGroups {
			if !g.fresh {
				e.shift(g, h, n)
				e.touch(g)
			}
		}
	}
	e.nodeShifts = nil
}

// updateAppliedToGroups works out the members of applied-to groups and the hosts they are on. It may find more address
// groups to update.
func (e *Engine) updateAppliedToGroups(d *Delta) {
	for i := 0; i < len(e.dirtyGroups); i++ {
		g := e.dirtyGroups[i]
		if g.role != AppliedToGroup {
			continue
		}
		out := GroupDelta{Change: Updated, Role: g.role, Name: g.name, UID: g.uid}
		if g.fresh {
			out.Change, out.Added = Added, g.members()
			if g.service != nil {
				g.hosts.list = slices.Clone(e.nodeHosts.list)
			} else {
				e.countMembers(g, out.Added)
			}
			out.SpanAdded = g.hosts.keys()
		} else {
			out.Added, out.Removed = g.resolve(func(m *Member, n int) { e.shift(g, e.hosts[m.Host], n) })
			out.SpanAdded, out.SpanRemoved = g.span.take(&g.hosts)
		}
		d.add(&out, g.replaced)
	}
}

// add appends a group's delta unless nothing changed.
func (d *Delta) add(g *GroupDelta, replaced bool) {
	if g.Change == Updated && !replaced && len(g.Added)+len(g.Removed)+len(g.SpanAdded)+len(g.SpanRemoved) == 0 {
		return
	}
	list := d.list(g.Role)
	*list = append(*list, *g)
}

// countMembers counts the hosts of all members of a fresh group.
func (e *Engine) countMembers(g *group, members []*Member) {
	var last *host
	for _, m := range members {
		if last == nil || last.key != m.Host {
			last = e.hosts[m.Host]
		}
		g.hosts.add(last, 1)
	}
}

// updateAddressGroups works out the members and spans of address groups.
func (e *Engine) updateAddressGroups(d *Delta) {
	for _, g := range e.dirtyGroups {
		if g.role != AddressGroup {
			continue
		}
		g.recount()
		out := GroupDelta{Change: Updated, Role: g.role, Name: g.name, UID: g.uid}
		if g.fresh {
			out.Change, out.Added = Added, g.members()
			if r := g.reaches.one; r != nil {
				out.SpanAdded = e.wholeSpan(r)
			} else {
				out.SpanAdded = g.hosts.keys()
			}
		} else {
			out.Added, out.Removed = g.resolve(func(*Member, int) {})
			out.SpanAdded, out.SpanRemoved = g.span.take(g.hostSpan())
		}
		d.add(&out, g.replaced)
	}
}

// wholeSpan returns the keys of a reach, made once per Commit.
func (e *Engine) wholeSpan(r *reach) []string {
	n := e.newsOf(r)
	if n.keys == nil {
		n.keys = r.hostSpan().keys()
	}
	return n.keys
}

// collectPolicies lists the changes of the policies that were computed again and of those whose reach changed.
func (e *Engine) collectPolicies(d *Delta, computed []*policyState) {
	d.Policies = slices.Grow(d.Policies, len(computed))
	for _, r := range e.dirtyReaches {
		added, removed := r.span.take(r.hostSpan())
		if len(added)+len(removed) == 0 {
			continue
		}
		n := e.newsOf(r)
		n.added, n.removed = added, removed
		for _, p := range r.policies {
			if !p.changed {
				d.Policies = append(d.Policies, PolicyDelta{
					Change: Updated, Policy: p.out, Old: p.out, SpanAdded: added, SpanRemoved: removed,
				})
			}
		}
	}
	for _, p := range computed {
		out := PolicyDelta{Policy: p.out, Old: p.former}
		switch {
		case p.out == nil && p.former == nil:
			continue
		case p.former == nil:
			out.Change, out.SpanAdded = Added, e.wholeSpan(p.reach)
		case p.out == nil:
			out.Change, out.Policy, out.SpanRemoved = Removed, p.former, keysOf(p.formerSpan)
		default:
			out.Change = Updated
			if p.moved {
				out.SpanAdded, out.SpanRemoved = diffHosts(p.formerSpan, p.reach.hostSpan())
			} else if n := p.reach.news; n != nil {
				out.SpanAdded, out.SpanRemoved = n.added, n.removed
			}
			if p.out == p.former && len(out.SpanAdded)+len(out.SpanRemoved) == 0 {
				continue
			}
		}
		d.Policies = append(d.Policies, out)
	}
}

// clean forgets what was needed for this Commit only.
func (e *Engine) clean(computed []*policyState) {
	for _, p := range computed {
		p.former, p.formerSpan, p.changed, p.moved = nil, nil, false, false
		if !p.alive && !p.dirty {
			delete(e.policies, p.source.Ref().UID)
		}
	}
	for _, g := range e.dirtyGroups {
		g.fresh, g.dirty, g.replaced = false, false, false
	}
	e.dirtyGroups = nil
	for _, r := range e.dirtyReaches {
		r.dirty = false
	}
	for _, r := range e.toldReaches {
		r.news = nil
	}
	e.dirtyReaches, e.toldReaches = nil, nil
	for _, x := range e.dead {
		// One that went, came and went is here twice.
		if !x.alive && e.entity(x.EntityRef) == x {
			e.forgetEntity(x)
		}
	}
	e.dead = nil
	for _, h := range e.idleHosts {
		if h.uses == 0 && e.hosts[h.key] == h {
			delete(e.hosts, h.key)
			e.freeHostIDs = append(e.freeHostIDs, h.id)
		}
	}
	e.idleHosts = nil
}

// For returns the part of the change that the enforcer with the given key sees; an empty key stands for a receiver of
// all keys. No member is in both lists under the same identity.
func (g *GroupDelta) For(key string) (added, removed []*Member) {
	if g.Role == AddressGroup {
		return g.Added, g.Removed
	}
	for _, m := range g.Added {
		if key == "" || m.On(key) {
			added = append(added, m)
		}
	}
	for _, m := range g.Removed {
		if key != "" {
			if m.On(key) {
				removed = append(removed, m)
			}
			continue
		}
		_, moved := slices.BinarySearchFunc(g.Added, m, compareMembers)
		if !moved {
			removed = append(removed, m)
		}
	}
	return added, removed
}
