package plan_test

import (
	"slices"
	"testing"

	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan"
)

// TestHandEditKeepsTheRecord: somebody puts an interface under control into a foreign group, and
// something else stands in the way of putting that right. The record of its own groups stays, it
// comes back under control as soon as that can be, and in the end it has its own groups again.
func TestHandEditKeepsTheRecord(t *testing.T) {
	// refers makes the group of a VM that is not selected refer to the group of the first VM.
	refers := func(e *estate, f *fakeCloud) {
		g := f.group(groupID(3))
		g.Rules = append(slices.Clone(g.Rules), cloud.Rule{
			Direction: cloud.Ingress, Match: cloud.NewMatch(cloud.TCP, 9000, 9000), Peer: cloud.Peer{GroupID: groupID(1)},
		})
		slices.SortFunc(g.Rules, cloud.Rule.Compare)
	}
	for name, c := range map[string]struct {
		disturb func(*estate, *fakeCloud)
		change  func(*plan.Input)
		// atOnce is set if what is done can be done all the same.
		atOnce bool
	}{
		"somebody's rule refers to its own group": {refers, nil, true},
		"another account's rule refers to it": {nil, func(in *plan.Input) {
			s := *in.Regions[0].Snapshot
			s.References = []cloud.Reference{{GroupID: groupID(1), NetworkID: "vpc-far", OwnerID: "999999999999", PeeringID: "pcx-1"}}
			in.Regions[0].Snapshot = &s
		}, true},
		"its policy does not fit":                        {nil, manyBlocks(400), false},
		"its policy names a group that is not there yet": {nil, func(in *plan.Input) { in.AddressGroups = []*v1beta2.AddressGroup{} }, false},
		"no group can be made": {nil, func(in *plan.Input) {
			in.Regions[0].Limits.GroupsPerRegion = len(in.Regions[0].Snapshot.Groups)
			s := *in.Regions[0].Snapshot
			s.Groups = slices.DeleteFunc(slices.Clone(s.Groups), func(g cloud.Group) bool { return g.Tags[cloud.TagCluster] != "" })
			in.Regions[0].Limits.GroupsPerRegion = len(s.Groups)
			in.Regions[0].Snapshot = &s
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			e := small()
			e.VMs[2].Selected = false
			f := e.cloud()
			settle(t, e, f, nil)
			nic := f.nic(nicID(0))
			if !slices.Equal(plan.Former(nic), []string{groupID(1)}) {
				t.Fatalf("its record is %v", plan.Former(nic))
			}
			nic.GroupIDs = []string{groupID(2)}
			if c.disturb != nil {
				c.disturb(e, f)
			}
			res := settle(t, e, f, c.change)
			nic = f.nic(nicID(0))
			if got := plan.Former(nic); !slices.Equal(got, []string{groupID(1)}) {
				t.Fatalf("its record is %v", got)
			}
			if back := !slices.Contains(nic.GroupIDs, groupID(2)); back != c.atOnce {
				t.Errorf("it holds %v: %+v", nic.GroupIDs, res.VMs[0])
			}
			settle(t, e, f, nil)
			nic = f.nic(nicID(0))
			if slices.Contains(nic.GroupIDs, groupID(2)) || !slices.Equal(plan.Former(nic), []string{groupID(1)}) {
				t.Fatalf("it holds %v, with the record %v", nic.GroupIDs, plan.Former(nic))
			}
			e.History[0] = policySet{}
			settle(t, e, f, nil)
			if nic = f.nic(nicID(0)); !slices.Equal(nic.GroupIDs, []string{groupID(1)}) || len(nic.Tags) != 0 {
				t.Errorf("in the end it holds %v with %v", nic.GroupIDs, nic.Tags)
			}
		})
	}
}
