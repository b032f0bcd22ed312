package plan_test

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/aws/lower"
	azurelower "github.com/nephele-io/nephele/internal/cloud/azure/lower"
	"github.com/nephele-io/nephele/internal/cloud/plan"
)

// bigInput is an account with one network of so many VMs in ten roles, and 20 policies by which
// every role admits two others.
func bigInput(vms int, held func(role int) []string) (plan.Input, *fakeCloud) {
	const roles = 10
	s := &cloud.Snapshot{Scope: cloud.Scope{Account: testAccount, Region: testRegion}, OwnerID: "123456789012"}
	s.Networks = []cloud.Network{{ID: "vpc-0", OwnerID: s.OwnerID, CIDRs: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}}
	anywhere := []cloud.Rule{
		{Direction: cloud.Egress, Match: cloud.NewMatch(-1, -1, -1), Peer: cloud.Peer{CIDR: netip.MustParsePrefix("0.0.0.0/0")}},
		{Direction: cloud.Ingress, Match: cloud.NewMatch(cloud.TCP, 22, 22), Peer: cloud.Peer{CIDR: netip.MustParsePrefix("10.0.0.0/8")}},
	}
	for i := range roles {
		s.Groups = append(s.Groups, cloud.Group{ID: fmt.Sprintf("sg-%02d", i), Name: fmt.Sprintf("role-%d", i), NetworkID: "vpc-0", OwnerID: s.OwnerID, Rules: anywhere})
	}
	in := plan.Input{ClusterID: testCluster, Account: testAccount, Entities: map[plan.EntityRef]plan.VMRef{}}
	for i := range roles {
		a, b := &v1beta2.AddressGroup{}, &v1beta2.AppliedToGroup{}
		a.Name, b.Name = fmt.Sprintf("ag-%d", i), fmt.Sprintf("atg-%d", i)
		in.AddressGroups, in.AppliedToGroups = append(in.AddressGroups, a), append(in.AppliedToGroups, b)
	}
	addr := netip.MustParseAddr("10.0.0.4")
	for i := range vms {
		role := i % roles
		id := fmt.Sprintf("i-%05d", i)
		s.VMs = append(s.VMs, cloud.VM{ID: id, NetworkID: "vpc-0", Interfaces: []string{"eni-" + id}})
		s.Interfaces = append(s.Interfaces, cloud.Interface{ID: "eni-" + id, VMID: id, NetworkID: "vpc-0", PrivateIPs: []netip.Addr{addr}, GroupIDs: held(role)})
		in.Entities[plan.EntityRef{Namespace: "vms", Name: id}] = plan.VMRef{Region: testRegion, ID: id}
		b := addr.As16()
		m := v1beta2.GroupMember{ExternalEntity: &v1beta2.ExternalEntityReference{Namespace: "vms", Name: id}}
		in.AppliedToGroups[role].GroupMembers = append(in.AppliedToGroups[role].GroupMembers, m)
		m.IPs = []v1beta2.IPAddress{b[:]}
		in.AddressGroups[role].GroupMembers = append(in.AddressGroups[role].GroupMembers, m)
		addr = addr.Next()
	}
	e := estate{}
	for i := range 20 {
		p := policySpec{Tier: 250, Priority: 5, Applied: []int{i % roles}, Rules: []ruleSpec{{
			Action: "Allow", Address: []int{(i + 1) % roles, (i + 3) % roles},
			Services: []serviceSpec{{Protocol: "TCP", From: int32(1000 + i), To: int32(1000 + i), Type: -1}},
		}}}
		in.Policies = append(in.Policies, e.policy(&p, i))
	}
	f := &fakeCloud{snap: s, limits: cloud.Limits{RulesPerGroup: 60, GroupsPerInterface: 5, GroupsPerRegion: 2500, TagsPerResource: 50}}
	in.Regions = []plan.Region{{Snapshot: s, Limits: f.limits}}
	return in, f
}

func byRole(role int) []string { return []string{fmt.Sprintf("sg-%02d", role)} }

// BenchmarkTakeOver computes the first plan for an account.
func BenchmarkTakeOver(b *testing.B) {
	for _, vms := range []int{1000, 10000} {
		b.Run(fmt.Sprint(vms), func(b *testing.B) {
			in, _ := bigInput(vms, byRole)
			var s plan.Summary
			for b.Loop() {
				if s = plan.Compute(in, lower.AWS{}).Plan.Summary(); int(s.Interfaces) != vms {
					b.Fatal(s)
				}
			}
			b.ReportMetric(float64(s.InterfaceEdits)/float64(vms), "edits/VM")
		})
	}
}

// BenchmarkSteady computes the plan for an account that is as it should be.
func BenchmarkSteady(b *testing.B) {
	for _, vms := range []int{1000, 10000} {
		b.Run(fmt.Sprint(vms), func(b *testing.B) {
			in, f := bigInput(vms, byRole)
			settleBig(b, &in, f)
			for b.Loop() {
				if p := plan.Compute(in, lower.AWS{}).Plan; !p.Empty() {
					b.Fatal(p.Summary())
				}
			}
		})
	}
}

