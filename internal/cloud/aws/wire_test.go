package aws_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/aws"
	"github.com/nephele-io/nephele/internal/sim"
	simaws "github.com/nephele-io/nephele/internal/sim/aws"
	"github.com/nephele-io/nephele/internal/sim/ec2"
	"github.com/nephele-io/nephele/internal/sim/estate"
)

// TestPages reads the same region in small and in large pages, and loses every page once.
func TestPages(t *testing.T) {
	t.Parallel()
	l := newLab(t, sim.Options{})
	for i := range 23 {
		name := fmt.Sprintf("g%02d", i)
		if _, err := l.region().Groups().CreateSecurityGroup(simaws.CreateSecurityGroupInput{Name: name, Description: "d", VPCID: network}); err != nil {
			t.Fatal(err)
		}
	}
	want, err := l.provider.Observe(t.Context(), l.scope())
	if err != nil {
		t.Fatal(err)
	}
	small := l.open(aws.Config{PageSize: 5})
	got, err := small.Observe(t.Context(), l.scope())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateComparable(prefix("::/0"), prefix("::/0").Addr())); diff != "" {
		t.Errorf("in small pages:\n%s", diff)
	}
	pages := 0
	for _, c := range l.server.Journal().Calls(0) {
		if c.Action == "DescribeSecurityGroups" && c.Params["NextToken"] != "" {
			pages++
		}
	}
	if pages < 5 {
		t.Fatalf("%d further pages", pages)
	}
	for page := 1; page <= pages+1; page++ {
		l.server.Faults().Add(ec2.Fault{Action: "DescribeSecurityGroups", Nth: page, Times: -1, Code: "InternalError"})
		if s, err := small.Observe(t.Context(), l.scope()); s != nil || cloud.ClassOf(err) != cloud.Unavailable || err == nil {
			t.Errorf("page %d is missing: %v, %v", page, s != nil, err)
		}
		l.server.Faults().Clear()
	}
}

// TestObserveDetails checks what the conformance suite cannot know: how AWS's own notions appear in
// a snapshot.
func TestObserveDetails(t *testing.T) {
	t.Parallel()
	state, _, err := estate.HybridCloud()
	if err != nil {
		t.Fatal(err)
	}
	account := state.Accounts[0].ID
	peering := func(id, status string) simaws.PeeringConnection {
		return simaws.PeeringConnection{ID: id, Status: status,
			Requester: simaws.PeeringVPC{VPCID: network, Account: account, Region: region},
			Accepter:  simaws.PeeringVPC{VPCID: "vpc-925131f4", Account: account, Region: region}}
	}
	state.Peerings = []simaws.PeeringConnection{peering("pcx-00000000000000001", "active"), peering("pcx-00000000000000002", "pending-acceptance")}
	nics := state.Regions[0].NetworkInterfaces
	nics[0].RequesterManaged, nics[1].InterfaceType = true, "nat_gateway"
	l := newLab(t, sim.Options{State: state})
	before, err := l.provider.Observe(t.Context(), l.scope())
	if err != nil {
		t.Fatal(err)
	}
	if len(before.Peerings) != 1 || before.Peerings[0].ID != "pcx-00000000000000001" || before.Peerings[0].A.NetworkID != network {
		t.Errorf("peerings %+v", before.Peerings)
	}
	for _, n := range before.Interfaces {
		if want := n.ID == nics[0].ID || n.ID == nics[1].ID; n.Managed != want {
			t.Errorf("%s: managed %t; want %t", n.ID, n.Managed, want)
		}
		if len(n.PrivateIPs) == 0 {
			t.Errorf("%s has no address", n.ID)
		}
	}
	i := slices.IndexFunc(before.Networks, func(n cloud.Network) bool { return n.ID == network })
	if n := before.Networks[i]; n.Name != "Arista Demo" || fmt.Sprint(n.CIDRs) != "[192.168.0.0/16]" || n.OwnerID == "" {
		t.Errorf("network %+v", n)
	}
	gone := before.VMs[0].ID
	if _, err := l.region().InstanceCalls().TerminateInstances([]string{gone}); err != nil {
		t.Fatal(err)
	}
	after, err := l.provider.Observe(t.Context(), l.scope())
	if err != nil {
		t.Fatal(err)
	}
	if len(after.VMs) != len(before.VMs)-1 || slices.ContainsFunc(after.VMs, func(v cloud.VM) bool { return v.ID == gone }) {
		t.Errorf("%d VMs after a termination, %d before", len(after.VMs), len(before.VMs))
	}
}

