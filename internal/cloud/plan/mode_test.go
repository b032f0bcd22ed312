package plan_test

import (
	"encoding/json"
	"os"
	"reflect"
	"slices"
	"testing"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/aws/lower"
	"github.com/nephele-io/nephele/internal/cloud/plan"
	"github.com/nephele-io/nephele/internal/cloud/plan/reason"
)

func modes(m plan.Mode, vms ...int) func(*plan.Input) {
	return func(in *plan.Input) {
		in.Modes = map[plan.VMRef]plan.Mode{}
		for _, i := range vms {
			in.Modes[plan.VMRef{Region: in.Regions[0].Snapshot.Region, ID: vmID(i)}] = m
		}
	}
}

// TestPlannedFromTheStart: a planned VM is not touched, says so, and is a peer by its address; what
// it is spared can be computed.
func TestPlannedFromTheStart(t *testing.T) {
	e := small()
	f := e.cloud()
	before := f.clone()
	res := settle(t, e, f, modes(plan.Planned, 0))
	if !reflect.DeepEqual(before.snap, f.snap) {
		t.Error("something was changed")
	}
	if p := res.Policies[0]; len(p.Suspended) != 1 || len(p.Failed)+len(p.Pending)+len(p.Realized) != 0 || len(res.Refusals) != 0 {
		t.Errorf("%+v, refusals %v", p, res.Refusals)
	}
	if vm := res.VMs[0]; vm.Mode != plan.Planned || vm.Policies[0].Realized || vm.Policies[0].Message != "" {
		t.Errorf("%+v", vm)
	}
	in := e.input(e.History[0], f)
	modes(plan.Planned, 0)(&in)
	if sum := plan.Compute(in.WithoutPlanned(), lower.AWS{}).Plan.Summary(); sum.Interfaces != 2 {
		t.Errorf("enforced it would be %+v", sum)
	}
	res = settle(t, e, f, modes(plan.Planned, 1))
	if !admits(f, 0, "10.0.0.11", nicID(1), 80) || admits(f, 0, "10.0.0.12", nicID(2), 80) || len(f.nic(nicID(1)).GroupIDs) != 1 {
		t.Errorf("the planned peer is not admitted by its address: %+v", res.Policies)
	}
}

// TestHeldStays: a VM that is under control when it becomes planned stays exactly as it is, while
// everything around it changes.
func TestHeldStays(t *testing.T) {
	e := small()
	f := e.cloud()
	native := f.clone()
	settle(t, e, f, nil)
	nic := f.nic(nicID(0))
	held, group := slices.Clone(nic.GroupIDs), *f.group(nic.GroupIDs[0])
	rules := slices.Clone(group.Rules)
	e.History[0].Policies[0].Rules[0].Services[0].From, e.History[0].Policies[0].Rules[0].Services[0].To = 443, 443
	settle(t, e, f, modes(plan.Planned, 0))
	e.History[0] = policySet{}
	settle(t, e, f, modes(plan.Planned, 0))
	if !slices.Equal(f.nic(nicID(0)).GroupIDs, held) || !reflect.DeepEqual(f.group(group.ID).Rules, rules) {
		t.Errorf("it holds %v with %v, and held %v with %v", f.nic(nicID(0)).GroupIDs, f.group(group.ID).Rules, held, rules)
	}
	settle(t, e, f, nil)
	if !reflect.DeepEqual(leftOver(f), leftOver(native)) {
		t.Errorf("not given back: %s", diffLeftOver(f, native))
	}
}

// TestReleasedModes: what is released holds nothing of ours, not even as a peer, and comes back.
func TestReleasedModes(t *testing.T) {
	for _, m := range []plan.Mode{plan.Released, plan.BreakGlass} {
		e := small()
		f := e.cloud()
		native := f.clone()
		settle(t, e, f, nil)
		guarded := f.clone()
		res := settle(t, e, f, modes(m, 0, 1))
		if !reflect.DeepEqual(leftOver(f), leftOver(native)) {
			t.Errorf("%s: not given back: %s", m, diffLeftOver(f, native))
		}
		if len(res.Refusals) != 0 || res.VMs[0].Mode != m || len(res.VMs[0].Policies) != 1 {
			t.Errorf("%s: %+v, refusals %v", m, res.VMs[0], res.Refusals)
		}
		settle(t, e, f, nil)
		if got := f.nic(nicID(0)); len(got.GroupIDs) != len(guarded.nic(nicID(0)).GroupIDs) || got.Tags[cloud.TagFormer] == "" {
			t.Errorf("%s: not taken over again: %+v", m, got)
		}
	}
}

// TestGivenBackBesidePlanned: a VM that is given back, because it is released or because no policy
// applies to it any more, does not wait for ever for a planned one whose rules name its group. The
// plan says that it does not wait. Its two interfaces miss each other unless they move by a detour.
func TestGivenBackBesidePlanned(t *testing.T) {
	text, err := os.ReadFile("testdata/worlds/3300149-released-beside-planned.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range []plan.Mode{plan.Released, plan.Enforce} {
		e := &estate{}
		if err := json.Unmarshal(text, e); err != nil {
			t.Fatal(err)
		}
		f := e.cloud()
		settle(t, e, f, nil)
		own := cloud.Rule{Direction: cloud.Ingress, Match: cloud.NewMatch(cloud.ICMPv6, 128, -1), Peer: cloud.Peer{GroupID: groupID(0)}}
		if err := e.editNative(f, 0, append(slices.Clone(e.Groups[0].Rules), own)); err != nil {
			t.Fatal(err)
		}
		e.History[0] = e.History[1]
		noted := false
		settle(t, e, f, func(in *plan.Input) {
			modes(plan.Planned, 1, 2)(in)
			in.Modes[plan.VMRef{Region: in.Regions[0].Snapshot.Region, ID: vmID(0)}] = m
			notes := plan.Compute(*in, lower.AWS{}).Notes
			noted = noted || slices.ContainsFunc(notes, func(n plan.Note) bool { return n.Object == nicID(0) && n.Why.Is(reason.NotWaiting) })
		})
		if got := f.nic(nicID(0)).GroupIDs; !slices.Equal(got, []string{groupID(0)}) || !noted {
			t.Errorf("mode %q: it holds %v; said: %v", m, got, noted)
		}
	}
}
