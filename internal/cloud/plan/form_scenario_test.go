package plan_test

import (
	"net/netip"
	"reflect"
	"testing"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/aws/lower"
	"github.com/nephele-io/nephele/internal/cloud/plan"
	"github.com/nephele-io/nephele/internal/cloud/plan/reason"
)

// crowd is an account of so many VMs, each in a class of its own, with small quotas: the first VM
// may have fewer rules than it has peers. isMember has the VMs of the last set, which the first VM
// shall admit.
func crowd(vms, rulesPerGroup int, isMember func(vm int) bool) (plan.Input, *fakeCloud) {
	in, f := labelledInput(vms, vms+1, func(vm, k int) bool { return vm == k || k == vms && isMember(vm) })
	for k := range vms {
		admit(&in, k, 1000+k, ruleSpec{Address: []int{(k + 1) % vms}})
	}
	f.limits.RulesPerGroup = rulesPerGroup
	in.Regions[0].Limits = f.limits
	return in, f
}

// checkAdmits compares what the first VM admits at port 5000 with the members, VM by VM.
func checkAdmits(t *testing.T, in plan.Input, isMember func(vm int) bool) {
	t.Helper()
	f := &fakeCloud{snap: in.Regions[0].Snapshot, limits: in.Regions[0].Limits}
	pr := f.prober()
	for i, n := range f.snap.Interfaces {
		got := pr.half(f.snap.Interfaces[0].ID, cloud.Ingress, remote{n.PrivateIPs[0], n.ID}, packet{cloud.TCP, 5000})
		if got != isMember(i) {
			t.Fatalf("VM %d is a member: %v, admitted: %v", i, isMember(i), got)
		}
	}
}

func next(in plan.Input, limits cloud.Limits, at int) *fakeCloud {
	return &fakeCloud{snap: in.Regions[0].Snapshot, limits: limits, next: at}
}

// Many neighbours are named by blocks of addresses if references to all of their classes do not
// fit; a class that lies scattered goes on being referred to. No interface is touched for it.
func TestManyPeersBecomeBlocks(t *testing.T) {
	const vms = 120
	isMember := func(vm int) bool { return vm < 100 || vm%8 == 0 }
	in, f := crowd(vms, 10, isMember)
	settleBig(t, &in, f)
	admit(&in, 0, 5000, ruleSpec{Address: []int{vms}})
	summaries := settleBig(t, &in, next(in, f.limits, 1000))
	if res := plan.Compute(in, lower.AWS{}); len(res.Refusals) > 0 {
		t.Fatalf("refused: %+v", res.Refusals[0])
	}
	edits, rules := 0, 0
	for _, s := range summaries {
		edits, rules = edits+int(s.InterfaceEdits), rules+int(s.RulesAdded)
	}
	if edits != 0 || rules > 12 {
		t.Errorf("%d edits of interfaces and %d rules for 102 peers: %v", edits, rules, summaries)
	}
	checkAdmits(t, in, isMember)
}

// Where members are scattered, they get a group by which all of them are referred to. It goes when
// few classes are left.
func TestManyScatteredPeersAreGathered(t *testing.T) {
	const vms = 120
	isMember := func(vm int) bool { return vm%2 == 0 }
	in, f := crowd(vms, 10, isMember)
	settleBig(t, &in, f)
	admit(&in, 0, 5000, ruleSpec{Address: []int{vms}})
	summaries := settleBig(t, &in, next(in, f.limits, 1000))
	if res := plan.Compute(in, lower.AWS{}); len(res.Refusals) > 0 {
		t.Fatalf("refused: %+v", res.Refusals[0])
	}
	rules := 0
	for _, s := range summaries {
		rules += int(s.RulesAdded)
	}
	if edits := settledEdits(summaries); edits != vms/2 || rules != 1 {
		t.Errorf("%d edits of interfaces and %d rules for %d peers: %v", edits, rules, vms/2, summaries)
	}
	checkAdmits(t, in, isMember)

	// A member more or less is one edit; it does not end before references would do by far.
	group := in.AddressGroups[vms]
	group.GroupMembers = group.GroupMembers[1:]
	if got := settledEdits(settleBig(t, &in, next(in, f.limits, 2000))); got != 1 {
		t.Errorf("a member goes: %d edits of interfaces, want 1", got)
	}
	group.GroupMembers = group.GroupMembers[:20]
	if got := settledEdits(settleBig(t, &in, next(in, f.limits, 3000))); got != 39 {
		t.Errorf("39 members go: %d edits of interfaces", got)
	}
	checkAdmits(t, in, func(vm int) bool { return vm%2 == 0 && vm > 0 && vm <= 40 })
	group.GroupMembers = group.GroupMembers[:1]
	settleBig(t, &in, next(in, f.limits, 4000))
	for _, g := range in.Regions[0].Snapshot.Groups {
		if g.Tags[cloud.TagKind] == "members" {
			t.Errorf("%s is left although there is one member only", g.ID)
		}
	}
	checkAdmits(t, in, func(vm int) bool { return vm == 2 })
}

