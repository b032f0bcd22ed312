package plan_test

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/nephele-io/nephele/internal/cloud/aws/lower"
	"github.com/nephele-io/nephele/internal/cloud/plan"
	"github.com/nephele-io/nephele/internal/cloud/plan/reason"
)

// numbersOf counts what became of refusals whose numbers were believed.
type numbersOf struct{ Worlds, Enforced, TooMany, Raised int }

// TestRefusedNumbersAreTrue plays random accounts with small quotas and gives them the room that
// refusals name, until nothing is refused: every number is more than there is, and it ends, unless
// the cloud grants no such quota. How often the quota has to be raised is not promised: a refusal
// tells what the policy takes beside those that are enforced, not what all would take together.
func TestRefusedNumbersAreTrue(t *testing.T) {
	t.Parallel()
	worlds, seed := worldsOneIn(2), envInt("NEPHELE_PLAN_SEED", 1)
	var st numbersOf
	for about, at := range map[string]uint64{"members that take fewer rules by address": 9100064, "one of another VM is to be taken over": 9303970} {
		if err := checkNumbers(t, at, &st); err != nil {
			t.Errorf("%s: %v", about, err)
		}
	}
	for i := range worlds {
		at := uint64(seed + i)
		if err := checkNumbers(t, at, &st); err != nil {
			t.Fatalf("seed %d: %v", at, err)
		}
	}
	t.Logf("seeds %d..%d: %+v", seed, seed+worlds-1, st)
	if worlds >= 50 && (st.Enforced == 0 || st.TooMany == 0 || st.Raised == 0) {
		t.Errorf("%+v", st)
	}
}

// numbersEstate is a random account with small quotas and policies that need many rules.
func numbersEstate(at uint64) *estate {
	r := rand.New(rand.NewPCG(at, 31))
	e := randomEstate(r)
	e.History = e.History[:1]
	e.Limits.RulesPerGroup, e.Limits.GroupsPerInterface, e.Limits.RulesPerInterface = 1+r.IntN(8), 1+r.IntN(4), 60
	for i := range e.History[0].Policies {
		p := &e.History[0].Policies[i]
		for k := range p.Rules {
			for range r.IntN(6) {
				p.Rules[k].Blocks = append(p.Rules[k].Blocks, blockSpec{CIDR: fmt.Sprintf("198.51.100.%d/32", 2*r.IntN(40))})
			}
		}
	}
	return &e
}

func checkNumbers(t *testing.T, at uint64, st *numbersOf) error {
	e := numbersEstate(at)
	st.Worlds++
	for raised := 0; ; raised++ {
		in := e.input(e.History[0], e.cloud())
		res := plan.Compute(in, lower.AWS{})
		if again := plan.Compute(in, lower.AWS{}); !reflect.DeepEqual(res, again) {
			return fmt.Errorf("the same input gives another result")
		}
		needed := 0
		for _, x := range res.Refusals {
			l := x.Lack
			if l == nil || l.Quota != reason.QuotaRulesPerGroup {
				continue
			}
			if l.Needed <= l.Available && !l.Whole || l.Available > e.Limits.RulesPerGroup*e.Limits.GroupsPerInterface || l.WouldDo != 0 {
				return fmt.Errorf("%s with quotas %d, %d: %s: %+v", x.VM.ID, e.Limits.RulesPerGroup, e.Limits.GroupsPerInterface, x.Message, l)
			}
			needed = max(needed, l.Needed)
		}
		more := (needed + e.Limits.GroupsPerInterface - 1) / e.Limits.GroupsPerInterface
		switch {
		case needed == 0:
			st.Enforced++
			settle(t, e, e.cloud(), nil)
			return nil
		case more*e.Limits.GroupsPerInterface > e.Limits.RulesPerInterface:
			st.TooMany++
			return nil
		case raised == 20:
			return fmt.Errorf("no end of raising the quota: %d rules per group, %d needed", e.Limits.RulesPerGroup, needed)
		}
		st.Raised++
		e.Limits.RulesPerGroup = max(e.Limits.RulesPerGroup+1, more)
	}
}
