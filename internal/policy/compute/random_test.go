package compute_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/nephele-io/nephele/internal/policy"
	"github.com/nephele-io/nephele/internal/policy/compute"
	"github.com/nephele-io/nephele/internal/policy/policytest"
)

// histories is the number of long histories to try; raise it for a soak.
var histories = flag.Uint64("histories", 3, "number of long random histories")

var enforcers = []string{"h0", "h1", "h2"}

// TestRandomHistories holds the engine, after random histories of changes, against the oracle's
// computation from scratch, and what receivers of the deltas hold against the listing. rapid prints
// the seed and shrinks what fails.
func TestRandomHistories(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		// One draw for the whole history: a tape of numbers, zero beyond its end.
		tape := rapid.SliceOfN(rapid.Uint16(), 600, 1500).Draw(t, "tape")
		steps := rapid.IntRange(1, 60).Draw(t, "steps")
		at := 0
		history(t, func(n int) int {
			at++
			if at > len(tape) {
				return 0
			}
			return int(tape[at-1]) % n
		}, steps)
	})
}

// fataler is what a history needs of a test.
type fataler interface {
	Fatalf(format string, args ...any)
	Logf(format string, args ...any)
}

func history(t fataler, draw policytest.Draw, steps int) {
	e := compute.New(compute.Options{})
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

func check(t fataler, step int, e *compute.Engine, w *policytest.World, replay *policytest.Replay) {
	got, want := e.Listing(), policytest.Compute(w)
	options := []cmp.Option{cmpopts.EquateEmpty(), cmpopts.EquateComparable(netip.Addr{}, netip.Prefix{})}
	if diff := cmp.Diff(want, narrowed(got), options...); diff != "" {
		t.Fatalf("step %d: listing (-oracle +engine):\n%s", step, diff)
	}
	if served, held := policytest.Serve(got, enforcers), replay.Dump(); served != held {
		t.Fatalf("step %d: receivers (-listing +held):\n%s", step, cmp.Diff(served, held))
	}
	if d := e.Commit(); !d.Empty() {
		t.Fatalf("step %d: a second Commit is not empty: %s", step, fmt.Sprintf("%+v", d))
	}
}

// narrowed is a listing with the members as what they are in each group.
func narrowed(l *policy.Listing) *policy.Listing {
	as := func(groups []policy.ComputedGroup) []policy.ComputedGroup {
		out := slices.Clone(groups)
		for i, g := range out {
			out[i].Members, out[i].Within = nil, nil // see TestGroupsAreWithin
			for _, m := range g.Members {
				is := m.As(g.Role)
				out[i].Members = append(out[i].Members, &is)
			}
		}
		return out
	}
	return &policy.Listing{Policies: l.Policies, AddressGroups: as(l.AddressGroups), AppliedToGroups: as(l.AppliedToGroups)}
}

// TestLongHistories does the same over long histories, in which what one step leaves behind has
// time to do harm.
func TestLongHistories(t *testing.T) {
	for seed := range *histories {
		r := rand.New(rand.NewPCG(seed, 7))
		t.Run(fmt.Sprintf("seed%d", seed), func(t *testing.T) {
			history(&quiet{T: t}, r.IntN, 600)
		})
	}
}

// quiet keeps the last log lines back until something fails.
type quiet struct {
	*testing.T
	lines []string
}

func (q *quiet) Logf(format string, args ...any) {
	q.lines = append(q.lines, fmt.Sprintf(format, args...))
}

func (q *quiet) Fatalf(format string, args ...any) {
	q.T.Helper()
	q.T.Log(strings.Join(q.lines[max(0, len(q.lines)-20):], "\n"))
	q.T.Fatalf(format, args...)
}
