package plan_test

import (
	"reflect"
	"slices"
	"testing"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/aws/lower"
	"github.com/nephele-io/nephele/internal/cloud/plan"
	"github.com/nephele-io/nephele/internal/cloud/plan/reason"
)

func blocking(nics ...int) func(*plan.Input) {
	return func(in *plan.Input) {
		in.Blocked = map[plan.InterfaceKey]string{}
		for _, i := range nics {
			in.Blocked[plan.InterfaceKey{Region: testRegion, ID: nicID(i)}] = "no right"
		}
	}
}

// TestBlocked: an interface that the cloud refuses to change is left as it is, with the groups of
// ours that it holds, and its VM says why. Everybody else goes on, and it follows when it may.
func TestBlocked(t *testing.T) {
	e := small()
	e.History[0].Applied = [][]int{{0, 2}}
	f := e.cloud()
	native := f.clone()
	res := settle(t, e, f, blocking(0))
	if len(f.nic(nicID(0)).Tags) != 0 || !slices.Equal(f.nic(nicID(0)).GroupIDs, native.nic(nicID(0)).GroupIDs) {
		t.Errorf("it was changed: %+v", f.nic(nicID(0)))
	}
	if p := res.Policies[0]; len(p.Realized) != 1 || len(p.Failed) != 1 || !p.Failed[0].Why.Is(reason.CloudRefuses) {
		t.Errorf("%+v", p)
	}
	if p := res.Protection; numbers(p.Then) != "[2]" || numbers(p.Refused) != "[0]" {
		t.Errorf("%+v", p)
	}
	settle(t, e, f, nil)
	held, rules := slices.Clone(f.nic(nicID(0)).GroupIDs), slices.Clone(f.group(f.nic(nicID(0)).GroupIDs[0]).Rules)

	e.History[0].Policies[0].Rules[0].Services[0].From, e.History[0].Policies[0].Rules[0].Services[0].To = 443, 443
	settle(t, e, f, blocking(0))
	if !slices.Equal(f.nic(nicID(0)).GroupIDs, held) || !slices.Equal(f.group(held[0]).Rules, rules) || !admits(f, 2, "10.0.0.11", nicID(1), 443) {
		t.Errorf("it holds %v with %v, and held %v with %v", f.nic(nicID(0)).GroupIDs, f.group(held[0]).Rules, held, rules)
	}
	e.History[0] = policySet{}
	res = settle(t, e, f, blocking(0))
	if !slices.Equal(f.nic(nicID(0)).GroupIDs, held) || !slices.Equal(f.nic(nicID(2)).GroupIDs, native.nic(nicID(2)).GroupIDs) {
		t.Errorf("%v and %v", f.nic(nicID(0)).GroupIDs, f.nic(nicID(2)).GroupIDs)
	}
	if !slices.ContainsFunc(res.Notes, func(n plan.Note) bool { return n.Object == nicID(0) && n.Why.Is(reason.CloudRefuses) }) {
		t.Errorf("%+v", res.Notes)
	}
	if p := res.Protection; len(p.Released()) != 0 || numbers(p.Now) != "[0]" {
		t.Errorf("%+v", p)
	}
	settle(t, e, f, nil)
	if d := diffLeftOver(f, native); len(f.nic(nicID(0)).Tags) != 0 {
		t.Error(d)
	}
}

// TestBlockedGlass: glass that is broken is given back but for what the cloud refuses.
func TestBlockedGlass(t *testing.T) {
	e := small()
	e.History[0].Applied = [][]int{{0, 2}}
	f := e.cloud()
	settle(t, e, f, nil)
	in := e.input(e.History[0], f)
	both(modes(plan.BreakGlass, 0, 2), blocking(0))(&in)
	urgent, _ := plan.Compute(in, lower.AWS{}).Plan.Urgent()
	if len(urgent.Steps) != 1 || urgent.Steps[0].Op.Target != nicID(2) || urgent.Steps[0].Op.Kind != cloud.OpSetInterfaceGroups {
		t.Errorf("%+v", urgent.Steps)
	}
}

// naming is the estate of small, in which the own group of VM 0 lets in what VM 1 sends, and a
// policy on both closes one direction that this is not about.
func naming() *estate {
	e := small()
	e.Groups[1].Rules = append(e.Groups[1].Rules, cloud.Rule{Direction: cloud.Ingress, Match: cloud.NewMatch(cloud.TCP, 443, 443), Peer: cloud.Peer{GroupID: "#2"}})
	e.History[0].Applied = [][]int{{0, 1}}
	e.History[0].Policies[0].Rules = []ruleSpec{{Out: true, Action: "Allow", Blocks: []blockSpec{{CIDR: "10.0.0.0/8"}}}}
	return e
}

// TestServiceThatCannotBeRead: while nobody knows what a service has of its own, a VM whose own
// group names it stays as it is, and says so. When it can be read again, all goes on.
func TestServiceThatCannotBeRead(t *testing.T) {
	e := naming()
	f := e.cloud()
	native := f.clone()
	settle(t, e, f, nil)
	held, tags := slices.Clone(f.nic(nicID(0)).GroupIDs), f.nic(nicID(1)).Tags
	e.History[0] = policySet{}
	f.nic(nicID(1)).Managed, f.nic(nicID(1)).Tags = true, nil
	res := settle(t, e, f, nil)
	if !slices.Equal(f.nic(nicID(0)).GroupIDs, held) || !admits(f, 0, "10.0.0.11", nicID(1), 443) {
		t.Errorf("it holds %v, and held %v", f.nic(nicID(0)).GroupIDs, held)
	}
	if len(res.Refusals) != 2 || !res.Refusals[0].Kept || res.Refusals[0].VM.ID != vmID(0) || !res.Refusals[0].Why.Is(reason.StaysForUnread) {
		t.Errorf("%+v", res.Refusals)
	}
	f.nic(nicID(1)).Managed, f.nic(nicID(1)).Tags = false, tags
	settle(t, e, f, nil)
	if d := diffLeftOver(f, native); !reflect.DeepEqual(leftOver(f), leftOver(native)) {
		t.Error(d)
	}
}

// TestReleasedBesideBlocked: a VM that is released goes with another one that cannot be given back,
// and that its own group names; it says so.
func TestReleasedBesideBlocked(t *testing.T) {
	e := naming()
	f := e.cloud()
	native := f.clone()
	settle(t, e, f, nil)
	held := slices.Clone(f.nic(nicID(0)).GroupIDs)
	res := settle(t, e, f, both(modes(plan.Released, 0, 1), blocking(1)))
	if !slices.Equal(f.nic(nicID(0)).GroupIDs, held) || !admits(f, 0, "10.0.0.11", nicID(1), 443) {
		t.Errorf("it holds %v, and held %v", f.nic(nicID(0)).GroupIDs, held)
	}
	if !slices.ContainsFunc(res.Notes, func(n plan.Note) bool { return n.Object == nicID(0) && n.Why.Is(reason.StaysForBlocked) }) {
		t.Errorf("%+v", res.Notes)
	}
	settle(t, e, f, modes(plan.Released, 0, 1))
	if d := diffLeftOver(f, native); !reflect.DeepEqual(leftOver(f), leftOver(native)) {
		t.Error(d)
	}
}
