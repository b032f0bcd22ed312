package plan_test

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan"
)

var (
	anyEgress = cloud.Rule{Direction: cloud.Egress, Match: cloud.NewMatch(-1, -1, -1), Peer: cloud.Peer{CIDR: netip.MustParsePrefix("0.0.0.0/0")}}
	fromVPC   = cloud.Rule{Direction: cloud.Ingress, Match: cloud.NewMatch(-1, -1, -1), Peer: cloud.Peer{CIDR: netip.MustParsePrefix("10.0.0.0/8")}}
)

// fromGroup is a rule that allows everything from a group.
func fromGroup(id string) cloud.Rule {
	return cloud.Rule{Direction: cloud.Ingress, Match: cloud.NewMatch(-1, -1, -1), Peer: cloud.Peer{GroupID: id}}
}

// TestEditsOfTakeOverAndRelease pins how many edits of interfaces it takes to take over 100 VMs in
// ten roles, of which each admits two others, and to give them back, for different groups that the
// VMs had before.
func TestEditsOfTakeOverAndRelease(t *testing.T) {
	const vms = 100
	inDefault := func(int) []string { return []string{"sg-00"} }
	for _, c := range []struct {
		name              string
		held              func(role int) []string
		rules             func(role int) []cloud.Rule
		takeOver, release int
	}{
		{"SSH from the network", byRole, nil, 100, 100},
		{"everything from the network", byRole, func(int) []cloud.Rule { return []cloud.Rule{anyEgress, fromVPC} }, 100, 100},
		{"everything from its own group", byRole, func(i int) []cloud.Rule { return []cloud.Rule{anyEgress, fromGroup(byRole(i)[0])} }, 100, 100},
		{"everything from the role before", byRole, func(i int) []cloud.Rule {
			if i == 0 {
				return []cloud.Rule{anyEgress}
			}
			return []cloud.Rule{anyEgress, fromGroup(byRole(i - 1)[0])}
		}, 100, 100},
		// Here every order breaks a flow that is allowed before and after: each role admits the
		// next one by a foreign group, all around.
		{"everything from the next role, around", byRole, func(i int) []cloud.Rule { return []cloud.Rule{anyEgress, fromGroup(byRole((i + 1) % 10)[0])} }, 110, 110},
		{"everything from all roles, in one group", inDefault, func(int) []cloud.Rule { return []cloud.Rule{anyEgress, fromGroup("sg-00")} }, 130, 130},
	} {
		t.Run(c.name, func(t *testing.T) {
			in, f := bigInput(vms, c.held)
			if c.rules != nil {
				for i := range f.snap.Groups {
					f.snap.Groups[i].Rules = c.rules(i)
				}
			}
			if got := settledEdits(settleBig(t, &in, f)); got != c.takeOver {
				t.Errorf("taking over: %d edits of interfaces, want %d", got, c.takeOver)
			}
			in.Policies = nil
			f = &fakeCloud{snap: in.Regions[0].Snapshot, limits: f.limits, next: 100}
			if got := settledEdits(settleBig(t, &in, f)); got != c.release {
				t.Errorf("giving back: %d edits of interfaces, want %d", got, c.release)
			}
		})
	}
}

func settledEdits(summaries []plan.Summary) (edits int) {
	for _, s := range summaries {
		edits += int(s.InterfaceEdits)
	}
	return edits
}

// TestBridgesAreTemporary: rules that only bridge the taking over are gone in the end, and named
// groups of ours hold what the policies say.
func TestBridgesAreTemporary(t *testing.T) {
	in, f := bigInput(40, byRole)
	for i := range f.snap.Groups {
		f.snap.Groups[i].Rules = []cloud.Rule{anyEgress, fromVPC}
	}
	bridged := false
	for _, s := range settleBig(t, &in, f) {
		bridged = bridged || s.RulesRemoved > 0
	}
	if !bridged {
		t.Fatal("this change needs no bridge; the test shows nothing")
	}
	for _, g := range in.Regions[0].Snapshot.Groups {
		for _, r := range g.Rules {
			if g.Tags[cloud.TagCluster] != "" && r.Peer.GroupID != "" && r.Peer.GroupID < "sg-1" {
				t.Errorf("%s still refers to a foreign group: %s", g.ID, r)
			}
		}
	}
}

// TestEditsOfSplitAndMerge: a policy that selects a part of a class moves the smaller part of it,
// and nobody else; when it goes, the same interfaces move back.
func TestEditsOfSplitAndMerge(t *testing.T) {
	for _, fromRole := range []int{-1, 0, 4} { // what the further policy admits: an address, the own role, another one
		in, f := bigInput(100, byRole)
		for i := range f.snap.Groups {
			f.snap.Groups[i].Rules = []cloud.Rule{anyEgress, fromVPC}
		}
		settleBig(t, &in, f)
		part := &v1beta2.AppliedToGroup{}
		part.Name, part.GroupMembers = "atg-10", in.AppliedToGroups[0].GroupMembers[:3]
		in.AppliedToGroups = append(in.AppliedToGroups, part)
		rule := ruleSpec{Action: "Allow", Services: []serviceSpec{{Protocol: "TCP", From: 7000, To: 7000, Type: -1}}}
		if fromRole < 0 {
			rule.Blocks = []blockSpec{{CIDR: "192.0.2.0/24"}}
		} else {
			rule.Address = []int{fromRole}
		}
		e, before := estate{}, in.Policies
		in.Policies = append(slices.Clone(before), e.policy(&policySpec{Tier: 100, Priority: 1, Applied: []int{10}, Rules: []ruleSpec{rule}}, 99))
		for i, want := range []int{3, 3} {
			if i == 1 {
				in.Policies = before
			}
			f = &fakeCloud{snap: in.Regions[0].Snapshot, limits: f.limits, next: 200 * (i + 1)}
			summaries := settleBig(t, &in, f)
			if got := settledEdits(summaries); got != want {
				t.Errorf("peer %d, change %d: %d edits of interfaces, want %d: %v", fromRole, i, got, want, summaries)
			}
		}
	}
}

// TestEditsOfPolicyAndLabelTogether: a VM joins a class while a policy of the class changes. Nobody
// else's interface is touched for it.
func TestEditsOfPolicyAndLabelTogether(t *testing.T) {
	in, f := bigInput(100, byRole)
	ports := func(to int32) {
		e := estate{}
		for i := range in.Policies {
			in.Policies[i] = e.policy(&policySpec{Tier: 250, Priority: 5, Applied: []int{i % 10}, Rules: []ruleSpec{{
				Action: "Allow", Address: []int{(i + 1) % 10, (i + 3) % 10}, Services: []serviceSpec{{Protocol: "TCP", From: int32(100 * i), To: int32(100*i) + to, Type: -1}},
			}}}, i)
		}
	}
	ports(50)
	settleBig(t, &in, f)
	for i, to := range []int32{20, 40} { // narrower, then wider
		relabel(&in)
		ports(to)
		f = &fakeCloud{snap: in.Regions[0].Snapshot, limits: f.limits, next: 100 * (i + 1)}
		summaries := settleBig(t, &in, f)
		if got := settledEdits(summaries); got != 1 {
			t.Errorf("change %d: %d edits of interfaces, want 1: %v", i, got, summaries)
		}
	}
}