// settleBig applies plans until there is nothing to do, and returns the summaries.
func settleBig(t testing.TB, in *plan.Input, f *fakeCloud) (out []plan.Summary) {
	t.Helper()
	index := map[string]int{}
	for i, n := range f.snap.Interfaces {
		index[n.ID] = i
	}
	for range 8 {
		p := plan.Compute(*in, lower.AWS{}).Plan
		if p.Empty() {
			return out
		}
		out = append(out, p.Summary())
		f = f.clone()
		for _, step := range p.Steps {
			if err := f.apply(step.Network, step.Op); err != nil {
				t.Fatal(step.Op, err)
			}
		}
		in.Regions[0].Snapshot = f.snap
	}
	t.Fatal("no end")
	return nil
}

// TestEditsPerChange pins what a change costs in calls on interfaces, the scarcest thing.
func TestEditsPerChange(t *testing.T) {
	const vms = 100
	in, f := bigInput(vms, byRole)
	sum := func(s []plan.Summary) (edits, rules int) {
		for _, s := range s {
			edits, rules = edits+int(s.InterfaceEdits), rules+int(s.RulesAdded+s.RulesRemoved)
		}
		return edits, rules
	}
	if edits, _ := sum(settleBig(t, &in, f)); edits != vms {
		t.Errorf("taking over %d VMs needs %d interface edits", vms, edits)
	}
	f = &fakeCloud{snap: in.Regions[0].Snapshot, limits: f.limits, next: 100}

	// One more policy on all VMs: rules only.
	e := estate{}
	more := policySpec{Tier: 100, Priority: 1, Applied: []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, Rules: []ruleSpec{{
		Action: "Allow", Blocks: []blockSpec{{CIDR: "192.0.2.0/24"}}, Services: []serviceSpec{{Protocol: "TCP", From: 443, To: 443, Type: -1}},
	}}}
	in.Policies = append(in.Policies, e.policy(&more, 99))
	if edits, rules := sum(settleBig(t, &in, f)); edits != 0 || rules != 10 {
		t.Errorf("one more policy: %d interface edits and %d rules, want 0 and 10", edits, rules)
	}
	f = &fakeCloud{snap: in.Regions[0].Snapshot, limits: f.limits, next: 200}

	// One VM changes its role: one that has nothing to do with its former one, one that this
	// admits, and one that admits this.
	for _, role := range []int{5, 1, 9} {
		move(&in, 0, role, 1)
		summaries := settleBig(t, &in, f)
		if edits, rules := sum(summaries); edits != 1 || rules != 0 || len(summaries) != 1 || summaries[0].Steps != 1 {
			t.Errorf("one VM changes its role to %d: %v, want one edit of an interface and nothing else", role, summaries)
		}
		f = &fakeCloud{snap: in.Regions[0].Snapshot, limits: f.limits, next: 1000 * (role + 1)}
	}

	// Two VMs of a big class change to a role that their former one admits: for a moment each may
	// be taken for what the other was.
	in, f = bigInput(4*vms, byRole)
	settleBig(t, &in, f)
	f = &fakeCloud{snap: in.Regions[0].Snapshot, limits: f.limits, next: 300}
	move(&in, 0, 1, 2)
	if edits, _ := sum(settleBig(t, &in, f)); edits != 2 {
		t.Errorf("two VMs change their role: %d interface edits, want 2", edits)
	}
}

// move gives n VMs of a role another one.
func move(in *plan.Input, from, to, n int) {
	a, b := in.AddressGroups[from], in.AddressGroups[to]
	b.GroupMembers = append(b.GroupMembers, a.GroupMembers[:n]...)
	a.GroupMembers = a.GroupMembers[n:]
	x, y := in.AppliedToGroups[from], in.AppliedToGroups[to]
	y.GroupMembers = append(y.GroupMembers, x.GroupMembers[:n]...)
	x.GroupMembers = x.GroupMembers[n:]
}

// manyServices is an account with one policy of so many rules, each about a port and a block of its
// own, on one VM of ten, in a cloud that takes a thousand rules in a group.
func manyServices(rules int) (plan.Input, *fakeCloud) {
	in, f := bigInput(10, byRole)
	in.Policies = nil
	f.limits = cloud.Limits{RulesPerGroup: 1000, GroupsPerInterface: 1, GroupsPerRegion: 5000, TagsPerResource: 50}
	in.Regions[0].Limits = f.limits
	p := policySpec{Tier: 250, Priority: 5, Applied: []int{0}}
	for i := range rules {
		p.Rules = append(p.Rules, ruleSpec{
			Action: "Allow", Blocks: []blockSpec{{CIDR: fmt.Sprintf("203.%d.%d.0/24", i/250, i%250)}},
			Services: []serviceSpec{{Protocol: "TCP", From: int32(20_000 + 2*i), To: int32(20_000 + 2*i), Type: -1}},
		})
	}
	e := estate{}
	in.Policies = append(in.Policies, e.policy(&p, 1))
	return in, f
}

// BenchmarkManyServices computes the first plan for a VM with many different rules, and with one
// rule more than fits.
func BenchmarkManyServices(b *testing.B) {
	for _, cloud := range []struct {
		name  string
		lower plan.Lowerer
	}{{"aws", lower.AWS{}}, {"azure", azurelower.Azure{}}} {
		for _, rules := range []int{100, 300, 990, 1100} {
			b.Run(fmt.Sprint(cloud.name, "/", rules), func(b *testing.B) {
				in, _ := manyServices(rules)
				for b.Loop() {
					plan.Compute(in, cloud.lower)
				}
			})
		}
	}
}
