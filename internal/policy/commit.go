package policy

import (
	"cmp"
	"slices"
)

// Commit brings everything computed up to date and returns what changed since the last Commit.
func (e *Engine) Commit() *Delta { return e.CommitChanges().Delta() }

// CommitChanges is Commit for a receiver that goes through what changed piece by piece: after the
// first Commit that is all there is. What it returns is good until the Engine is called again.
//
// The order matters. First the structure: groups are redefined, policies translated, references to
// groups and reaches moved. Then the numbers flow down: members of applied-to groups, their hosts,
// reaches, address groups, policies.
func (e *Engine) CommitChanges() *Changes {
	c := e.last.again(e.commits + 1)
	e.updateGroupDefs()
	policies := e.updatePolicies()
	e.sweepReaches()
	e.sweepGroups(c)
	e.updateNodes()
	e.updateAppliedToGroups(c)
	e.fillReaches()
	e.updateAddressGroups(c)
	e.collectPolicies(c, policies)
	c.problems = e.takeProblems()
	c.collectFresh(e.dirtyGroups, policies)
	e.clean(policies)
	c.hosts = e.hostTable
	c.sort()
	if e.last = c; c.large() {
		e.last = nil
	}
	e.commits++
	e.slabs = slabs{closed: true}
	return c
}

