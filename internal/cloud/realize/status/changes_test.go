package status

import (
	"errors"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan"
)

// TestChangesAreTold: one event tells what a plan has changed when it is through, and what comes
// soon after is told together, later.
func TestChangesAreTold(t *testing.T) {
	t.Parallel()
	d := newDesk(t, interceptor.Funcs{})
	changed := func(calls int64, under bool) Report {
		r := reportOf(nil, nil)
		r.Entities = nil // what the test looks at is not the VM
		r.Changes = Changes{Calls: calls, Done: map[cloud.OpKind]int{cloud.OpTag: int(calls)}}
		if under {
			r.Result.Plan.Steps = []plan.Step{{Op: cloud.Op{Kind: cloud.OpTag, Target: "eni-1"}}}
		}
		return r
	}
	for _, c := range []struct {
		name string
		r    Report
		want []string
	}{
		{"nothing", changed(0, false), nil},
		{"under way", changed(1, true), nil},
		{"through", changed(2, false), []string{"Normal Changed 3 calls to the cloud: 3 objects tagged"}},
		{"soon after", changed(3, false), nil},
		{"and once more", changed(4, false), nil},
	} {
		d.write(c.r)
		if diff := gocmp.Diff(c.want, d.events()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
	d.clock.Step(changesPause)
	var got []string
	if !eventually(func() bool { got = append(got, d.events()...); return len(got) > 0 }) {
		t.Fatal("what came later is not told")
	}
	if diff := gocmp.Diff([]string{"Normal Changed 7 calls to the cloud: 7 objects tagged"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	failing := changed(5, true)
	failing.Err = errors.New("AuthFailure")
	d.clock.Step(changesPause)
	d.write(failing)
	if got := d.events(); !slices.Contains(got, "Normal Changed 5 calls to the cloud: 5 objects tagged") {
		t.Errorf("of a plan that broke off: %q", got)
	}
}
