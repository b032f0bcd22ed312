package compute

import (
	"slices"

	"github.com/nephele-io/nephele/internal/policy"
	"github.com/nephele-io/nephele/internal/policy/slab"
	"github.com/nephele-io/nephele/internal/policy/span"
)

// Commit brings everything computed up to date and returns what changed since the last Commit.
func (e *Engine) Commit() *policy.Delta { return e.CommitChanges().Delta() }

// CommitChanges is Commit for a receiver that goes through what changed piece by piece: after the
// first Commit that is all there is. What it returns is good until the Engine is called again.
//
// The order matters. First the structure: groups are redefined, policies translated, references to
// groups and reaches moved. Then the numbers flow down: members of applied-to groups, their hosts,
// reaches, address groups, policies.
func (e *Engine) CommitChanges() *Changes {
	c := e.last.again(e.commits + 1)
	e.definitions.update()
	policies := e.updatePolicies()
	e.reaches.sweep()
	e.sweepGroups(c)
	e.updateNodes()
	e.updateAppliedToGroups(c)
	e.reaches.fill()
	e.updateAddressGroups(c)
	e.collectPolicies(c, policies)
	c.problems = e.reports.take(e.reportOf)
	c.collectFresh(e.groups.dirty, policies)
	e.clean(policies)
	c.hosts = e.hosts.Table
	c.sort()
	if e.last = c; c.large() {
		e.last = nil
	}
	e.commits++
	e.arena.Close()
	return c
}

// sweepGroups removes the groups to which no policy refers any more.
func (e *Engine) sweepGroups(c *Changes) {
	live := e.groups.dirty[:0]
	for _, g := range e.groups.dirty {
		if g.refs > 0 {
			live = append(live, g)
			continue
		}
		g.dirty = false
		if !g.fresh {
			g.span.Keep(&e.groups.spares, g.hostSpan())
			c.groups[g.role] = append(c.groups[g.role], policy.GroupDelta{
				Change: policy.Removed, Role: g.role, Name: g.name, UID: g.uidOf(), SpanRemoved: e.hosts.Table.KeysOf(g.span.Former),
			})
		}
		e.groups.forget(&e.world, g)
	}
	clear(e.groups.dirty[len(live):])
	e.groups.dirty = live
}

// updateNodes brings the groups of Services in line with the Nodes.
func (e *Engine) updateNodes() {
	e.world.Nodes.Settle(func(h *span.Host, n int32) {
		for _, g := range e.groups.services {
			if !g.fresh {
				e.reaches.shift(g, h, n)
				e.groups.touch(g)
			}
		}
	})
}

// updateAppliedToGroups works out the members of applied-to groups and the hosts they are on. It
// may find more address groups to update.
func (e *Engine) updateAppliedToGroups(c *Changes) {
	for i := 0; i < len(e.groups.dirty); i++ {
		g := e.groups.dirty[i]
		switch {
		case g.role != policy.AppliedToGroup:
		case g.fresh && g.selection == nil:
			g.hosts.List = slices.Clone(e.world.Nodes.Hosts.List)
		case g.fresh:
			e.groups.countMembers(g, e.hosts.Table)
		default:
			out := policy.GroupDelta{Change: policy.Updated, Role: g.role, Name: g.name, UID: g.uidOf()}
			out.Added, out.Removed = g.resolve(&e.groups.lists, func(m *policy.Member, n int32) { e.reaches.shift(g, e.hosts.Named(m.Host), n) })
			out.SpanAdded, out.SpanRemoved = g.span.Take(&e.groups.spares, e.hosts.Table, &g.hosts)
			c.update(&out, g.replaced)
		}
	}
}

// updateAddressGroups works out the members and spans of address groups.
func (e *Engine) updateAddressGroups(c *Changes) {
	for _, g := range e.groups.dirty {
		if g.role != policy.AddressGroup {
			continue
		}
		g.recount()
		if g.fresh {
			continue
		}
		out := policy.GroupDelta{Change: policy.Updated, Role: g.role, Name: g.name, UID: g.uidOf()}
		out.Added, out.Removed = g.resolve(&e.groups.lists, func(*policy.Member, int32) {})
		out.SpanAdded, out.SpanRemoved = g.span.Take(&e.groups.spares, e.hosts.Table, g.hostSpan())
		c.update(&out, g.replaced)
	}
}

// collectPolicies lists the changes of the policies that were computed again and of those whose
// reach changed.
func (e *Engine) collectPolicies(c *Changes, computed []*policyState) {
	for _, r := range e.reaches.dirty {
		added, removed := r.span.Take(&e.groups.spares, e.hosts.Table, r.hostSpan())
		if len(added)+len(removed) == 0 {
			continue
		}
		r.change = &reachChange{added, removed}
		e.reaches.changed = append(e.reaches.changed, r)
		for _, p := range r.policies {
			if !p.changed {
				c.policies = append(c.policies, policy.PolicyDelta{
					Change: policy.Updated, Policy: p.out, Old: p.out, SpanAdded: added, SpanRemoved: removed,
				})
			}
		}
	}
	for _, p := range computed {
		out := policy.PolicyDelta{Change: policy.Updated, Policy: p.out, Old: p.former}
		switch {
		case p.former == nil:
			continue // fresh, or nothing before and after
		case p.out == nil:
			out.Change, out.Policy, out.SpanRemoved = policy.Removed, p.former, e.hosts.Table.KeysOf(p.rest().formerSpan)
		default:
			if p.moved {
				out.SpanAdded, out.SpanRemoved = e.hosts.Table.Difference(p.rest().formerSpan, p.reach.hostSpan())
			} else if n := p.reach.change; n != nil {
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
	e.groups.clean()
	e.reaches.clean()
	e.world.ForgetDead()
	e.policies.done = slab.Scratch(computed)
	e.hosts.ForgetIdle()
}