// TestStaleReference removes a rule whose peer group is gone.
func TestStaleReference(t *testing.T) {
	t.Parallel()
	l := newLab(t, sim.Options{})
	id, err := l.provider.Apply(t.Context(), l.scope(), cloud.Op{Kind: cloud.OpCreateGroup,
		Group: cloud.GroupSpec{NetworkID: network, Name: "nephele-x", Tags: map[string]string{cloud.TagCluster: "c"}}})
	if err != nil {
		t.Fatal(err)
	}
	rule := cloud.Rule{Direction: cloud.Ingress, Match: cloud.NewMatch(cloud.TCP, 1, 2), Peer: cloud.Peer{CIDR: prefix("10.0.0.0/8")}}
	if _, err := l.provider.Apply(t.Context(), l.scope(), cloud.Op{Kind: cloud.OpAddRules, Target: id, Rules: []cloud.Rule{rule}}); err != nil {
		t.Fatal(err)
	}
	l.server.Faults().Add(ec2.Fault{Action: "RevokeSecurityGroupIngress", Code: "InvalidGroup.NotFound", Times: 1})
	l.clock.sleep(t.Context(), time.Hour)
	if _, err := l.provider.Apply(t.Context(), l.scope(), cloud.Op{Kind: cloud.OpRemoveRules, Target: id, Rules: []cloud.Rule{rule}}); err != nil {
		t.Fatal(err)
	}
	groups, err := l.region().SecurityGroups(id)
	if err != nil || len(groups[0].Rules) != 0 {
		t.Errorf("%v, %v", groups, err)
	}
	if calls := l.actions(); !slices.Contains(calls, "DescribeSecurityGroupRules") {
		t.Errorf("calls %v", calls)
	}
}

func (l *lab) actions() []string {
	var out []string
	for _, c := range l.server.Journal().Calls(0) {
		out = append(out, c.Action)
	}
	return out
}

// TestCallsPerOp pins down what ops cost, which is what a plan's number of calls promises.
func TestCallsPerOp(t *testing.T) {
	t.Parallel()
	l := newLab(t, sim.Options{})
	if _, err := l.provider.OwnerID(t.Context()); err != nil {
		t.Fatal(err)
	}
	before := len(l.actions())
	id, err := l.provider.Apply(t.Context(), l.scope(), cloud.Op{Kind: cloud.OpCreateGroup,
		Group: cloud.GroupSpec{NetworkID: network, Name: "nephele-x", Tags: map[string]string{cloud.TagCluster: "c"}}})
	if err != nil {
		t.Fatal(err)
	}
	var many []cloud.Rule
	for i := range 30 {
		many = append(many, cloud.Rule{Direction: cloud.Ingress, Match: cloud.NewMatch(cloud.TCP, i, i), Peer: cloud.Peer{CIDR: prefix("10.0.0.0/8")}},
			cloud.Rule{Direction: cloud.Egress, Match: cloud.NewMatch(cloud.TCP, i, i), Peer: cloud.Peer{GroupID: id}})
	}
	for _, op := range []cloud.Op{
		{Kind: cloud.OpAddRules, Target: id, Rules: many},
		{Kind: cloud.OpRemoveRules, Target: id, Rules: many},
		{Kind: cloud.OpTag, Target: id, Tags: map[string]string{"a": "1", "b": "2"}},
		{Kind: cloud.OpDeleteGroup, Target: id},
	} {
		if _, err := l.provider.Apply(t.Context(), l.scope(), op); err != nil {
			t.Fatalf("%s: %v", op, err)
		}
	}
	want := []string{
		"CreateSecurityGroup", "DescribeSecurityGroups", "RevokeSecurityGroupEgress",
		"AuthorizeSecurityGroupIngress", "AuthorizeSecurityGroupEgress", "RevokeSecurityGroupIngress", "RevokeSecurityGroupEgress",
		"CreateTags", "DeleteSecurityGroup",
	}
	if got := l.actions()[before:]; !slices.Equal(got, want) {
		t.Errorf("calls\n%v\nwant\n%v", got, want)
	}
}

// TestRealQuotas runs into the quotas of the simulated account.
func TestRealQuotas(t *testing.T) {
	t.Parallel()
	l := newLab(t, sim.Options{})
	create := func(name string) (string, error) {
		return l.provider.Apply(t.Context(), l.scope(), cloud.Op{Kind: cloud.OpCreateGroup,
			Group: cloud.GroupSpec{NetworkID: network, Name: name, Tags: map[string]string{cloud.TagCluster: "c"}}})
	}
	var ids []string
	for i := range 6 {
		id, err := create(fmt.Sprintf("nephele-%d", i))
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, id)
	}
	var rules []cloud.Rule
	for i := range 61 {
		rules = append(rules, cloud.Rule{Direction: cloud.Egress, Match: cloud.NewMatch(cloud.TCP, i, i), Peer: cloud.Peer{CIDR: prefix("10.0.0.0/8")}})
	}
	_, err := l.provider.Apply(t.Context(), l.scope(), cloud.Op{Kind: cloud.OpAddRules, Target: ids[0], Rules: rules})
	if cloud.ClassOf(err) != cloud.Quota {
		t.Errorf("61 rules: %v", err)
	}
	snap, err := l.provider.Observe(t.Context(), l.scope())
	if err != nil {
		t.Fatal(err)
	}
	nic := snap.Interfaces[slices.IndexFunc(snap.Interfaces, func(n cloud.Interface) bool { return n.NetworkID == network && !n.Managed })]
	_, err = l.provider.Apply(t.Context(), l.scope(), cloud.Op{Kind: cloud.OpSetInterfaceGroups, Target: nic.ID, GroupIDs: ids})
	if cloud.ClassOf(err) != cloud.Quota {
		t.Errorf("6 groups: %v", err)
	}
}
