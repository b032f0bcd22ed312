package render_test

import (
	"net/netip"
	"reflect"
	"strings"
	"testing"

	analysis "github.com/nephele-io/nephele/api/analysis/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan"
	"github.com/nephele-io/nephele/internal/cloud/plan/flow"
	"github.com/nephele-io/nephele/internal/cloud/plan/model"
	"github.com/nephele-io/nephele/internal/cloud/plan/render"
)

// step is an operation in a network of a region.
func step(op cloud.Op, policies ...plan.PolicyRef) plan.Step {
	return plan.Step{Scope: cloud.Scope{Region: "r"}, Network: "vpc-1", Op: op, Policies: policies}
}

// ports is a rule about one port of TCP, or about several.
func ports(d cloud.Direction, from, to int, peer cloud.Peer) cloud.Rule {
	return cloud.Rule{Direction: d, Match: cloud.NewMatch(cloud.TCP, from, to), Peer: peer}
}

func cidr(p string) cloud.Peer { return cloud.Peer{CIDR: netip.MustParsePrefix(p)} }

// TestDescribePlansInARow: interfaces are told with their VMs and with what they hold at that
// moment, new groups by what stands for their names in all plans, and rules of failsafe flows are
// marked.
func TestDescribePlansInARow(t *testing.T) {
	t.Parallel()
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

// TestDocument: programs read rules in parts and in words, with what they take the place of.
func TestDocument(t *testing.T) {
	t.Parallel()
	st := step(cloud.Op{Kind: cloud.OpReplaceRules, Target: "sg-1", Rules: []cloud.Rule{ports(cloud.Egress, 80, 81, cidr("10.0.0.0/8"))},
		Replaced: []cloud.Rule{ports(cloud.Egress, 80, 80, cidr("10.0.0.0/8"))}, Reason: "why"}, web, global)
	got := render.Describe(plan.Plan{Account: "vms/shop", Partial: true, Steps: []plan.Step{st}})
	rule := analysis.PlanRule{Direction: "egress", Protocol: 6, From: 80, To: 81, Peer: "10.0.0.0/8", Text: "egress tcp 80-81 to 10.0.0.0/8"}
	before := rule
	before.To, before.Text = 80, "egress tcp 80 to 10.0.0.0/8"
	want := analysis.PlanDocument{
		Account: "vms/shop", Partial: true, Summary: analysis.PlanSummary{GroupsChanged: 1, RulesReplaced: 1, Steps: 1}, GroupNames: map[string]string{},
		Steps: []analysis.PlanStep{{
			Region: "r", Network: "vpc-1", Kind: "ReplaceRules", Target: "sg-1", Rules: []analysis.PlanRule{rule}, Replaced: []analysis.PlanRule{before},
			Reason: "why", Policies: []string{"AntreaNetworkPolicy vms/web", "AntreaClusterNetworkPolicy global"},
		}},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

// TestFailsafeRules: a rule is marked if all that it allows is allowed whatever policies say.
func TestFailsafeRules(t *testing.T) {
	t.Parallel()
	prefixes := func(p ...string) (out []netip.Prefix) {
		for _, p := range p {
			out = append(out, netip.MustParsePrefix(p))
		}
		return out
	}
	ssh := flow.Service{Protocol: cloud.TCP, From: 22, To: 30}
	setting := render.Setting{Failsafe: []plan.FailsafeFlow{
		{Direction: cloud.Ingress, Peers: prefixes("10.0.0.0/8", "fd00::/8"), Services: []flow.Service{ssh}},
		{Direction: cloud.Egress, Peers: prefixes("169.254.169.254/32")},
	}}
	for name, c := range map[string]struct {
		rule cloud.Rule
		want bool
	}{
		"the flow itself":     {ports(cloud.Ingress, 22, 30, cidr("10.0.0.0/8")), true},
		"a part of it":        {ports(cloud.Ingress, 22, 22, cidr("10.1.0.0/16")), true},
		"the other family":    {ports(cloud.Ingress, 22, 22, cidr("fd00:1::/32")), true},
		"any service":         {ports(cloud.Egress, 1, 9, cidr("169.254.169.254/32")), true},
		"more ports":          {ports(cloud.Ingress, 22, 31, cidr("10.0.0.0/8")), false},
		"more addresses":      {ports(cloud.Ingress, 22, 22, cidr("10.0.0.0/7")), false},
		"other addresses":     {ports(cloud.Ingress, 22, 22, cidr("11.0.0.0/8")), false},
		"the other direction": {ports(cloud.Egress, 22, 22, cidr("10.0.0.0/8")), false},
		"a group":             {ports(cloud.Ingress, 22, 22, cloud.Peer{GroupID: "sg-1"}), false},
		"a prefix list":       {ports(cloud.Ingress, 22, 22, cloud.Peer{PrefixListID: "pl-1"}), false},
		"all protocols":       {cloud.Rule{Direction: cloud.Ingress, Match: cloud.NewMatch(cloud.AnyProtocol, -1, -1), Peer: cidr("10.0.0.0/8")}, false},
	} {
		d := render.NewDescriber(setting).Describe(plan.Plan{Steps: []plan.Step{step(cloud.Op{Kind: cloud.OpAddRules, Target: "sg-1", Rules: []cloud.Rule{c.rule}})}})
		if got := d.Steps[0].Rules[0].Failsafe; got != c.want {
			t.Errorf("%s: %s is marked: %v", name, c.rule, got)
		}
	}
}
