package plan_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/aws/lower"
	"github.com/nephele-io/nephele/internal/cloud/plan"
	"github.com/nephele-io/nephele/internal/cloud/plan/reason"
	"github.com/nephele-io/nephele/internal/cloud/plan/render"
)

// small is an estate of three VMs in one network, each in a native group of its own that admits SSH
// from anywhere, and a policy by which the first admits HTTP from the second.
func small() *estate {
	e := &estate{
		Networks: []netSpec{{V4: "10.0.0.0/24"}},
		Groups:   []groupSpec{{Net: 0, Default: true}},
		Limits:   cloud.Limits{RulesPerGroup: 60, GroupsPerInterface: 5, GroupsPerRegion: 2500, TagsPerResource: 50},
	}
	for i := range 3 {
		e.Groups = append(e.Groups, groupSpec{Net: 0, Rules: []cloud.Rule{
			{Direction: cloud.Ingress, Match: cloud.NewMatch(cloud.TCP, 22, 22), Peer: cloud.Peer{CIDR: netip.MustParsePrefix("0.0.0.0/0")}},
			{Direction: cloud.Egress, Match: cloud.NewMatch(-1, -1, -1), Peer: cloud.Peer{CIDR: netip.MustParsePrefix("0.0.0.0/0")}},
		}})
		e.VMs = append(e.VMs, vmSpec{Selected: true})
		e.NICs = append(e.NICs, nicSpec{Net: 0, VM: i, IPs: []string{fmt.Sprintf("10.0.0.%d", 10+i)}, Groups: []int{1 + i}})
	}
	e.History = []policySet{{
		Address: [][]int{{1}}, Applied: [][]int{{0}},
		Policies: []policySpec{{Tier: 250, Priority: 5, Applied: []int{0}, Rules: []ruleSpec{{
			Action: "Allow", Address: []int{0}, Services: []serviceSpec{{Protocol: "TCP", From: 80, To: 80, Type: -1}},
		}}}},
	}}
	return e
}

// settle applies plans until nothing is left to do and returns the last result.
func settle(t *testing.T, e *estate, f *fakeCloud, change func(*plan.Input)) *plan.Result {
	t.Helper()
	for range 8 {
		in := e.input(e.History[0], f.clone())
		if change != nil {
			change(&in)
		}
		res := plan.Compute(in, e.lowerer())
		if res.Plan.Empty() {
			return res
		}
		for _, s := range res.Plan.Steps {
			if err := f.apply(s.Network, s.Op); err != nil {
				t.Fatalf("%s: %v", s.Op, err)
			}
		}
	}
	t.Fatal("no end")
	return nil
}

func admits(f *fakeCloud, nic int, from string, fromNIC string, port int) bool {
	return f.prober().half(nicID(nic), cloud.Ingress, remote{netip.MustParseAddr(from), fromNIC}, packet{cloud.TCP, port})
}

func TestGuardAndStatus(t *testing.T) {
	e := small()
	f := e.cloud()
	first := plan.Compute(e.input(e.History[0], f.clone()), lower.AWS{})
	if s := first.Policies[0]; len(s.Pending) != 1 || len(s.Realized)+len(s.Failed) != 0 {
		t.Errorf("before: %+v", s)
	}
	res := settle(t, e, f, nil)
	if s := res.Policies[0]; len(s.Realized) != 1 || len(s.Pending)+len(s.Failed) != 0 {
		t.Errorf("after: %+v", s)
	}
	if !admits(f, 0, "10.0.0.11", nicID(1), 80) || admits(f, 0, "10.0.0.12", nicID(2), 80) || admits(f, 0, "10.0.0.12", nicID(2), 22) {
		t.Error("the first VM admits something else than HTTP from the second")
	}
	if got := len(f.nic(nicID(1)).GroupIDs); got != 2 {
		t.Errorf("the second VM is a peer only and holds %d groups, want its own and one of ours", got)
	}
	if got := f.nic(nicID(2)); len(got.GroupIDs) != 1 || len(got.Tags) != 0 {
		t.Errorf("the third VM is touched: %+v", got)
	}
}

func TestPrintedForms(t *testing.T) {
	e := small()
	p := plan.Compute(e.input(e.History[0], e.cloud()), lower.AWS{}).Plan
	var b bytes.Buffer
	if err := render.Print(&b, render.Describe(p), false); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"region eu-west-1\n", "  + tags on vpc-00000000", "  + security group nephele-", "  ~ interface eni-00000000: groups = nephele-",
		"      + ingress tcp 80 from group nephele-", "Plan: 2 groups to create, 0 to change, 0 to delete; 2 rules to add, 0 to remove; 2 interfaces to set in 2 edits;",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("%q is missing in\n%s", want, b.String())
		}
	}
	text, err := json.Marshal(render.Describe(p))
	if err != nil {
		t.Fatal(err)
	}
	var back struct {
		Summary plan.Summary
		Steps   []struct{ Kind, Region string }
	}
	if err := json.Unmarshal(text, &back); err != nil || len(back.Steps) != len(p.Steps) || back.Summary != p.Summary() {
		t.Errorf("%v: %s", err, text)
	}
}