// What fits in no form is refused with the number of rules of the shortest one.
func TestManyScatteredPeersAreRefused(t *testing.T) {
	const vms = 120
	in, f := crowd(vms, 50, func(vm int) bool { return vm%2 == 0 })
	f.limits.GroupsPerInterface = 1
	in.Regions[0].Limits = f.limits
	settleBig(t, &in, f)
	admit(&in, 0, 5000, ruleSpec{Address: []int{vms}})
	res := plan.Compute(in, lower.AWS{})
	if len(res.Refusals) != 1 || res.Refusals[0].Lack == nil || res.Refusals[0].Lack.Needed != 61 || res.Refusals[0].Lack.Direction != "ingress" || res.Refusals[0].Direction != cloud.Ingress {
		t.Errorf("%+v", res.Refusals)
	}
}

// A VM that a plan could not give a policy is not frozen for its sake by the next one, although it
// is not known then that the policy was never in force: a policy that is left out makes room for
// two peers to be one class, and what this led to is not undone.
func TestWhatWasLeftOutStaysLeftOut(t *testing.T) {
	udp := cloud.NewMatch(cloud.UDP, 0, 0xffff)
	e := estate{
		Networks: []netSpec{{V4: "10.0.0.0/24"}},
		Groups: []groupSpec{
			{Default: true, Rules: []cloud.Rule{
				{Direction: cloud.Ingress, Match: udp, Peer: cloud.Peer{GroupID: "#1"}},
				{Direction: cloud.Ingress, Match: udp, Peer: cloud.Peer{CIDR: netip.MustParsePrefix("10.0.0.0/24")}},
			}},
			{Rules: []cloud.Rule{
				{Direction: cloud.Ingress, Match: udp, Peer: cloud.Peer{GroupID: "#1"}},
				{Direction: cloud.Egress, Match: cloud.NewMatch(cloud.AnyProtocol, -1, -1), Peer: cloud.Peer{CIDR: netip.MustParsePrefix("0.0.0.0/0")}},
			}},
		},
		NICs: []nicSpec{
			{VM: 0, IPs: []string{"10.0.0.5"}, Groups: []int{0, 1}},
			{VM: 1, IPs: []string{"10.0.0.9"}, Groups: []int{0, 1}},
			{VM: 2, IPs: []string{"10.0.0.13"}, Groups: []int{0, 1}},
		},
		VMs:    []vmSpec{{Selected: true}, {Selected: true}, {Selected: true}},
		Limits: cloud.Limits{RulesPerGroup: 12, GroupsPerInterface: 5, GroupsPerRegion: 500, TagsPerResource: 50},
		Stingy: true,
		History: []policySet{{
			Address: [][]int{{1}, {0, 1}}, Applied: [][]int{{2}, {1, 2}},
			Policies: []policySpec{
				{Tier: 250, Priority: 1, Applied: []int{1}, Rules: []ruleSpec{{Action: "Allow", Address: []int{1}}}},
				{Tier: 253, Priority: 2, Applied: []int{0}, Rules: []ruleSpec{{Out: true, Action: "Allow", Address: []int{0, 1}}}},
			},
		}},
	}
	f := e.cloud()
	if res := settle(t, &e, f, nil); len(res.Refusals) != 2 || res.Refusals[0].Kept || res.Refusals[1].Kept {
		t.Errorf("%+v", res.Refusals)
	}
	if !admits(f, 2, "10.0.0.5", nicID(0), 80) {
		t.Error("the policy that is in force does not allow its peer any more")
	}
	if err := subjectOf(t).checkEstate(&e, 1, &stats{}); err != nil {
		t.Error(err)
	}
}

// stingy holds hardly any references, so that other forms have to be found all the time.
type stingy struct{ lower.AWS }

