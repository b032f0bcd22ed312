package plan_test

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/aws/lower"
	"github.com/nephele-io/nephele/internal/cloud/plan"
)

// relabelling is an account in which VMs change their roles while policies stay as they are.
type relabelling struct {
	*estate
	rand   *rand.Rand
	cloud  *fakeCloud
	roleOf []int
	set    policySet
	flows  []connection
	// log are the changes that came and are not followed yet; verdicts what the policies said before the first of them and after each.
	log      plan.Succession
	verdicts [][]bool
	stats    struct{ edits, alone, together, wholly int }
}

const (
	relabelRoles = 6
	relabelVMs   = 48
)

// newRelabelling makes policies by which roles admit and refuse one another and addresses, and enforces them.
func newRelabelling(t *testing.T, seed uint64) *relabelling {
	r := &relabelling{rand: rand.New(rand.NewPCG(seed, 11)), estate: &estate{
		Networks: []netSpec{{V4: "10.0.0.0/24"}}, Groups: []groupSpec{{Net: 0, Default: true}},
		Limits: cloud.Limits{RulesPerGroup: 60, GroupsPerInterface: 5, GroupsPerRegion: 2500, TagsPerResource: 50},
	}}
	anywhere := cloud.Peer{CIDR: netip.MustParsePrefix("0.0.0.0/0")}
	r.Groups = append(r.Groups, groupSpec{Net: 0, Rules: []cloud.Rule{
		{Direction: cloud.Ingress, Match: cloud.NewMatch(cloud.TCP, 22, 22), Peer: cloud.Peer{CIDR: netip.MustParsePrefix("10.0.0.0/25")}},
		{Direction: cloud.Egress, Match: cloud.NewMatch(-1, -1, -1), Peer: anywhere},
	}})
	for i := range relabelVMs {
		r.VMs = append(r.VMs, vmSpec{Selected: true})
		r.NICs = append(r.NICs, nicSpec{Net: 0, VM: i, IPs: []string{fmt.Sprintf("10.0.0.%d", 100+i)}, Groups: []int{1}})
		r.roleOf = append(r.roleOf, i%relabelRoles)
	}
	for role := range relabelRoles {
		r.set.Policies = append(r.set.Policies, r.randomPolicy(role), r.randomPolicy(role))
	}
	r.belong()
	r.History = []policySet{r.set}
	r.cloud = r.estate.cloud()
	for n := 0; ; n++ {
		res := plan.Compute(r.input(r.set, r.cloud.clone()), lower.AWS{})
		if len(res.Refusals) > 0 || n > 8 {
			t.Fatalf("seed %d: %d rounds; refused: %v", seed, n, res.Refusals)
		}
		if res.Plan.Empty() {
			break
		}
		r.apply(t, res.Plan.Steps)
	}
	all := r.estate.flows()
	for range 1500 {
		r.flows = append(r.flows, all[r.rand.IntN(len(all))])
	}
	r.verdicts = [][]bool{r.meant()}
	return r
}

// belong fills the groups by the roles.
func (r *relabelling) belong() {
	r.set.Address, r.set.Applied = make([][]int, relabelRoles), make([][]int, relabelRoles)
	for vm, role := range r.roleOf {
		r.set.Address[role] = append(r.set.Address[role], vm)
		r.set.Applied[role] = append(r.set.Applied[role], vm)
	}
}

func (r *relabelling) randomPolicy(role int) policySpec {
	port := int32(1000 + r.rand.IntN(3))
	rule := ruleSpec{
		Out: r.rand.IntN(3) == 0, Action: pick(r.rand, []v1beta2.RuleAction{"Allow", "Allow", "Allow", "Drop"}),
		Services: []serviceSpec{{Protocol: "TCP", From: port, To: port + int32(r.rand.IntN(2)), Type: -1}},
	}
	for range 1 + r.rand.IntN(2) {
		rule.Address = append(rule.Address, r.rand.IntN(relabelRoles))
	}
	if r.rand.IntN(4) == 0 {
		rule.Blocks = []blockSpec{{CIDR: "192.0.2.0/28"}}
	}
	return policySpec{Tier: 250, Priority: float64(1 + r.rand.IntN(9)), Applied: []int{role}, Rules: []ruleSpec{rule}}
}

func (r *relabelling) apply(t *testing.T, steps []plan.Step) {
	t.Helper()
	for _, s := range steps {
		if err := r.cloud.apply(s.Network, s.Op); err != nil {
			t.Fatalf("%s: %v", s.Op, err)
		}
	}
}

// meant is what the policies say now.
func (r *relabelling) meant() []bool {
	v := naive{estate: r.estate, set: r.set, without: map[string]bool{}, guarded: map[string]bool{}}
	for i := range r.NICs {
		v.guarded[nicID(i)] = true
	}
	out := make([]bool, len(r.flows))
	for i, fl := range r.flows {
		out[i] = fl.verdict(v.half)
	}
	return out
}

func (r *relabelling) actual() []bool {
	pr := r.cloud.prober()
	out := make([]bool, len(r.flows))
	for i, fl := range r.flows {
		out[i] = fl.verdict(func(nic int, d cloud.Direction, r remote, k packet) bool { return pr.half(nicID(nic), d, r, k) })
	}
	return out
}