func TestNoClusterID(t *testing.T) {
	e := small()
	in := e.input(e.History[0], e.cloud())
	in.ClusterID = ""
	if res := plan.Compute(in, lower.AWS{}); !res.Plan.Empty() || len(res.Refusals) != 1 {
		t.Errorf("%+v", res)
	}
}

func TestClaimedByAnother(t *testing.T) {
	e := small()
	f := e.cloud()
	f.snap.Networks[0].Tags = map[string]string{cloud.TagClaim: "an\nother\x1b"}
	res := plan.Compute(e.input(e.History[0], f), lower.AWS{})
	if !res.Plan.Empty() {
		t.Errorf("works in a network of another controller:\n%v", res.Plan.Steps)
	}
	if s := res.Policies[0]; len(s.Failed) != 1 || !strings.Contains(s.Failed[0].Message, "another") {
		t.Errorf("%+v", s)
	}
}

func TestHeldByAnotherController(t *testing.T) {
	e := small()
	f := e.cloud()
	f.snap.Groups = append(f.snap.Groups, cloud.Group{ID: "sg-eeee0000", Name: cloud.NamePrefix + "x", NetworkID: netID(0), Tags: map[string]string{
		cloud.TagCluster: "another", cloud.TagKind: cloud.KindClass, cloud.TagAccount: testAccount,
	}})
	f.nic(nicID(0)).GroupIDs = []string{"sg-eeee0000"}
	res := plan.Compute(e.input(e.History[0], f), lower.AWS{})
	for _, s := range res.Plan.Steps {
		if s.Op.Target == nicID(0) || s.Op.Target == "sg-eeee0000" {
			t.Errorf("touches what another controller holds: %s", s.Op)
		}
	}
	if s := res.Policies[0]; len(s.Failed) != 1 || !strings.Contains(s.Failed[0].Message, "another") {
		t.Errorf("%+v", s)
	}
}

func TestUnsupportedRulesAreRefused(t *testing.T) {
	port := int32(1024)
	sctp := v1beta2.ProtocolSCTP
	igmp := v1beta2.ProtocolIGMP
	named, number := intstr.FromString("http"), intstr.FromInt32(80)
	for name, c := range map[string]struct {
		change func(*v1beta2.NetworkPolicyRule)
		want   string
	}{
		"source port": {func(r *v1beta2.NetworkPolicyRule) { r.Services[0].SrcPort = &port }, "source ports (1024)"},
		"domain name": {func(r *v1beta2.NetworkPolicyRule) { r.From.FQDNs = []string{"example.com"} }, "example.com"},
		"SCTP port":   {func(r *v1beta2.NetworkPolicyRule) { r.Services = []v1beta2.Service{{Protocol: &sctp, Port: &number}} }, "ports of sctp"},
		"IGMP group": {func(r *v1beta2.NetworkPolicyRule) {
			r.Services = []v1beta2.Service{{Protocol: &igmp, GroupAddress: "224.0.0.1"}}
		}, "IGMP"},
		"unknown port":   {func(r *v1beta2.NetworkPolicyRule) { r.Services[0].Port = &named }, "named port \"http\""},
		"layer 7":        {func(r *v1beta2.NetworkPolicyRule) { r.L7Protocols = []v1beta2.L7Protocol{{}} }, "layer 7"},
		"missing group":  {func(r *v1beta2.NetworkPolicyRule) { r.From.AddressGroups = []string{"nowhere"} }, "nowhere is not known yet"},
		"cluster labels": {func(r *v1beta2.NetworkPolicyRule) { r.From.LabelIdentities = []uint32{1} }, "another cluster"},
	} {
		t.Run(name, func(t *testing.T) {
			e := small()
			in := e.input(e.History[0], e.cloud())
			c.change(&in.Policies[0].Rules[0])
			res := plan.Compute(in, lower.AWS{})
			if !res.Plan.Empty() {
				t.Errorf("does something:\n%v", res.Plan.Steps)
			}
			if s := res.Policies[0]; len(s.Failed) != 1 || !strings.Contains(s.Failed[0].Message, c.want) {
				t.Errorf("%+v, want %q", s, c.want)
			}
		})
	}
}

