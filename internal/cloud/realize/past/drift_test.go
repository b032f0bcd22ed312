package past

import (
	"slices"
	"testing"
	"time"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan"
)

// TestDifferences follows one interface and its group through what somebody does to them: each
// difference is told for as long as it lasts, is new once, and is none after a write of ours.
func TestDifferences(t *testing.T) {
	t.Parallel()
	ours := map[string]string{cloud.TagKind: cloud.KindClass, cloud.TagCluster: labCluster, cloud.TagAccount: labAccount}
	at := func(minute int, groups ...string) []plan.Region {
		return []plan.Region{{Snapshot: &cloud.Snapshot{
			Scope: cloud.Scope{Account: labAccount, Region: home}, ObservedAt: time.Unix(0, 0).Add(time.Duration(minute) * time.Minute),
			Groups:     []cloud.Group{{ID: "sg-ours", Name: cloud.NamePrefix + "web", Tags: ours}, {ID: "sg-theirs"}},
			VMs:        []cloud.VM{{ID: "i-1", Interfaces: []string{"eni-1"}}},
			Interfaces: []cloud.Interface{{ID: "eni-1", VMID: "i-1", GroupIDs: groups, Tags: map[string]string{cloud.TagFormer: "sg-theirs"}}},
		}}}
	}
	still := map[plan.VMRef]plan.Mode{{Region: home, ID: "i-1"}: plan.Planned}
	const back = "somebody put the interface back into its former groups sg-theirs"
	p := New(labCluster, labAccount)
	for _, c := range []struct {
		name   string
		now    []plan.Region
		modes  map[plan.VMRef]plan.Mode
		do     func([]plan.Region)
		drift  string
		kept   bool
		fresh  int
		before int // minute at which all was well; -1 for never
	}{
		{"nothing is known", at(1, "sg-theirs"), nil, func(r []plan.Region) { p.Settle(at(2, "sg-ours"), nil) }, "", false, 0, -1},
		{"put back", at(3, "sg-theirs"), nil, nil, back, false, 1, 2},
		{"still", at(4, "sg-theirs"), nil, nil, back, false, 0, 2},
		{"in mode plan", at(5, "sg-theirs"), still, func(r []plan.Region) { p.Settle(r, nil) }, back, true, 1, 2},
		{"left so", at(6, "sg-theirs"), still, nil, back, true, 0, 5},
		{"undone", at(7, "sg-ours"), still, func(r []plan.Region) { p.Settle(r, nil) }, "", false, 0, 5},
		{"put back again", at(8, "sg-theirs"), nil, func([]plan.Region) {
			p.Written([]plan.Step{{Scope: cloud.Scope{Account: labAccount, Region: home}, Op: cloud.Op{Kind: cloud.OpSetInterfaceGroups, Target: "eni-1"}}})
		}, back, false, 1, 7},
		{"after a write of ours", at(9, "sg-theirs"), nil, nil, "", false, 0, -1},
	} {
		res := &plan.Result{}
		asPlanned, fresh := p.Differences(res, c.now, c.modes, false)
		was, known := asPlanned[home]
		if known != (c.before >= 0) || known && !was.Equal(time.Unix(0, 0).Add(time.Duration(c.before)*time.Minute)) {
			t.Errorf("%s: all was well at %v (%t)", c.name, was, known)
		}
		said := slices.ContainsFunc(res.Drift, func(d plan.Drift) bool { return d.Message == c.drift && d.Kept == c.kept && d.Object == "eni-1" })
		if said != (c.drift != "") || len(res.Drift) > 1 || fresh != c.fresh {
			t.Errorf("%s: %+v, %d of them new", c.name, res.Drift, fresh)
		}
		if c.do != nil {
			c.do(c.now)
		}
	}
	p.Settle(at(10, "sg-ours"), nil)
	p.Forget()
	if asPlanned, _ := p.Differences(&plan.Result{}, at(11, "sg-theirs"), nil, false); len(asPlanned) != 0 {
		t.Errorf("not forgotten: %v", asPlanned)
	}
}
