package plan

import (
	"cmp"
	"slices"
)

// planning is one call of Compute.
type planning struct {
	*computation
	in      Input
	regions []*regional
}

// regional is one region of it.
type regional struct {
	*regionState
	plan *planning
}

func newPlanning(in Input, lower Lowerer) *planning {
	p := &planning{computation: newComputation(in.facts(), lower), in: in}
	for _, r := range p.computation.regions {
		s := newRegionState(r, lower, options{Tighten: in.Tighten, Dependents: in.Dependents, Lacks: in.lacks})
		p.regions = append(p.regions, &regional{s, p})
	}
	return p
}

// wanted is the computation of what is wanted in the end, whatever the way there.
func wanted(in Input, lower Lowerer) *planning {
	c := newPlanning(in, lower)
	for _, s := range c.regions {
		s.settle()
	}
	return c
}

// facts are what is wanted and known, without what only the planner of the way asks for.
func (in Input) facts() facts {
	return facts{
		ClusterID: in.ClusterID, Account: in.Account, Policies: in.Policies, AddressGroups: in.AddressGroups, AppliedToGroups: in.AppliedToGroups,
		Entities: in.Entities, Shared: in.Shared, Seal: in.Seal, Confirmed: in.Confirmed, Failsafe: in.Failsafe, Modes: in.Modes, Blocked: in.Blocked,
		Regions: in.Regions, Stop: in.Stop, Recall: in.recall, Effort: in.effort,
	}
}

// add adds what is told about a region.
func (r *Result) add(o regionReport) {
	r.VMs, r.Refusals, r.Drift = append(r.VMs, o.VMs...), append(r.Refusals, o.Refusals...), append(r.Drift, o.Drift...)
	r.Cuts, r.Notes = append(r.Cuts, o.Cuts...), append(r.Notes, o.Notes...)
	r.Records.Signed, r.Records.Unsigned = r.Records.Signed+o.Records.Signed, r.Records.Unsigned+o.Records.Unsigned
	r.Records.Unproven = append(r.Records.Unproven, o.Records.Unproven...)
}

// targets are those of the regions.
func (c *planning) targets() (out []*regionState) {
	for _, r := range c.regions {
		out = append(out, r.regionState)
	}
	return out
}

func (r *Result) sort() {
	slices.SortFunc(r.VMs, func(a, b VMStatus) int { return compareVMs(a.VM, b.VM) })
	slices.SortStableFunc(r.Refusals, func(a, b Refusal) int {
		return cmp.Or(cmp.Compare(a.Region, b.Region), compareVMs(a.VM, b.VM), cmp.Compare(a.Message, b.Message))
	})
	slices.SortFunc(r.Drift, func(a, b Drift) int {
		return cmp.Or(cmp.Compare(a.Region, b.Region), cmp.Compare(a.Object, b.Object), cmp.Compare(a.Message, b.Message))
	})
	slices.SortFunc(r.Notes, func(a, b Note) int {
		return cmp.Or(cmp.Compare(a.Region, b.Region), cmp.Compare(a.Object, b.Object), cmp.Compare(a.Message, b.Message))
	})
}
