package realize

import (
	"cmp"
	"context"
	"slices"

	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan"
	"github.com/nephele-io/nephele/internal/cloud/realize/status"
)

// publishUnread publishes what is known of an account of which no region can be read, so that
// nothing can be planned.
func (w *worker) publishUnread(ctx context.Context, t task, unread map[string]error, err error) {
	if t.acct.Releasing {
		w.publish(ctx, t.acct, nil, err)
		return
	}
	c := w.latest
	c.input, c.braking = w.input(t, nil), w.brake.State()
	c.result = plan.Compute(c.input, w.r.lowerer(t.acct))
	w.complete(ctx, t, &c, observation{unread: unread})
	w.publish(ctx, t.acct, &c, err)
}

// complete adds to a result what is known of the VMs of regions that were not read. What a former
// snapshot shows to be as wanted is so as far as anybody knows, unless we have done something
// since; for what is not, the reason is that the region cannot be read.
func (w *worker) complete(ctx context.Context, t task, c *computed, seen observation) {
	c.unread = nil
	if t.acct.Releasing {
		return
	}
	regions := slices.Clone(seen.regions)
	missing := map[string]status.Unread{}
	for _, name := range t.acct.Regions {
		snap, err := t.acct.Snapshots[name], seen.unread[name]
		limits, planned := w.limits[name]
		switch {
		case snap == nil:
			missing[name] = status.Unread{Err: cmp.Or(err, t.acct.Unread[name]), Never: true}
		case err != nil && !planned:
			missing[name] = status.Unread{Err: err, Never: true}
		case err != nil:
			missing[name] = status.Unread{Err: err, Never: false}
			regions = append(regions, plan.Region{Snapshot: snap, Limits: limits})
		}
	}
	if len(missing) == 0 {
		return
	}
	c.unread = missing
	var add []plan.VMStatus
	if len(regions) > len(seen.regions) {
		in := w.input(t, regions)
		in.Stop = func() bool { return ctx.Err() != nil }
		past := plan.Compute(in, w.r.lowerer(t.acct))
		add = slices.DeleteFunc(past.VMs, func(vm plan.VMStatus) bool { _, found := missing[vm.VM.Region]; return !found })
		w.doubt(t, add)
		if len(seen.regions) == 0 {
			c.result.Plan = past.Plan
		}
	}
	add = append(add, c.unknown(t)...)
	for i := range add {
		c.blame(&add[i])
	}
	join(c.result, add)
	if last := w.told.last().Result; last != nil { // what was reported about these regions is no news when they can be read again
		for _, d := range last.Drift {
			if _, found := missing[d.Region]; found {
				c.result.Drift = append(c.result.Drift, d)
			}
		}
	}
}

// doubt takes back that policies are realized on VMs of regions whose snapshots are older than what
// we did last, but for those versions that were seen to be so after it.
func (w *worker) doubt(t task, vms []plan.VMStatus) {
	type on struct {
		vm         plan.VMRef
		uid        string
		generation int64
	}
	realized := map[on]bool{}
	if last := w.told.last().Result; last != nil {
		for _, vm := range last.VMs {
			for _, p := range vm.Policies {
				realized[on{vm.VM, p.UID, p.Generation}] = p.Realized
			}
		}
	}
	for _, vm := range vms {
		for i := range vm.Policies {
			p := &vm.Policies[i]
			p.Realized = p.Realized && (!t.acct.Pending[vm.VM.Region] || realized[on{vm.VM, p.UID, p.Generation}])
		}
	}
}

// unknown returns the VMs of which nothing was read since the start, with the policies that select
// them.
func (c *computed) unknown(t task) []plan.VMStatus {
	vms := map[plan.VMRef]*plan.VMStatus{}
	for _, p := range c.result.Policies {
		for _, vm := range t.selected(p.UID) {
			if !c.unread[vm.Region].Never {
				continue
			}
			if vms[vm] == nil {
				vms[vm] = &plan.VMStatus{VM: vm, Mode: t.acct.Modes[vm].Mode}
			}
			vms[vm].Policies = append(vms[vm].Policies, plan.VMPolicy{PolicyRef: p.PolicyRef})
		}
	}
	var out []plan.VMStatus
	for _, vm := range vms {
		out = append(out, *vm)
	}
	return out
}

// blame says of what is neither realized nor refused that the region cannot be read.
func (c *computed) blame(vm *plan.VMStatus) {
	for i := range vm.Policies {
		if p := &vm.Policies[i]; vm.Mode == plan.Enforce && !p.Realized && p.Message == "" {
			p.Message = c.unread[vm.VM.Region].Text(vm.VM.Region)
		}
	}
}

// join adds VMs to a result and to the statuses of the policies that it has.
func join(res *plan.Result, vms []plan.VMStatus) {
	byUID := map[string]*plan.PolicyStatus{}
	for i := range res.Policies {
		byUID[res.Policies[i].UID] = &res.Policies[i]
	}
	compare := func(a, b plan.VMRef) int { return cmp.Or(cmp.Compare(a.Region, b.Region), cmp.Compare(a.ID, b.ID)) }
	res.VMs = append(res.VMs, vms...)
	slices.SortFunc(res.VMs, func(a, b plan.VMStatus) int { return compare(a.VM, b.VM) })
	for _, vm := range vms {
		for _, on := range vm.Policies {
			p := byUID[on.UID]
			switch {
			case p == nil:
			case vm.Mode != plan.Enforce:
				p.Suspended = append(p.Suspended, vm.VM)
			case on.Realized:
				p.Realized = append(p.Realized, vm.VM)
			default:
				p.Failed = append(p.Failed, plan.FailedVM{VM: vm.VM, Message: on.Message})
			}
		}
	}
	for _, p := range byUID {
		slices.SortFunc(p.Suspended, compare)
		slices.SortFunc(p.Realized, compare)
		slices.SortFunc(p.Pending, compare)
		slices.SortFunc(p.Failed, func(a, b plan.FailedVM) int { return compare(a.VM, b.VM) })
	}
}

// selected returns the VMs of the account that a policy selects.
func (t task) selected(uid string) []plan.VMRef {
	i := slices.IndexFunc(t.want.Policies, func(p *v1beta2.NetworkPolicy) bool { return cmp.Or(string(p.UID), p.Name) == uid })
	if i < 0 {
		return nil
	}
	p := t.want.Policies[i]
	names := slices.Clone(p.AppliedToGroups)
	for _, r := range p.Rules {
		names = append(names, r.AppliedToGroups...)
	}
	seen := map[plan.VMRef]bool{}
	var out []plan.VMRef
	for _, g := range t.want.AppliedToGroups {
		if !slices.Contains(names, g.Name) {
			continue
		}
		for _, m := range g.GroupMembers {
			if m.ExternalEntity == nil {
				continue
			}
			vm, ok := t.acct.Entities[plan.EntityRef{Namespace: m.ExternalEntity.Namespace, Name: m.ExternalEntity.Name}]
			if ok && !seen[vm] {
				seen[vm] = true
				out = append(out, vm)
			}
		}
	}
	return out
}

// noteLimits remembers the limits of regions for when these cannot be read.
func (w *worker) noteLimits(regions []plan.Region) {
	if w.limits == nil {
		w.limits = map[string]cloud.Limits{}
	}
	for _, r := range regions {
		w.limits[r.Snapshot.Region] = r.Limits
	}
}
