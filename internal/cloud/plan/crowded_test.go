package plan_test

import (
	"math/rand/v2"
	"testing"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/aws/lower"
	"github.com/nephele-io/nephele/internal/cloud/plan"
	"github.com/nephele-io/nephele/internal/cloud/plan/reason"
)

// crowdedEstate has three VMs, each with a policy of its own, in a region with so many free groups.
func crowdedEstate(free int) *estate {
	e := small()
	e.Limits.GroupsPerRegion = len(e.Groups) + free
	set := policySet{Applied: [][]int{{0}, {1}, {2}}}
	for i := range 3 {
		set.Policies = append(set.Policies, policySpec{Tier: 250, Priority: float64(i), Applied: []int{i}, Rules: []ruleSpec{{
			Action: "Allow", Blocks: []blockSpec{{CIDR: "192.0.2.0/24"}}, Services: []serviceSpec{{Protocol: "TCP", From: int32(80 + i), To: int32(80 + i), Type: -1}},
		}}})
	}
	e.History = []policySet{set}
	return e
}

// What there is no group for is refused policy by policy, the lowest precedence first, and the rest
// is realized.
func TestTooFewGroups(t *testing.T) {
	for free := range 4 {
		e := crowdedEstate(free)
		f := e.cloud()
		res := settle(t, e, f, nil)
		if len(res.Refusals) != 3-free {
			t.Errorf("%d free: %+v", free, res.Refusals)
		}
		for _, x := range res.Refusals {
			if l := x.Lack; l == nil || *l != (plan.Lack{Quota: reason.QuotaGroupsPerRegion, Needed: 7, Available: 4 + free, WouldDo: 7}) {
				t.Errorf("%d free: %+v", free, l)
			}
			if x.VM.ID == "" || x.Policy.Name == "" || x.Kept {
				t.Errorf("%d free: %+v", free, x)
			}
		}
		for i := range 3 {
			if got, want := admits(f, i, "192.0.2.7", "", 80+i), i < free; got != want {
				t.Errorf("%d free: VM %d admits its peer: %v", free, i, got)
			}
		}
	}
}

// A policy in force that needs no further group can be changed however full the region is, next to
// one that is refused.
func TestEditWithoutRoomForGroups(t *testing.T) {
	e := crowdedEstate(2)
	f := e.cloud()
	settle(t, e, f, nil)
	e.History[0].Policies[0].Rules[0].Services[0] = serviceSpec{Protocol: "TCP", From: 8080, To: 8080, Type: -1}
	res := settle(t, e, f, nil)
	if len(res.Refusals) != 1 || res.Refusals[0].Policy.Name != "p2" || res.Refusals[0].Kept {
		t.Errorf("%+v", res.Refusals)
	}
	if admits(f, 0, "192.0.2.7", "", 80) || !admits(f, 0, "192.0.2.7", "", 8080) || !admits(f, 1, "192.0.2.7", "", 81) {
		t.Error("the edit is not in force, or the other policy is not any more")
	}
}

// Nor does a VM that has no policy hold that up, although it needs a group from now on: its owner
// has its own group name that of a VM under control.
func TestEditBesideADependentWithoutRoom(t *testing.T) {
	e := crowdedEstate(2)
	e.History[0].Applied[2] = nil
	f := e.cloud()
	settle(t, e, f, nil)
	own := f.group(groupID(3))
	own.Rules = append(own.Rules, cloud.Rule{Direction: cloud.Ingress, Match: cloud.NewMatch(cloud.TCP, 5432, 5432), Peer: cloud.Peer{GroupID: groupID(1)}})
	e.History[0].Policies[0].Rules[0].Services[0] = serviceSpec{Protocol: "TCP", From: 8080, To: 8080, Type: -1}
	settle(t, e, f, nil)
	if admits(f, 0, "192.0.2.7", "", 80) || !admits(f, 0, "192.0.2.7", "", 8080) {
		t.Error("the edit is not in force")
	}
}

// A group that nobody needs any more makes way for another one in a region that is full.
func TestGroupMakesWayForAnother(t *testing.T) {
	e := crowdedEstate(1)
	e.History[0].Applied = [][]int{{0}, nil, nil}
	f := e.cloud()
	settle(t, e, f, nil)
	e.History[0].Applied = [][]int{nil, {1}, nil}
	if res := settle(t, e, f, nil); len(res.Refusals) > 0 || !admits(f, 1, "192.0.2.7", "", 81) || admits(f, 1, "192.0.2.7", "", 22) {
		t.Errorf("%+v", res.Refusals)
	}
}

