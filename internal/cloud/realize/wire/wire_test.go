package wire

import (
	"testing"
	"time"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan"
)

// TestNeeds: what only opens goes beside what only opens, and what only closes beside its like; a
// move waits for the rules of its group, and nobody else waits for a new group.
func TestNeeds(t *testing.T) {
	of := func(k cloud.OpKind) effect { return effectOf(plan.Step{Op: cloud.Op{Kind: k}}) }
	all := []cloud.OpKind{
		cloud.OpCreateGroup, cloud.OpAddRules, cloud.OpRemoveRules, cloud.OpReplaceRules, cloud.OpSetRules, cloud.OpSetInterfaceGroups, cloud.OpTag,
		cloud.OpUntag, cloud.OpDeleteGroup,
	}
	together := map[[2]cloud.OpKind]bool{
		{cloud.OpAddRules, cloud.OpAddRules}: true, {cloud.OpRemoveRules, cloud.OpRemoveRules}: true,
		{cloud.OpDeleteGroup, cloud.OpDeleteGroup}: true, {cloud.OpRemoveRules, cloud.OpDeleteGroup}: true, {cloud.OpDeleteGroup, cloud.OpRemoveRules}: true,
	}
	for _, first := range all {
		for _, then := range all {
			free := together[[2]cloud.OpKind{first, then}]
			for _, k := range []cloud.OpKind{first, then} {
				free = free || k == cloud.OpTag || k == cloud.OpUntag
			}
			free = free || then == cloud.OpCreateGroup || first == cloud.OpCreateGroup && then != cloud.OpSetInterfaceGroups
			if got := of(then).needs(of(first)); got == free {
				t.Errorf("%s after %s waits: %v", then, first, got)
			}
		}
	}
}

// TestWire plays plans of one part: what waits, and for how long.
func TestWire(t *testing.T) {
	const p = 10 * time.Second
	start := time.Date(2026, 11, 28, 0, 0, 0, 0, time.UTC)
	step := func(stage int, k cloud.OpKind, target string) plan.Step {
		return plan.Step{Stage: stage, Op: cloud.Op{Kind: k, Target: target}}
	}
	type event struct {
		at      time.Duration
		begin   bool // a plan begins
		step    plan.Step
		waits   time.Duration
		accepts bool
	}
	for _, c := range []struct {
		name   string
		events []event
	}{
		{"the first plan does not know what was done before", []event{
			{at: 0, begin: true},
			{at: 2 * time.Second, step: step(0, cloud.OpAddRules, "a"), waits: 8 * time.Second},
			{at: p, step: step(0, cloud.OpAddRules, "a")},
		}},
		{"a take-over waits once: for the rules", []event{
			{at: p, step: step(0, cloud.OpTag, "vpc"), accepts: true},
			{at: p, step: step(1, cloud.OpCreateGroup, ""), accepts: true},
			{at: p + 1, step: step(2, cloud.OpAddRules, "a"), accepts: true},
			{at: p + 2, step: step(2, cloud.OpAddRules, "b"), accepts: true},
			{at: p + 3, step: step(3, cloud.OpSetInterfaceGroups, "nic"), waits: p - 1},
			{at: 2*p + 2, step: step(3, cloud.OpSetInterfaceGroups, "nic"), accepts: true},
			{at: 2*p + 3, step: step(3, cloud.OpSetInterfaceGroups, "nic2"), accepts: true},
			{at: 2*p + 4, step: step(4, cloud.OpTag, "vpc")},
		}},
		{"one subject within a stage waits for itself, and the next plan for all", []event{
			{at: p, step: step(0, cloud.OpAddRules, "a"), accepts: true},
			{at: p + 1, step: step(0, cloud.OpRemoveRules, "b"), accepts: true},
			{at: p + 2, step: step(0, cloud.OpRemoveRules, "a"), waits: p - 2},
			{at: p + 3, begin: true},
			{at: p + 3, step: step(0, cloud.OpAddRules, "c"), waits: p - 2},
			{at: 2*p + 1, step: step(0, cloud.OpAddRules, "c")},
		}},
	} {
		wires := Wires[string]{}
		w := wires.Begin("part", start, p)
		for i, e := range c.events {
			now := start.Add(e.at)
			if e.begin {
				w = wires.Begin("part", now, p)
				continue
			}
			if got := w.Wait(e.step, now); got != e.waits {
				t.Errorf("%s: event %d waits %s, want %s", c.name, i, got, e.waits)
			}
			if e.accepts {
				w.Accept(e.step, now)
			}
		}
	}
	w := Wires[string]{}.Begin("part", start, 0)
	w.Accept(step(0, cloud.OpRemoveRules, "a"), start)
	if got := w.Wait(step(1, cloud.OpAddRules, "a"), start); got != 0 {
		t.Errorf("without a propagation a step waits %s", got)
	}
}