// manyBlocks gives the policy more addresses than the quota holds.
func manyBlocks(n int) func(*plan.Input) {
	return func(in *plan.Input) {
		r := &in.Policies[0].Rules[0]
		for i := range n {
			r.From.IPBlocks = append(r.From.IPBlocks, v1beta2.IPBlock{CIDR: ipNet(fmt.Sprintf("192.0.%d.%d/32", i/100, 2*(i%100)))})
		}
	}
}

func TestQuotaRefusalHasNumbers(t *testing.T) {
	e := small()
	in := e.input(e.History[0], e.cloud())
	manyBlocks(400)(&in)
	res := plan.Compute(in, lower.AWS{})
	if !res.Plan.Empty() {
		t.Errorf("does something:\n%v", res.Plan.Steps)
	}
	want := "it needs 401 ingress rules for IPv4 on one interface, and 5 groups of at most 60 rules hold 300"
	if s := res.Policies[0]; len(s.Failed) != 1 || s.Failed[0].Message != want {
		t.Errorf("%+v, want %q", s, want)
	}
	if len(res.Refusals) != 1 || res.Refusals[0].Kept {
		t.Errorf("%+v", res.Refusals)
	}
}

func TestSpill(t *testing.T) {
	e := small()
	f := e.cloud()
	settle(t, e, f, manyBlocks(150))
	if got := len(f.nic(nicID(0)).GroupIDs); got != 3 {
		t.Errorf("151 rules are in %d groups, want 3", got)
	}
	if !admits(f, 0, "192.0.1.98", "", 80) || admits(f, 0, "192.0.1.99", "", 80) {
		t.Error("the spilled rules are not exact")
	}
	settle(t, e, f, nil)
	if got := len(f.nic(nicID(0)).GroupIDs); got != 1 {
		t.Errorf("one rule is in %d groups, want 1", got)
	}
}

// A policy that was realized and outgrows the quota keeps its last form.
func TestPolicyOutgrowsTheQuota(t *testing.T) {
	e := small()
	f := e.cloud()
	settle(t, e, f, nil)
	before := f.clone()
	res := settle(t, e, f, manyBlocks(400))
	if len(res.Refusals) != 1 || !res.Refusals[0].Kept || fmt.Sprint(shape(f)) != fmt.Sprint(shape(before)) ||
		!res.Refusals[0].Why.Is(reason.Kept) || res.Refusals[0].Lack == nil || !res.VMs[0].Policies[0].Why.Is(reason.Kept) {
		t.Errorf("%+v\n%v\n%v", res.Refusals, shape(f), shape(before))
	}
}

