package plan_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"

	"testing"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/aws/lower"
	"github.com/nephele-io/nephele/internal/cloud/plan"
)

func modes(m plan.Mode, vms ...int) func(*plan.Input) {
	return func(in *plan.Input) {
		in.Modes = map[plan.VMRef]plan.Mode{}
		for _, i := range vms {
			in.Modes[plan.VMRef{Region: in.Regions[0].Snapshot.Region, ID: vmID(i)}] = m
		}
	}
}

// TestPlannedFromTheStart: a planned VM is not touched, says so, and is a peer by its address; what it is spared can be computed.
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

// TestHeldStays: a VM that is under control when it becomes planned stays exactly as it is, while everything around it changes.
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

// TestModeWorlds plays random histories of policies and modes. No operation touches what a planned VM holds, what is released has
// exactly its own groups back, and when all is over nothing of ours is left.
func TestModeWorlds(t *testing.T) {
	worlds, seed := envInt("NEPHELE_PLAN_WORLDS", defaultWorlds)/4, envInt("NEPHELE_PLAN_SEED", 1)
	ops := 0
	for i := range worlds {
		at := uint64(seed + i)
		e := randomEstate(rand.New(rand.NewPCG(at, 7)))
		if err := checkModes(&e, rand.New(rand.NewPCG(at, 21)), &ops); err != nil {
			t.Fatalf("seed %d: %v", at, err)
		}
	}
	t.Logf("seeds %d..%d: %d operations", seed, seed+worlds-1, ops)
}

func checkModes(e *estate, r *rand.Rand, ops *int) error {
	f := e.cloud()
	before := f.clone()
	chosen := map[plan.VMRef]plan.Mode{}
	for i, set := range append(slices.Clone(e.History), e.History[0], policySet{}) {
		for k := range e.VMs {
			ref := plan.VMRef{Region: f.snap.Region, ID: vmID(k)}
			switch {
			case i > len(e.History):
				delete(chosen, ref)
			case r.IntN(2) == 0:
				chosen[ref] = []plan.Mode{plan.Enforce, plan.Planned, plan.Released, plan.BreakGlass}[r.IntN(4)]
			}
		}
		if err := e.playModes(f, set, chosen, before, ops); err != nil {
			return fmt.Errorf("policy set %d with modes %v: %w", i, chosen, err)
		}
	}
	if !reflect.DeepEqual(leftOver(f), leftOver(before)) {
		return fmt.Errorf("not everything was given back: %v", diffLeftOver(f, before))
	}
	return nil
}

// playModes brings the estate to an empty plan.
func (e *estate) playModes(f *fakeCloud, set policySet, chosen map[plan.VMRef]plan.Mode, before *fakeCloud, ops *int) error {
	sacred, native := map[string]bool{}, map[string][]string{}
	mode := func(n *cloud.Interface) plan.Mode { return chosen[plan.VMRef{Region: f.snap.Region, ID: n.VMID}] }
	for i := range f.snap.Interfaces {
		n := &f.snap.Interfaces[i]
		if vm := slices.IndexFunc(f.snap.VMs, func(v cloud.VM) bool { return v.ID == n.VMID }); vm < 0 || !e.VMs[vm].Selected {
			continue
		}
		switch mode(n) {
		case plan.Planned:
			sacred[n.ID] = true
			for _, g := range n.GroupIDs {
				sacred[g] = true
			}
		case plan.Released, plan.BreakGlass:
			native[n.ID] = before.nic(n.ID).GroupIDs
		}
	}
	for range 20 {
		in := e.input(set, f.clone())
		in.Modes = chosen
		res := plan.Compute(in, lower.AWS{})
		if res.Plan.Empty() {
			for id, groups := range native {
				if n := f.nic(id); !n.Managed && !slices.Equal(n.GroupIDs, groups) {
					return fmt.Errorf("the released interface %s holds %v, not %v; notes %v", id, n.GroupIDs, groups, res.Notes)
				}
			}
			return nil
		}
		for _, s := range res.Plan.Steps {
			*ops++
			if sacred[s.Op.Target] {
				return fmt.Errorf("touches what a planned VM holds: %s", s.Op)
			}
			if err := f.apply(s.Network, s.Op); err != nil {
				return fmt.Errorf("%s: %w", s.Op, err)
			}
		}
	}
	return errors.New("no end")
}
