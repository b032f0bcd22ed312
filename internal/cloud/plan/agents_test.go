package plan_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan"
)

// leave leaves VM 0 to its agent, with everything let in in these directions.
func leave(ingress, egress bool) func(*plan.Input) {
	return func(in *plan.Input) {
		in.Agents = map[plan.VMRef][2]bool{{Region: in.Regions[0].Snapshot.Region, ID: vmID(0)}: {ingress, egress}}
	}
}

// TestLeftToAgent: of a VM that is left to its agent the cloud lets in everything where a policy
// isolates, if it may, and has the former groups decide where none does. It can hold every policy,
// and the VM comes back.
func TestLeftToAgent(t *testing.T) {
	e := small()
	f := e.cloud()
	settle(t, e, f, nil)
	guarded := f.clone()
	if admits(f, 0, "203.0.113.7", "", 22) {
		t.Fatal("the policy admits too much for this test")
	}
	res := settle(t, e, f, leave(true, false))
	if !admits(f, 0, "203.0.113.7", "", 22) || !admits(f, 0, "10.0.0.12", nicID(2), 9999) {
		t.Errorf("not everything is let in: %v", f.group(f.nic(nicID(0)).GroupIDs[0]).Rules)
	}
	if p := res.Policies[0]; len(p.Realized) != 1 || len(res.Refusals) != 0 {
		t.Errorf("%+v, refusals %v", p, res.Refusals)
	}
	rules := 0
	for _, g := range f.nic(nicID(0)).GroupIDs {
		rules += len(slices.DeleteFunc(slices.Clone(f.group(g).Rules), func(r cloud.Rule) bool { return r.Direction != cloud.Ingress }))
	}
	if rules > 2 {
		t.Errorf("it takes %d rules", rules)
	}
	// An agent that does not isolate yet: the former groups.
	settle(t, e, f, leave(false, false))
	if !admits(f, 0, "203.0.113.7", "", 22) || admits(f, 0, "10.0.0.12", nicID(2), 9999) {
		t.Error("the former groups do not decide")
	}
	// A policy that groups cannot hold is no business of theirs.
	e.History[0].Policies[0].Rules[0].Services[0].Name = "nobody-has-this-port"
	res = settle(t, e, f, leave(true, false))
	if len(res.Refusals) != 0 || len(res.Policies[0].Realized) != 1 {
		t.Errorf("%+v, refusals %v", res.Policies[0], res.Refusals)
	}
	e = small()
	settle(t, e, f, nil)
	if got, want := f.nic(nicID(0)).GroupIDs, guarded.nic(nicID(0)).GroupIDs; len(got) != len(want) || admits(f, 0, "203.0.113.7", "", 22) {
		t.Errorf("it does not guard again: %v, %v", got, want)
	}
	before := guarded.group(guarded.nic(nicID(0)).GroupIDs[0]).Rules
	if after := f.group(f.nic(nicID(0)).GroupIDs[0]).Rules; len(after) != len(before) {
		t.Errorf("%v, was %v", after, before)
	}
}

// TestAgentWorlds plays random histories of policies and of VMs that are handed to agents and back.
// Every flow stays between what was allowed and what shall be, at every operation.
func TestAgentWorlds(t *testing.T) {
	t.Parallel()
	next := uint64(envInt("NEPHELE_PLAN_SEED", 1))
	checkWorlds(t, worldsOneIn(4), func(e *estate) {
		e.Limits.RulesPerGroup = 200
		e.randomAgents(rand.New(rand.NewPCG(next, 29)))
		next++
	})
}

// randomAgents adds a policy set and hands VMs to agents in all of them.
func (e *estate) randomAgents(r *rand.Rand) {
	e.History = append(e.History, e.History[0].clone())
	for i := range e.History {
		e.History[i].Agents = map[int][2]bool{}
		for vm := range e.VMs {
			if r.IntN(2) == 0 {
				e.History[i].Agents[vm] = [2]bool{r.IntN(3) > 0, r.IntN(3) > 0}
			}
		}
	}
}

// TestLeftToAgentWithoutInterface: of a VM whose interfaces are not seen its agent is believed, and
// then nothing is said to be missing.
func TestLeftToAgentWithoutInterface(t *testing.T) {
	e := small()
	f := e.cloud()
	f.snap.Interfaces = slices.DeleteFunc(f.snap.Interfaces, func(n cloud.Interface) bool { return n.VMID == vmID(0) })
	for name, c := range map[string]struct {
		adjust   func(*plan.Input)
		realized bool
	}{
		"the cloud enforces": {func(*plan.Input) {}, false},
		"its agent does":     {leave(true, true), true},
	} {
		in := e.input(e.History[0], f.clone())
		c.adjust(&in)
		res := plan.Compute(in, e.lowerer())
		i := slices.IndexFunc(res.VMs, func(v plan.VMStatus) bool { return v.VM.ID == vmID(0) })
		if i < 0 {
			t.Fatalf("%s: the VM is not told of", name)
		}
		if on := res.VMs[i].Policies[0]; on.Realized != c.realized || (on.Why == nil) != c.realized {
			t.Errorf("%s: realized %v, and why not: %v", name, on.Realized, on.Why)
		}
	}
}