func (r *relabelling) membership(vm int) plan.Membership {
	in := r.input(r.set, r.cloud)
	role := r.roleOf[vm]
	of := func(members []v1beta2.GroupMember) *v1beta2.GroupMember {
		i := slices.IndexFunc(members, func(m v1beta2.GroupMember) bool { return m.ExternalEntity.Name == vmID(vm) })
		return &members[i]
	}
	return plan.Membership{
		Address: []plan.Listing{{Group: fmt.Sprintf("ag-%d", role), Member: of(in.AddressGroups[role].GroupMembers)}},
		Applied: []plan.Listing{{Group: fmt.Sprintf("atg-%d", role), Member: of(in.AppliedToGroups[role].GroupMembers)}},
	}
}

// relabel gives a VM another role.
func (r *relabelling) relabel(vm, role int) {
	e := plan.EntityRef{Namespace: "vms", Name: vmID(vm)}
	if r.log.Before == nil {
		r.log.Before = map[plan.EntityRef]plan.Membership{}
	}
	if _, ok := r.log.Before[e]; !ok {
		r.log.Before[e] = r.membership(vm)
	}
	r.roleOf[vm] = role
	r.belong()
	r.log.Changes = append(r.log.Changes, plan.Change{Entity: e, Membership: r.membership(vm)})
	r.verdicts = append(r.verdicts, r.meant())
}

// between fails unless what the cloud allows lies between what the policies said at the moments from, from+1, ... to.
func (r *relabelling) between(t *testing.T, from, to int, when any) {
	t.Helper()
	for i, got := range r.actual() {
		settled := true
		for _, v := range r.verdicts[from+1 : to+1] {
			settled = settled && v[i] == r.verdicts[from][i]
		}
		if settled && got != r.verdicts[from][i] {
			t.Fatalf("%v: %s passes: %t, unlike after all of the changes %d to %d", when, r.flows[i], got, from, to)
		}
	}
}

// follow plans and applies until the cloud is as wanted.
func (r *relabelling) follow(t *testing.T) {
	t.Helper()
	base := 0  // the changes that the cloud has followed, or is about to
	exact := 0 // those after which it was last exactly as the policies said
	for round := 0; ; round++ {
		in := r.input(r.set, r.cloud.clone())
		in.Succession = r.log
		res := plan.Compute(in, lower.AWS{})
		if round > 300 {
			t.Fatalf("no end; %d changes are left", len(r.log.Changes))
		}
		if res.Plan.Empty() {
			if res.Followed != len(r.log.Changes) {
				t.Fatalf("nothing to do, but only %d of %d changes are followed", res.Followed, len(r.log.Changes))
			}
			break
		}
		p := &phase{estate: r.estate, rand: r.rand}
		stage, first, last := -1, 0, 0
		for _, s := range p.anyOrder(res.Plan.Steps) {
			if s.Follows > 0 && s.Stage != stage {
				if exact != base {
					t.Fatalf("round %d follows changes one after the other although the cloud is not as it was before them", round)
				}
				stage, first, last = s.Stage, s.Follows, s.Follows
				for _, o := range res.Plan.Steps {
					if o.Stage == stage {
						first, last = min(first, o.Follows), max(last, o.Follows)
					}
				}
			}
			r.apply(t, []plan.Step{s})
			if s.Op.Kind == cloud.OpSetInterfaceGroups {
				r.stats.edits++
			}
			if s.Follows > 0 {
				r.between(t, exact+first-1, base+last, fmt.Sprintf("round %d, %s for change %d", round, s.Op, s.Follows))
			} else {
				r.between(t, exact, base+res.Followed, fmt.Sprintf("round %d, %s", round, s.Op))
			}
		}
		switch {
		case res.Plan.Steps[0].Follows > 0:
			r.stats.alone++
			r.between(t, base+res.Followed, base+res.Followed, "after a plan of moves")
		case res.Followed == len(r.log.Changes):
			r.stats.wholly++
		default:
			r.stats.together++
		}
		base += res.Followed
		if slices.Equal(r.actual(), r.verdicts[base]) {
			exact = base
		}
		r.log = r.log.From(res.Followed)
	}
	r.between(t, len(r.verdicts)-1, len(r.verdicts)-1, "in the end")
}

// TestOneAfterTheOther lets many VMs change their roles, and checks after every call that the cloud is as the policies wanted it at that
// point of the succession.
func TestOneAfterTheOther(t *testing.T) {
	seed := envInt("NEPHELE_PLAN_SEED", 1)
	var alone, wholly, together, edits, changes int
	for at := range envInt("NEPHELE_PLAN_SUCCESSIONS", 5) {
		r := newRelabelling(t, uint64(seed+at))
		n := 30 + r.rand.IntN(40)
		for range n {
			r.relabel(r.rand.IntN(relabelVMs), r.rand.IntN(relabelRoles))
		}
		t.Run(fmt.Sprintf("seed %d", seed+at), r.follow)
		alone, wholly, together, edits, changes = alone+r.stats.alone, wholly+r.stats.wholly, together+r.stats.together, edits+r.stats.edits, changes+n
	}
	t.Logf("%d changes, %d edits; plans of moves: %d, of a few changes: %d, of all that was left: %d", changes, edits, alone, together, wholly)
	if alone == 0 || wholly == 0 {
		t.Errorf("%d plans follow changes one after the other, %d all together: the test shows nothing", alone, wholly)
	}
}
