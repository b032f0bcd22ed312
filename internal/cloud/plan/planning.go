package plan

import (
	"cmp"
	"slices"

	"github.com/nephele-io/nephele/internal/cloud/plan/intent"
	"github.com/nephele-io/nephele/internal/cloud/plan/report"
	"github.com/nephele-io/nephele/internal/cloud/plan/target"
)

// planning is one call of Compute.
type planning struct {
	*intent.Account
	in      Input
	regions []*regional
}

// regional is one region of it.
type regional struct {
	*target.Target
	plan *planning
}

func newPlanning(in Input, lower target.Lowerer) *planning {
	p := &planning{Account: intent.New(in.facts(), lower), in: in}
	for _, r := range p.Account.Regions {
		s := target.New(r, lower, target.Options{Tighten: in.Tighten, Dependents: in.Dependents})
		p.regions = append(p.regions, &regional{s, p})
	}
	return p
}

// facts are what is wanted and known, without what only the planner of the way asks for.
func (in Input) facts() intent.Facts {
	return intent.Facts{
		ClusterID: in.ClusterID, Account: in.Account, Policies: in.Policies, AddressGroups: in.AddressGroups, AppliedToGroups: in.AppliedToGroups,
		Entities: in.Entities, Shared: in.Shared, Services: in.Services,
		Seal: in.Seal, Confirmed: in.Confirmed, Failsafe: in.Failsafe, Modes: in.Modes, Agents: in.Agents, Blocked: in.Blocked,
		Regions: in.Regions, Tighten: in.Tighten, Stop: in.Stop, Recall: in.recall, Effort: in.effort,
	}
}

// add adds what is told about a region.
func (r *Result) add(o report.Region) {
	if r.VMs == nil {
		r.VMs = o.VMs // there may be thousands
	} else {
		r.VMs = append(r.VMs, o.VMs...)
	}
	r.Refusals, r.Drift = append(r.Refusals, o.Refusals...), append(r.Drift, o.Drift...)
	r.Cuts, r.Notes = append(r.Cuts, o.Cuts...), append(r.Notes, o.Notes...)
	r.Records.Signed, r.Records.Unsigned = r.Records.Signed+o.Records.Signed, r.Records.Unsigned+o.Records.Unsigned
	r.Records.Unproven = append(r.Records.Unproven, o.Records.Unproven...)
}

// targets are those of the regions.
func (c *planning) targets() (out []*target.Target) {
	for _, r := range c.regions {
		out = append(out, r.Target)
	}
	return out
}

func (r *Result) sort() {
	slices.SortFunc(r.VMs, func(a, b report.VMStatus) int { return intent.CompareVMs(a.VM, b.VM) })
	slices.SortStableFunc(r.Refusals, func(a, b report.Refusal) int {
		return cmp.Or(cmp.Compare(a.Region, b.Region), intent.CompareVMs(a.VM, b.VM), cmp.Compare(a.Message, b.Message))
	})
	slices.SortFunc(r.Drift, func(a, b report.Drift) int {
		return cmp.Or(cmp.Compare(a.Region, b.Region), cmp.Compare(a.Object, b.Object), cmp.Compare(a.Message, b.Message))
	})
	slices.SortFunc(r.Notes, func(a, b intent.Note) int {
		return cmp.Or(cmp.Compare(a.Region, b.Region), cmp.Compare(a.Object, b.Object), cmp.Compare(a.Message, b.Message))
	})
}
