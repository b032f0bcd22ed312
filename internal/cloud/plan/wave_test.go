package plan_test

import (
	"cmp"
	"math/rand/v2"
	"net/netip"
	"reflect"
	"slices"
	"testing"

	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/aws/lower"
	"github.com/nephele-io/nephele/internal/cloud/plan"
	"github.com/nephele-io/nephele/internal/cloud/plan/flow"
)

// TestWaves: plans that are cut into waves touch no more than they may, come to an end, and lead
// where the whole plans lead.
func TestWaves(t *testing.T) {
	t.Parallel()
	worlds, seed := worldsOneIn(8), envInt("NEPHELE_PLAN_SEED", 1)
	waves := 0
	for i := range worlds {
		at := uint64(seed + i)
		r := rand.New(rand.NewPCG(at, 7))
		e := randomEstate(r)
		f := e.cloud()
		before := f.clone()
		limit := 1 + r.IntN(3)
		for k, set := range append(slices.Clone(e.History), policySet{}) {
			n := 0
			for ; ; n++ {
				in := e.input(set, f.clone())
				res := plan.Compute(in, lower.AWS{})
				if res.Plan.Empty() {
					break
				}
				if n == 500 {
					t.Fatalf("seed %d: policy set %d has no end in waves of %d", at, k, limit)
				}
				wave, _ := res.Plan.Wave(limit, func(_, nic string) string {
					if x := f.nic(nic); x != nil {
						return x.VMID
					}
					return ""
				})
				touched := map[string]bool{}
				for _, s := range wave.Steps {
					if s.Op.Kind == cloud.OpSetInterfaceGroups {
						nic := f.nic(s.Op.Target)
						touched[cmp.Or(nic.VMID, nic.ID)] = true
					}
					if err := f.apply(s.Network, s.Op); err != nil {
						t.Fatalf("seed %d: %s: %v", at, s.Op, err)
					}
				}
				if len(wave.Steps) == 0 || len(touched) > limit {
					t.Fatalf("seed %d: a wave of %d touches %v in %d steps", at, limit, touched, len(wave.Steps))
				}
				waves++
			}
		}
		if !reflect.DeepEqual(leftOver(f), leftOver(before)) {
			t.Fatalf("seed %d: not everything was given back: %v", at, diffLeftOver(f, before))
		}
	}
	t.Logf("seeds %d..%d: %d waves", seed, seed+worlds-1, waves)
}

// TestFailsafe: a failsafe flow is open on a VM with policies although they drop it, isolates
// nothing, and is absent elsewhere.
func TestFailsafe(t *testing.T) {
	open := plan.FailsafeFlow{Direction: cloud.Ingress, Services: []flow.Service{{Protocol: cloud.TCP, From: 2222, To: 2222}},
		Peers: []netip.Prefix{netip.MustParsePrefix("10.0.0.12/32")}}
	safe := func(in *plan.Input) { in.Failsafe = []plan.FailsafeFlow{open} }
	for _, action := range []v1beta2.RuleAction{v1beta2.RuleActionAllow, v1beta2.RuleActionDrop} {
		e := small()
		e.History[0].Policies[0].Rules[0].Action = action
		f := e.cloud()
		native := f.clone()
		settle(t, e, f, safe)
		ssh := admits(f, 0, "192.0.2.1", "", 22)
		if !admits(f, 0, "10.0.0.12", nicID(2), 2222) || admits(f, 0, "10.0.0.11", nicID(1), 2222) || ssh != (action == v1beta2.RuleActionDrop) {
			t.Errorf("%s: failsafe %t, for another %t, SSH of the native tier %t", action,
				admits(f, 0, "10.0.0.12", nicID(2), 2222), admits(f, 0, "10.0.0.11", nicID(1), 2222), ssh)
		}
		if admits(f, 1, "10.0.0.12", nicID(2), 2222) {
			t.Errorf("%s: open on a VM without policies", action)
		}
		e.History[0] = policySet{}
		settle(t, e, f, safe)
		if !reflect.DeepEqual(leftOver(f), leftOver(native)) {
			t.Errorf("%s: something is left: %s", action, diffLeftOver(f, native))
		}
	}
	e := small()
	e.History[0].Policies[0].Rules[0] = ruleSpec{
		Action:   "Drop",
		Blocks:   []blockSpec{{CIDR: "0.0.0.0/0"}},
		Services: []serviceSpec{{Protocol: "TCP", From: 2222, To: 2222, Type: -1}},
	}
	f := e.cloud()
	settle(t, e, f, safe)
	if !admits(f, 0, "10.0.0.12", nicID(2), 2222) || admits(f, 0, "10.0.0.11", nicID(1), 2222) {
		t.Error("a Drop goes before the failsafe flow")
	}
}
