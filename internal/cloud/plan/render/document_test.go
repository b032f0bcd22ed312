package render_test

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan"
	"github.com/nephele-io/nephele/internal/cloud/plan/model"
	"github.com/nephele-io/nephele/internal/cloud/plan/render"
)

// TestDescribePlansInARow: interfaces are told with their VMs and with what they hold at that
// moment, new groups by what stands for their names in all plans, and rules of failsafe flows are
// marked.
func TestDescribePlansInARow(t *testing.T) {
	t.Parallel()
	step := func(op cloud.Op) plan.Step {
		return plan.Step{Scope: cloud.Scope{Region: "r"}, Network: "vpc-1", Op: op}
	}
	edit := func(nic string, ids []string, names ...string) plan.Step {
		st := step(cloud.Op{Kind: cloud.OpSetInterfaceGroups, Target: nic, GroupIDs: ids, GroupNames: names, Reason: "take over"})
		st.Policies = []plan.PolicyRef{{Kind: "AntreaNetworkPolicy", Namespace: "vms", Name: "db"}}
		return st
	}
	ssh := cloud.Rule{Direction: cloud.Ingress, Match: cloud.NewMatch(cloud.TCP, 22, 22), Peer: cloud.Peer{CIDR: netip.MustParsePrefix("192.0.2.0/25")}}
	self := cloud.Rule{Direction: cloud.Ingress, Match: cloud.NewMatch(cloud.TCP, 80, 80), Peer: cloud.Peer{GroupName: "hash"}}
	filled := step(cloud.Op{Kind: cloud.OpAddRules, Group: cloud.GroupSpec{NetworkID: "vpc-1", Name: "hash"}, Rules: []cloud.Rule{ssh, self}})
	first := plan.Plan{Steps: []plan.Step{
		step(cloud.Op{Kind: cloud.OpCreateGroup, Group: cloud.GroupSpec{NetworkID: "vpc-1", Name: "hash"}}), filled,
		edit("eni-1", []string{"sg-1"}, "hash"), edit("eni-2", nil, "hash"), edit("eni-3", nil, "hash"),
	}}
	second := plan.Plan{Steps: []plan.Step{edit("eni-1", []string{model.PlannedGroupID + "vpc-1/hash"})}}
	d := render.NewDescriber(render.Setting{
		Snapshots: []*cloud.Snapshot{
			{
				VMs:    []cloud.VM{{ID: "i-1", Name: "db-1"}, {ID: "i-2", Name: "db-2"}, {ID: "i-3"}},
				Groups: []cloud.Group{{ID: "sg-1", Name: "internal"}},
				Interfaces: []cloud.Interface{
					{ID: "eni-1", VMID: "i-1", GroupIDs: []string{"sg-1"}},
					{ID: "eni-2", VMID: "i-2", GroupIDs: []string{"sg-1"}},
					{ID: "eni-3", VMID: "i-3", GroupIDs: []string{"sg-1"}},
				},
			},
		},
		Failsafe:    []plan.FailsafeFlow{{Direction: cloud.Ingress, Peers: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}}},
		Provisional: true,
	})
	var b strings.Builder
	for _, p := range []plan.Plan{first, second} {
		if err := render.Print(&b, d.Describe(p), false); err != nil {
			t.Fatal(err)
		}
	}
	want := `region r
  + security group new-group-1 (name known when applied) in vpc-1
  ~ security group new-group-1
      + ingress tcp 22 from 192.0.2.0/25  # failsafe
      + ingress tcp 80 from group new-group-1
  ~ interface eni-1 of db-1: groups sg-1 (internal) -> sg-1 (internal), new-group-1  # take over, for vms/db
  ~ 2 interfaces of db-2, i-3: groups sg-1 (internal) -> new-group-1  # take over, for vms/db
Plan: 1 group to create, 0 to change, 0 to delete; 2 rules to add, 0 to remove; 3 interfaces to set in 3 edits; 0 tag edits; 5 operations.
region r
  ~ interface eni-1 of db-1: groups sg-1 (internal), new-group-1 -> new-group-1  # take over, for vms/db
Plan: 0 groups to create, 0 to change, 0 to delete; 0 rules to add, 0 to remove; 1 interface to set in 1 edit; 0 tag edits; 1 operation.
`
	if b.String() != want {
		t.Errorf("got\n%s\nwant\n%s", b.String(), want)
	}
	b.Reset()
	if err := render.Print(&b, render.Describe(first), false); err != nil || !strings.Contains(b.String(), "  ~ interfaces eni-2, eni-3: groups = hash  # take over, for vms/db\n") {
		t.Errorf("%v: without a setting\n%s", err, b.String())
	}
}

// TestRelabelNamesThatBeginOthers: the further groups of a class have names that begin with that of
// its first one. On some clouds networks have names with slashes.
func TestRelabelNamesThatBeginOthers(t *testing.T) {
	t.Parallel()
	const network = "/subscriptions/s/virtualNetworks/v"
	d := render.NewDescriber(render.Setting{Provisional: true})
	var p plan.Plan
	for _, name := range []string{"hash", "hash-s1", "hash-s2", "hash-s3", "hash-s4"} {
		p.Steps = append(p.Steps, plan.Step{Network: network, Op: cloud.Op{Kind: cloud.OpCreateGroup, Group: cloud.GroupSpec{NetworkID: network, Name: name}}})
	}
	d.Describe(p)
	if got, want := d.Relabel("hash hash-s1 hash-s4"), "new-group-1 new-group-2 new-group-5"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