// sweepGroups removes the groups to which no policy refers any more.
func (e *Engine) sweepGroups(c *Changes) {
	live := e.dirtyGroups[:0]
	for _, g := range e.dirtyGroups {
		if g.refs > 0 {
			live = append(live, g)
			continue
		}
		g.dirty = false
		if !g.fresh {
			g.span.keep(&e.spares, g.hostSpan())
			c.groups[g.role] = append(c.groups[g.role], GroupDelta{
				Change: Removed, Role: g.role, Name: g.name, UID: g.uidOf(), SpanRemoved: e.hostTable.keysOf(g.span.former),
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
		before, after := e.nodeHosts.add(h.id, n)
		if before == after {
			continue
		}
		for _, g := range e.serviceGroups {
			if !g.fresh {
				e.shift(g, h, n)
				e.touch(g)
			}
		}
	}
	e.nodeShifts = nil
}

// updateAppliedToGroups works out the members of applied-to groups and the hosts they are on. It
// may find more address groups to update.
func (e *Engine) updateAppliedToGroups(c *Changes) {
	for i := 0; i < len(e.dirtyGroups); i++ {
		g := e.dirtyGroups[i]
		switch {
		case g.role != AppliedToGroup:
		case g.fresh && g.selection == nil:
			g.hosts.list = slices.Clone(e.nodeHosts.list)
		case g.fresh:
			e.countMembers(g)
		default:
			out := GroupDelta{Change: Updated, Role: g.role, Name: g.name, UID: g.uidOf()}
			out.Added, out.Removed = g.resolve(&e.spares, func(m *Member, n int32) { e.shift(g, e.hosts[m.Host], n) })
			out.SpanAdded, out.SpanRemoved = g.span.take(&e.spares, e.hostTable, &g.hosts)
			c.update(&out, g.replaced)
		}
	}
}

// countMembers counts the hosts of all members of a fresh group.
func (e *Engine) countMembers(g *group) {
	e.tally = append(e.tally, make([]int32, len(e.hostTable)-len(e.tally))...)
	n := 0
	for _, link := range g.selection.cells {
		for _, x := range link.cell.entities {
			if x.member(g.role) == nil {
				continue
			}
			if e.tally[x.host.id]++; e.tally[x.host.id] == 1 {
				n++
			}
		}
	}
	list := roomFor(&e.slabs, &e.slabs.hostCounts, n)
	for _, link := range g.selection.cells {
		for _, x := range link.cell.entities {
			if x.host == nil {
				continue
			}
			if count := &e.tally[x.host.id]; *count > 0 {
				list = append(list, hostCount{x.host.id, *count})
				*count = 0
			}
		}
	}
	slices.SortFunc(list, func(a, b hostCount) int { return cmp.Compare(a.id, b.id) })
	g.hosts.list = list
}

// updateAddressGroups works out the members and spans of address groups.
func (e *Engine) updateAddressGroups(c *Changes) {
	for _, g := range e.dirtyGroups {
		if g.role != AddressGroup {
			continue
		}
		g.recount()
		if g.fresh {
			continue
		}
		out := GroupDelta{Change: Updated, Role: g.role, Name: g.name, UID: g.uidOf()}
		out.Added, out.Removed = g.resolve(&e.spares, func(*Member, int32) {})
		out.SpanAdded, out.SpanRemoved = g.span.take(&e.spares, e.hostTable, g.hostSpan())
		c.update(&out, g.replaced)
	}
}

// collectPolicies lists the changes of the policies that were computed again and of those whose
// reach changed.
func (e *Engine) collectPolicies(c *Changes, computed []*policyState) {
	for _, r := range e.dirtyReaches {
		added, removed := r.span.take(&e.spares, e.hostTable, r.hostSpan())
		if len(added)+len(removed) == 0 {
			continue
		}
		r.news = &reachNews{added, removed}
		e.toldReaches = append(e.toldReaches, r)
		for _, p := range r.policies {
			if !p.changed {
				c.policies = append(c.policies, PolicyDelta{
					Change: Updated, Policy: p.out, Old: p.out, SpanAdded: added, SpanRemoved: removed,
				})
			}
		}
	}
	for _, p := range computed {
		out := PolicyDelta{Change: Updated, Policy: p.out, Old: p.former}
		switch {
		case p.former == nil:
			continue // fresh, or nothing before and after
		case p.out == nil:
			out.Change, out.Policy, out.SpanRemoved = Removed, p.former, e.hostTable.keysOf(p.rest().formerSpan)
		default:
			if p.moved {
				out.SpanAdded, out.SpanRemoved = e.hostTable.difference(p.rest().formerSpan, p.reach.hostSpan())
			} else if n := p.reach.news; n != nil {
				out.SpanAdded, out.SpanRemoved = n.added, n.removed
			}
			if p.out == p.former && len(out.SpanAdded)+len(out.SpanRemoved) == 0 {
				continue
			}
		}
		c.policies = append(c.policies, out)
	}
}

// clean forgets what was needed for this Commit only.
func (e *Engine) clean(computed []*policyState) {
	for _, p := range computed {
		p.former, p.changed, p.moved = nil, false, false
		if p.more != nil {
			p.more.formerSpan = nil
		}
		if !p.alive && !p.dirty {
			e.policies.Remove(e.policies.Hash(p.source.Ref().UID), p)
		}
	}
	for _, g := range e.dirtyGroups {
		g.fresh, g.dirty, g.replaced = false, false, false
	}
	e.dirtyGroups = scratchOf(e.dirtyGroups)
	for _, r := range e.dirtyReaches {
		r.dirty = false
	}
	for _, r := range e.toldReaches {
		r.news = nil
	}
	e.dirtyReaches, e.toldReaches = scratchOf(e.dirtyReaches), scratchOf(e.toldReaches)
	for _, x := range e.dead {
		// One that went, came and went is here twice.
		if !x.alive && e.entity(x.EntityRef) == x {
			e.forgetEntity(x)
		}
	}
	e.dead = scratchOf(e.dead)
	e.donePolicies = scratchOf(computed)
	for _, h := range e.idleHosts {
		if h.uses == 0 && e.hosts[h.key] == h {
			delete(e.hosts, h.key)
			e.hostTable[h.id] = nil
			e.freeHostIDs = append(e.freeHostIDs, h.id)
		}
	}
	e.idleHosts = scratchOf(e.idleHosts)
}

// For returns the part of the change that the enforcer with the given key sees; an empty key stands
// for a receiver of all keys. No member is in both lists under the same identity.
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
