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
	regions []*regional
}

// regional is one region of it.
type regional struct{ *target.Target }

func newPlanning(in Input, lower Lowerer, effort *intent.Effort) *planning {
	p := &planning{Account: intent.New(in, lower, effort)}
	for _, r := range p.Account.Regions {
		p.regions = append(p.regions, &regional{target.New(r, lower)})
	}
	return p
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
