package plan

import (
	"cmp"
	"slices"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan/design"
	"github.com/nephele-io/nephele/internal/cloud/plan/guard"
	"github.com/nephele-io/nephele/internal/cloud/plan/intent"
	"github.com/nephele-io/nephele/internal/cloud/plan/report"
	"github.com/nephele-io/nephele/internal/cloud/plan/transition"
)

// planning is one call of Compute.
type planning struct {
	account *intent.Account
	regions []*regional
	lower   Lowerer
	late    func() bool
}

// regional is one region of it, with its way from what is to what is wanted.
type regional struct {
	account *intent.Account
	region  *intent.Region
	guard   *guard.States
	design  *design.Designer
	byID    map[string]*guard.NIC
	change  transition.Change
	survey  *transition.Survey // that of change; nil if something else is wanted by now
	held    map[string][2]bool // its conflicts within the region
	order   *transition.Order  // that of survey; nil if it is not known yet
	end     *cloud.Snapshot    // what is wanted when nobody waits any more
	stays   map[string]bool    // groups that nothing would leave if they had others beside them
	stuck   []stuck            // what is blocked, sorted by interface
}

// newPlanning begins one, which ends when that takes too long; nil means never.
func newPlanning(in Input, lower Lowerer, late func() bool) *planning {
	p := &planning{account: intent.New(in, lower, late), lower: lower, late: late}
	for _, r := range p.account.Regions {
		d := design.New(r, lower)
		s := &regional{
			account: p.account, region: r, guard: d.Guard, design: d,
			byID: map[string]*guard.NIC{}, stays: map[string]bool{},
		}
		for _, n := range s.guard.NICs {
			s.byID[n.ID] = n
		}
		p.regions = append(p.regions, s)
	}
	return p
}

// states returns the states of the regions.
func (c *planning) states() (out []*guard.States) {
	for _, r := range c.regions {
		out = append(out, r.guard)
	}
	return out
}

func (r *Result) sort() {
	slices.SortFunc(r.VMs, func(a, b report.VMStatus) int { return a.VM.Compare(b.VM) })
	slices.SortStableFunc(r.Refusals, func(a, b report.Refusal) int {
		return cmp.Or(cmp.Compare(a.Region, b.Region), a.VM.Compare(b.VM), cmp.Compare(a.Message, b.Message))
	})
	slices.SortFunc(r.Drift, func(a, b report.Drift) int {
		return cmp.Or(cmp.Compare(a.Region, b.Region), cmp.Compare(a.Object, b.Object), cmp.Compare(a.Message, b.Message))
	})
	slices.SortFunc(r.Notes, func(a, b intent.Note) int {
		return cmp.Or(cmp.Compare(a.Region, b.Region), cmp.Compare(a.Object, b.Object), cmp.Compare(a.Message, b.Message))
	})
}
