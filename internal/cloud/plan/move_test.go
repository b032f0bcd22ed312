package plan_test

import (
	"slices"
	"testing"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/aws/lower"
	"github.com/nephele-io/nephele/internal/cloud/plan"
)

// Interfaces with the same former groups are tagged together when they are taken over, and untagged
// together when they are given back; each in an earlier stage than its edit, or a later one, but
// not much: no more than two batches of edits lie between.
func TestTagsAreWrittenTogether(t *testing.T) {
	const vms, batch = 1000, 50
	in, f := bigInput(vms, byRole)
	taken := plan.Compute(in, lower.AWS{}).Plan
	checkTags(t, taken.Steps, cloud.OpTag, vms, batch)
	settleBig(t, &in, f)
	in.Policies = nil
	given := plan.Compute(in, lower.AWS{}).Plan
	checkTags(t, given.Steps, cloud.OpUntag, vms, batch)
	settleBig(t, &in, &fakeCloud{snap: in.Regions[0].Snapshot, limits: f.limits})
	for _, n := range in.Regions[0].Snapshot.Interfaces {
		if len(n.Tags) > 0 {
			t.Fatalf("%s keeps the tags %v", n.ID, n.Tags)
		}
	}
}

func checkTags(t *testing.T, steps []plan.Step, kind cloud.OpKind, vms, batch int) {
	t.Helper()
	type moment struct{ stage, edits int }
	tagged, edited := map[string]moment{}, map[string]moment{}
	calls, edits := 0, 0
	for _, s := range steps {
		at := moment{s.Stage, edits}
		switch {
		case s.Op.Kind == cloud.OpSetInterfaceGroups:
			edited[s.Op.Target] = at
			edits++
		case s.Op.Kind == kind && s.Op.Target != s.Network:
			calls++
			if n := len(s.Op.Subjects()); n > batch {
				t.Errorf("%d interfaces in one call", n)
			}
			for _, id := range s.Op.Subjects() {
				tagged[id] = at
			}
		}
	}
	if len(tagged) != vms || len(edited) != vms || calls > vms/batch {
		t.Errorf("%d tagged in %d calls, %d edited", len(tagged), calls, len(edited))
	}
	for id, e := range edited {
		first, then := tagged[id], e
		if kind == cloud.OpUntag {
			first, then = e, tagged[id]
		}
		if first.stage >= then.stage || then.edits-first.edits > 2*batch {
			t.Fatalf("%s: %+v before %+v", id, first, then)
		}
	}
}

// A wave tags those interfaces only that it edits.
func TestWaveTagsWhatItEdits(t *testing.T) {
	in, f := bigInput(200, byRole)
	for waves := 0; ; waves++ {
		p := plan.Compute(in, lower.AWS{}).Plan
		if p.Empty() {
			if waves > 25 {
				t.Errorf("%d waves of 10 for 200 VMs", waves)
			}
			return
		}
		wave, _ := p.Wave(10, func(_, nic string) string { return nic })
		f = f.clone()
		var tagged, edited []string
		for _, s := range wave.Steps {
			switch s.Op.Kind {
			case cloud.OpTag:
				if s.Op.Target != s.Network {
					tagged = append(tagged, s.Op.Subjects()...)
				}
			case cloud.OpSetInterfaceGroups:
				edited = append(edited, s.Op.Target)
			}
			if err := f.apply(s.Network, s.Op); err != nil {
				t.Fatal(err)
			}
		}
		slices.Sort(tagged)
		slices.Sort(edited)
		if !slices.Equal(tagged, edited) || len(edited) > 10 {
			t.Fatalf("wave %d tags %v and edits %v", waves, tagged, edited)
		}
		in.Regions[0].Snapshot = f.snap
	}
}
