package plan_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/aws/lower"
	"github.com/nephele-io/nephele/internal/cloud/plan"
)

// marks are the values of the tags of the first network that identify policies in force.
func (f *fakeCloud) marks() (out []string) {
	for k, v := range f.snap.Networks[0].Tags {
		if strings.HasPrefix(k, cloud.TagRevision) {
			out = append(out, v)
		}
	}
	slices.Sort(out)
	return out
}

// TestMark: the policies in force are named when they are, stay so while labels change, are not
// named while policies change, and are forgotten with the last of them.
func TestMark(t *testing.T) {
	e := small()
	f := e.cloud()
	native := f.clone()
	settle(t, e, f, nil)
	first := f.marks()
	if len(first) != 1 {
		t.Fatalf("marks %v", first)
	}
	tags := func() (ops []cloud.Op, all int) {
		steps := plan.Compute(e.input(e.History[0], f.clone()), lower.AWS{}).Plan.Steps
		for _, s := range steps {
			if s.Op.Target == s.Network {
				ops = append(ops, s.Op)
			}
		}
		return ops, len(steps)
	}
	e.History[0].Address[0] = []int{1, 2} // one more peer
	if ops, all := tags(); len(ops) != 0 || all == 0 {
		t.Errorf("labels change: %v of %d steps", ops, all)
	}
	settle(t, e, f, nil)
	if got := f.marks(); !slices.Equal(got, first) {
		t.Errorf("after labels have changed: %v, before %v", got, first)
	}
	port := &e.History[0].Policies[0].Rules[0].Services[0]
	port.From, port.To = 443, 443
	steps := plan.Compute(e.input(e.History[0], f.clone()), lower.AWS{}).Plan.Steps
	if ops, _ := tags(); len(ops) != 2 || ops[0].Kind != cloud.OpUntag || ops[1].Kind != cloud.OpTag ||
		steps[0].Op.Kind != cloud.OpUntag || steps[len(steps)-1].Op.Kind != cloud.OpTag {
		t.Errorf("a policy changes: %v", steps)
	}
	settle(t, e, f, nil)
	if got := f.marks(); len(got) != 1 || got[0] == first[0] {
		t.Errorf("after a policy has changed: %v, before %v", got, first)
	}
	settle(t, e, f, func(in *plan.Input) { in.Policies = nil })
	if d := diffLeftOver(f, native); len(f.marks()) != 0 || len(f.snap.Networks[0].Tags) != 0 {
		t.Errorf("tags %v, %v", f.snap.Networks[0].Tags, d)
	}
}

// TestForgedMark: whatever somebody else writes in the place of the mark, or takes away, the plan
// that changes a policy ends where it would have ended, with the right mark.
func TestForgedMark(t *testing.T) {
	changed := func(forge func(tags map[string]string, key string)) (marks []string, left string) {
		e := small()
		f := e.cloud()
		settle(t, e, f, nil)
		if len(f.marks()) != 1 {
			t.Fatalf("marks %v", f.marks())
		}
		tags := f.snap.Networks[0].Tags
		for key := range tags {
			if strings.HasPrefix(key, cloud.TagRevision) {
				forge(tags, key)
			}
		}
		port := &e.History[0].Policies[0].Rules[0].Services[0]
		port.From, port.To = 443, 443
		settle(t, e, f, nil)
		return f.marks(), fmt.Sprintf("%+v", leftOver(f))
	}
	marks, left := changed(func(map[string]string, string) {})
	for what, forge := range map[string]func(tags map[string]string, key string){
		"garbage":            func(tags map[string]string, key string) { tags[key] = "\x00 no hash" },
		"empty":              func(tags map[string]string, key string) { tags[key] = "" },
		"that of what comes": func(tags map[string]string, key string) { tags[key] = marks[0] },
		"taken away":         func(tags map[string]string, key string) { delete(tags, key) },
		"long":               func(tags map[string]string, key string) { tags[key] = strings.Repeat("x", 256) },
	} {
		if got, is := changed(forge); !slices.Equal(got, marks) || is != left {
			t.Errorf("%s: marks %v, want %v\n%s\nwant %s", what, got, marks, is, left)
		}
	}
}

// TestMarksOfTwoAccounts: two accounts of one cluster that see the same network do not disturb one
// another.
func TestMarksOfTwoAccounts(t *testing.T) {
	e := small()
	f := e.cloud()
	other := func(in *plan.Input) {
		in.Account, in.Entities = "vms/other", map[plan.EntityRef]plan.VMRef{
			{Namespace: "vms", Name: vmID(2)}: {Region: testRegion, ID: vmID(2)}}
	}
	one := func(in *plan.Input) { delete(in.Entities, plan.EntityRef{Namespace: "vms", Name: vmID(2)}) }
	e.History[0].Applied = [][]int{{0, 2}}
	settle(t, e, f, one)
	settle(t, e, f, other)
	if got := f.marks(); len(got) != 2 {
		t.Fatalf("marks %v", got)
	}
	in := e.input(e.History[0], f.clone())
	one(&in)
	if p := plan.Compute(in, lower.AWS{}).Plan; !p.Empty() {
		t.Errorf("the first one plans %v", p.Steps)
	}
	settle(t, e, f, func(in *plan.Input) { other(in); in.Policies = nil })
	if got := f.marks(); len(got) != 1 || f.snap.Networks[0].Tags[cloud.TagClaim] == "" {
		t.Errorf("tags after one of them is gone: %v", f.snap.Networks[0].Tags)
	}
}

// TestUnmarked: where the mark cannot be written everything else goes on, and nothing is planned
// for it.
func TestUnmarked(t *testing.T) {
	e := small()
	f := e.cloud()
	unmarked := func(in *plan.Input) {
		in.Unmarked = map[plan.NetworkKey]bool{}
		for _, n := range in.Regions[0].Snapshot.Networks {
			in.Unmarked[plan.NetworkKey{Region: testRegion, ID: n.ID}] = true
		}
	}
	res := settle(t, e, f, unmarked)
	if len(f.marks()) != 0 || len(res.Policies[0].Realized) != 1 {
		t.Errorf("marks %v, %+v", f.marks(), res.Policies[0])
	}
}