// A policy whose peer needs a group to be referred to is refused where there is none, with the
// quota that would do.
func TestMemberWithoutRoomForGroups(t *testing.T) {
	e := small()
	e.Limits.GroupsPerRegion = len(e.Groups) + 1
	f := e.cloud()
	res := settle(t, e, f, nil)
	if len(res.Refusals) != 1 || res.Refusals[0].Lack == nil || res.Refusals[0].Lack.WouldDo != len(e.Groups)+2 {
		t.Errorf("%+v", res.Refusals)
	}
	e.Limits.GroupsPerRegion++
	f = e.cloud()
	res = settle(t, e, f, nil)
	if len(res.Refusals) > 0 || !admits(f, 0, "10.0.0.11", nicID(1), 80) || admits(f, 0, "10.0.0.12", nicID(2), 80) {
		t.Errorf("%+v", res.Refusals)
	}
}

// TestCrowdedWorlds plays the random accounts of TestWorlds in regions that have room for none to
// five groups of ours.
func TestCrowdedWorlds(t *testing.T) {
	t.Parallel()
	at := envInt("NEPHELE_PLAN_SEED", 1)
	st := checkWorlds(t, worldsOneIn(3), func(e *estate) {
		e.Crowded = true
		e.Limits.GroupsPerRegion = len(e.Groups) + at%6
		at++
	})
	if st.Phases > 100 && st.WithRefusals == 0 || st.Late*10 > st.Phases {
		t.Errorf("%+v", st)
	}
}

// A VM to which the policies of others come to apply joins their class, however full the region is,
// also if it takes several policies for that.
func TestJoinsWithoutRoomForGroups(t *testing.T) {
	e := crowdedEstate(1)
	set := &e.History[0]
	set.Policies = set.Policies[:2]
	set.Applied = [][]int{{0}, {0}}
	f := e.cloud()
	settle(t, e, f, nil)
	set.Applied = [][]int{{0, 1, 2}, {0, 1}}
	res := settle(t, e, f, nil)
	if len(res.Refusals) != 1 || res.Refusals[0].VM.ID != vmID(2) || res.Refusals[0].Policy.Name != "p0" {
		t.Errorf("%+v", res.Refusals)
	}
	for i, want := range []bool{true, true, false} {
		if got := admits(f, i, "192.0.2.7", "", 81); got != want {
			t.Errorf("VM %d admits its peer: %v", i, got)
		}
	}
}

// TestEnoughGroups checks that the quota that a refusal tells is enough, and the smallest one that
// is. Where a change needs more on the way, that is what is told then.
func TestEnoughGroups(t *testing.T) {
	refused := func(e *estate, quota int) (told int, onTheWay bool) {
		e.Limits.GroupsPerRegion = quota
		for _, r := range plan.Compute(e.input(e.History[0], e.cloud()), lower.AWS{}).Refusals {
			if r.Why.Is(reason.GroupsShort) {
				told = r.Lack.WouldDo
			}
			onTheWay = onTheWay || r.Why.Is(reason.OrderRegion)
		}
		return told, onTheWay
	}
	seed := envInt("NEPHELE_PLAN_SEED", 1)
	checked, onTheWay := 0, 0
	for at := seed; at < seed+150; at++ {
		e := randomEstate(rand.New(rand.NewPCG(uint64(at), 7)))
		e.Limits.RulesPerGroup = 200
		told, _ := refused(&e, len(e.Groups))
		if told == 0 {
			continue
		}
		checked++
		if less, _ := refused(&e, told-1); less == 0 {
			t.Errorf("seed %d: %d groups would be enough, not only %d", at, told-1, told)
		}
		more, passing := refused(&e, told)
		if more == 0 {
			continue
		}
		if onTheWay++; !passing {
			t.Errorf("seed %d: %d groups are not enough, %d are", at, told, more)
		}
		if rest, _ := refused(&e, more); rest > 0 {
			t.Errorf("seed %d: %d groups are not enough on the way", at, more)
		}
	}
	if checked < 30 || onTheWay > checked/5 {
		t.Errorf("%d checked, of which %d need more on the way", checked, onTheWay)
	}
}

// TestMoreClassesThanGroups: 2,600 VMs that are all treated differently need more groups than a
// region of AWS has by default. The VMs without a group are chosen once, whatever plan comes next.
func TestMoreClassesThanGroups(t *testing.T) {
	t.Parallel()
	in, f := ring(2600, 2600)
	settleBig(t, &in, f)
	f = &fakeCloud{snap: in.Regions[0].Snapshot, limits: f.limits}
	if n := len(f.snap.Groups); n > f.limits.GroupsPerRegion || n < f.limits.GroupsPerRegion-10 {
		t.Errorf("%d groups, want about as many as there may be: %d", n, f.limits.GroupsPerRegion)
	}
	res := plan.Compute(in, lower.AWS{})
	if len(res.Refusals) == 0 {
		t.Fatal("nothing is refused")
	}
	for _, r := range res.Refusals {
		if r.Lack == nil || r.Lack.Quota != reason.QuotaGroupsPerRegion || r.Lack.Available != 2500 {
			t.Fatalf("%+v", r)
		}
	}
}