func TestDriftIsRepaired(t *testing.T) {
	e := small()
	f := e.cloud()
	settle(t, e, f, nil)
	want := shape(f)
	for name, disturb := range map[string]func(){
		"taken out": func() { f.nic(nicID(0)).GroupIDs = []string{groupID(2)} },
		"added":     func() { n := f.nic(nicID(0)); n.GroupIDs = append([]string{groupID(2)}, n.GroupIDs...) },
		"rule added": func() {
			g := f.group(f.nic(nicID(0)).GroupIDs[0])
			g.Rules = append(g.Rules, e.cloud().group(groupID(1)).Rules[1])
		},
	} {
		disturb()
		if res := plan.Compute(e.input(e.History[0], f.clone()), lower.AWS{}); len(res.Drift) == 0 {
			t.Errorf("%s: no drift reported", name)
		}
		settle(t, e, f, nil)
		if got := shape(f); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
	e.History[0].Policies = nil
	settle(t, e, f, nil)
	if got := f.nic(nicID(0)); !slices.Equal(got.GroupIDs, []string{groupID(1)}) || len(got.Tags) != 0 {
		t.Errorf("given back: %+v", got)
	}
}

func TestFormerGroupIsGone(t *testing.T) {
	e := small()
	f := e.cloud()
	settle(t, e, f, nil)
	if err := f.apply("", cloud.Op{Kind: cloud.OpDeleteGroup, Target: groupID(1)}); err != nil {
		t.Fatal(err)
	}
	e.History[0].Policies = nil
	var notes []plan.Note
	settle(t, e, f, func(in *plan.Input) {
		if res := plan.Compute(*in, lower.AWS{}); len(notes) == 0 {
			notes = res.Notes
		}
	})
	if got := f.nic(nicID(0)).GroupIDs; !slices.Equal(got, []string{groupID(0)}) {
		t.Errorf("given back to %v, want the default group", got)
	}
	if len(notes) == 0 {
		t.Error("nothing is said about it")
	}
}

// An interface that cannot be taken over depends by a group reference on one that is to be.
func TestDependentInterface(t *testing.T) {
	e := small()
	e.Groups[2].Rules = append(e.Groups[2].Rules, cloud.Rule{
		Direction: cloud.Ingress, Match: cloud.NewMatch(cloud.TCP, 5432, 5432), Peer: cloud.Peer{GroupID: "#1"},
	})
	f := e.cloud()
	settle(t, e, f, nil)
	if got := f.nic(nicID(1)).Tags[cloud.TagFormer]; got != groupID(2) {
		t.Errorf("the dependent is not guarded: %q", got)
	}
	if !admits(f, 1, "10.0.0.10", nicID(0), 5432) {
		t.Error("the dependent lost what its own group allows")
	}

	e.VMs[1].Selected = false
	f = e.cloud()
	res := settle(t, e, f, nil)
	if s := res.Policies[0]; len(s.Failed) != 1 || !s.Failed[0].Why.Is(reason.DependentLoses) {
		t.Errorf("%+v", s)
	}
	if got := f.nic(nicID(0)).GroupIDs; !slices.Equal(got, []string{groupID(1)}) {
		t.Errorf("taken over all the same: %v", got)
	}
}

// A member in another region is named by its addresses, public ones included.
func TestMemberInAnotherRegion(t *testing.T) {
	e := small()
	f := e.cloud()
	other := &cloud.Snapshot{Scope: cloud.Scope{Account: testAccount, Region: "us-east-1"}, OwnerID: f.snap.OwnerID,
		Networks:   []cloud.Network{{ID: "vpc-far", CIDRs: []netip.Prefix{netip.MustParsePrefix("10.7.0.0/24")}}},
		VMs:        []cloud.VM{{ID: "i-far", NetworkID: "vpc-far", Interfaces: []string{"eni-far"}}},
		Interfaces: []cloud.Interface{{ID: "eni-far", VMID: "i-far", NetworkID: "vpc-far", PrivateIPs: []netip.Addr{netip.MustParseAddr("10.7.0.4")}}},
	}
	settle(t, e, f, func(in *plan.Input) {
		in.Regions = append(in.Regions, plan.Region{Snapshot: other, Limits: e.Limits})
		in.Entities[plan.EntityRef{Namespace: "vms", Name: "far"}] = plan.VMRef{Region: "us-east-1", ID: "i-far"}
		m := v1beta2.GroupMember{ExternalEntity: &v1beta2.ExternalEntityReference{Namespace: "vms", Name: "far"}}
		for _, s := range []string{"10.7.0.4", "203.0.113.50", "10.0.0.12"} { // the last one is somebody else's in this network
			b := netip.MustParseAddr(s).As16()
			m.IPs = append(m.IPs, b[:])
		}
		in.AddressGroups[0].GroupMembers = append(in.AddressGroups[0].GroupMembers, m)
	})
	for addr, want := range map[string]bool{"10.7.0.4": true, "203.0.113.50": true, "10.0.0.12": false} {
		if got := admits(f, 0, addr, "", 80); got != want {
			t.Errorf("%s: %v, want %v", addr, got, want)
		}
	}
}

// What another account's group means is not known here: the reference stays as long as no rule
// takes something from where it can be.
func TestOpaqueNativeReference(t *testing.T) {
	e := small()
	e.History[0].Policies[0].Rules = []ruleSpec{{Out: true, Action: "Allow", Blocks: []blockSpec{{CIDR: "0.0.0.0/0"}}}}
	opaque := cloud.Rule{Direction: cloud.Ingress, Match: cloud.NewMatch(cloud.TCP, 443, 443), Peer: cloud.Peer{GroupID: "sg-0000abcd", GroupOwner: "999999999999"}}
	f := e.cloud()
	f.group(groupID(1)).Rules = append(f.group(groupID(1)).Rules, opaque)
	refers := func(change func(*plan.Input)) bool {
		in := e.input(e.History[0], f.clone())
		if change != nil {
			change(&in)
		}
		for _, s := range plan.Compute(in, lower.AWS{}).Plan.Steps {
			if s.Op.Kind == cloud.OpAddRules && slices.ContainsFunc(s.Op.Rules, opaque.Same) {
				return true
			}
		}
		return false
	}
	if !refers(nil) {
		t.Error("the reference is lost")
	}
	for block, stays := range map[string]bool{"192.0.2.0/24": true, "10.0.0.64/26": false} {
		e.History[0].Policies[0].Rules[0] = ruleSpec{Action: "Drop", Blocks: []blockSpec{{CIDR: block}}}
		if refers(nil) != stays {
			t.Errorf("drop %s: the reference stays: %v", block, !stays)
		}
	}
}
