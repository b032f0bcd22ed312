package plan_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/nephele-io/nephele/internal/cloud/aws/lower"
	"github.com/nephele-io/nephele/internal/cloud/plan"
)

// numbers says which interfaces of an estate are in a list.
func numbers(refs []plan.InterfaceRef) string {
	out := []int{}
	for _, r := range refs {
		for i := range nicIDs {
			if nicIDs[i] == r.ID {
				out = append(out, i)
			}
		}
	}
	return fmt.Sprint(out)
}

// TestNoProtectionKnown: where nothing is planned because it takes too much work, nothing is said.
func TestNoProtectionKnown(t *testing.T) {
	e := small()
	if p := plan.ComputeWithin(e.input(e.History[0], e.cloud()), lower.AWS{}, 1).Protection; p != nil {
		t.Errorf("%+v", p)
	}
}

// TestProtectionWorlds: in random histories, what will be guarded is the same in all rounds of a
// change, and in the end that is what is guarded. So a confirmation holds until the change is done.
// Excepted are rounds before which something was refused: room may come for it.
func TestProtectionWorlds(t *testing.T) {
	t.Parallel()
	worlds, seed := worldsOneIn(4), envInt("NEPHELE_PLAN_SEED", 1)
	rounds, changes := 0, 0
	for i := range worlds {
		at := uint64(seed + i)
		e := randomEstate(rand.New(rand.NewPCG(at, 11)))
		f := e.cloud()
		for k, set := range append(slices.Clone(e.History), policySet{}) {
			var first *plan.Protection
			for n := 0; ; n++ {
				res := plan.Compute(e.input(set, f.clone()), e.lowerer())
				p := res.Protection
				if p == nil {
					t.Fatalf("seed %d: no protection", at)
				}
				if first == nil || len(res.Refusals) > 0 {
					first = p
				}
				if !slices.Equal(p.Then, first.Then) {
					t.Fatalf("seed %d, policies %d, round %d: %s will be guarded, before it was %s", at, k, n, numbers(p.Then), numbers(first.Then))
				}
				if res.Plan.Empty() {
					if len(res.Refusals) == 0 && !slices.Equal(p.Now, p.Then) {
						t.Fatalf("seed %d, policies %d: %s is guarded, and %s should be", at, k, numbers(p.Now), numbers(p.Then))
					}
					break
				}
				rounds, changes = rounds+1, changes+len(p.Released())+len(p.Guarded())
				if n == 60 {
					t.Fatalf("seed %d: no end", at)
				}
				for _, s := range res.Plan.Steps {
					if err := f.apply(s.Network, s.Op); err != nil {
						t.Fatalf("seed %d: %s: %v", at, s.Op, err)
					}
				}
			}
		}
	}
	if changes == 0 || rounds < worlds {
		t.Errorf("%d changes in %d rounds", changes, rounds)
	}
	t.Logf("seeds %d..%d: %d rounds, %d changes", seed, seed+worlds-1, rounds, changes)
}