func (l stingy) Pack(wanted []cloud.Rule, held [][]cloud.Rule, q plan.Quota) ([][]cloud.Rule, *plan.Shortage) {
	peers := map[cloud.Direction]map[cloud.Peer]bool{cloud.Ingress: {}, cloud.Egress: {}}
	for _, r := range wanted {
		if r.Peer.GroupID+r.Peer.GroupName != "" {
			peers[r.Direction][r.Peer] = true
		}
	}
	for _, d := range []cloud.Direction{cloud.Ingress, cloud.Egress} {
		if seen := peers[d]; len(seen) > 1 {
			return nil, &plan.Shortage{Direction: d, Family: "IPv4", Needed: 1000 + len(seen), Available: 1}
		}
	}
	return l.AWS.Pack(wanted, held, q)
}

// TestStingyWorlds checks the random accounts of TestWorlds where rules may refer to one group in a
// direction only.
func TestStingyWorlds(t *testing.T) {
	t.Parallel()
	checkWorlds(t, worldsOneIn(3), func(e *estate) { e.Stingy, e.Limits.RulesPerGroup = true, 12 })
}

// TestNotTakenOverAgain: a VM has two interfaces, and somebody outside comes to depend on the own
// groups of one of them. Then a policy takes the place of another one, and has no room beside all
// that these groups say. That interface could not be taken over again once it is given back, so the
// VM stays as it is, which is said, and says the same in the next round.
func TestNotTakenOverAgain(t *testing.T) {
	anyone := cloud.Peer{CIDR: netip.MustParsePrefix("0.0.0.0/0")}
	e := &estate{
		Networks: []netSpec{{V4: "10.0.0.0/24"}}, Groups: []groupSpec{{Default: true}, {}},
		VMs:    []vmSpec{{Selected: true}},
		Limits: cloud.Limits{RulesPerGroup: 60, GroupsPerInterface: 5, GroupsPerRegion: 500, TagsPerResource: 50},
	}
	first := nicSpec{VM: 0, IPs: []string{"10.0.0.5"}}
	for i := range 5 {
		g := groupSpec{}
		for k := range 60 {
			port := 1000 + 2*(60*i+k)
			g.Rules = append(g.Rules, cloud.Rule{Direction: cloud.Ingress, Match: cloud.NewMatch(cloud.TCP, port, port), Peer: anyone})
		}
		first.Groups, e.Groups = append(first.Groups, len(e.Groups)), append(e.Groups, g)
	}
	e.NICs = []nicSpec{first, {VM: 0, IPs: []string{"10.0.0.6"}, Groups: []int{0}}, {VM: -1, IPs: []string{"10.0.0.7"}, Groups: []int{1}}}
	closed := ruleSpec{Out: true, Action: "Allow", Blocks: []blockSpec{{CIDR: "192.0.2.1/32"}}}
	set := func(priority float64, rules ...ruleSpec) policySet {
		return policySet{Applied: [][]int{{0}}, Policies: []policySpec{{Tier: 250, Priority: priority, Applied: []int{0}, Rules: rules}}}
	}
	f := e.cloud()
	e.History = []policySet{set(1, closed)}
	if res := settle(t, e, f, nil); len(res.Refusals) > 0 {
		t.Fatal(res.Refusals)
	}
	if err := e.editNative(f, 1, []cloud.Rule{{Direction: cloud.Ingress, Match: cloud.NewMatch(cloud.TCP, 80, 80), Peer: cloud.Peer{GroupID: "#2"}}}); err != nil {
		t.Fatal(err)
	}
	e.History = []policySet{set(2, closed, ruleSpec{Action: "Drop", Blocks: []blockSpec{{CIDR: "198.51.100.7/32"}}})}
	res := plan.Compute(e.input(e.History[0], f.clone()), e.lowerer())
	if n := res.VMs[0].Interfaces; n[0].State != plan.Guarded || n[1].State != plan.Guarded || writes(res.Plan) {
		t.Errorf("%+v, %v", n, res.Plan.Steps)
	}
	again := settle(t, e, f, nil)
	if !reflect.DeepEqual(res.Refusals, again.Refusals) || len(res.Refusals) != 1 || !res.Refusals[0].Kept || !res.Refusals[0].Why.Is(reason.RulesShort) {
		t.Errorf("%v, then %v", res.Refusals, again.Refusals)
	}
}
