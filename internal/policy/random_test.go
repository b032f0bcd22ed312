package policy_test

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/nephele-io/nephele/internal/policy"
	"github.com/nephele-io/nephele/internal/policy/policytest"
)

var enforcers = []string{"h0", "h1", "h2"}

// TestRandomHistories holds the engine, after random histories of changes, against the oracle's computation from scratch,
// and what receivers of the deltas hold against the listing. rapid prints the seed and shrinks what fails.
func TestRandomHistories(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		draw := func(n int) int { return rapid.IntRange(0, n-1).Draw(t, "") }
		history(t, draw, 1+draw(60))
	})
}

// fataler is what a history needs of a test.
type fataler interface {
	Fatalf(format string, args ...any)
	Logf(format string, args ...any)
}

func history(t fataler, draw policytest.Draw, steps int) {
	e := policy.New(policy.Options{})
	w := policytest.NewWorld()
	replay := policytest.NewReplay(enforcers)
	var past []policytest.Object
	for step := range steps {
		o := draw.Object()
		if len(past) > 0 && draw(10) >= 7 {
			o = past[draw(len(past))]
			t.Logf("%d: delete %+v", step, o)
			w.Delete(o)
			policytest.Delete(e, o)
		} else {
			t.Logf("%d: put %+v", step, o)
			w.Put(o)
			policytest.Put(e, o)
			past = append(past, o)
		}
		if draw(3) == 0 || step == steps-1 {
			if err := replay.Apply(e.Commit()); err != nil {
				t.Fatalf("step %d: %v", step, err)
			}
			check(t, step, e, w, replay)
		}
	}
}

func check(t fataler, step int, e *policy.Engine, w *policytest.World, replay *policytest.Replay) {
	got, want := e.Listing(), policytest.Compute(w)
	options := []cmp.Option{cmpopts.EquateEmpty(), cmpopts.EquateComparable(netip.Addr{}, netip.Prefix{})}
	if diff := cmp.Diff(want, got, options...); diff != "" {
		t.Fatalf("step %d: listing (-oracle +engine):\n%s", step, diff)
	}
	if served, held := policytest.Serve(got, enforcers), replay.Dump(); served != held {
		t.Fatalf("step %d: receivers (-listing +held):\n%s", step, cmp.Diff(served, held))
	}
	if d := e.Commit(); !d.Empty() {
		t.Fatalf("step %d: a second Commit is not empty: %s", step, fmt.Sprintf("%+v", d))
	}
}
