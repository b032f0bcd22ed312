package plan_test

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/nephele-io/nephele/internal/cloud/aws/lower"
	"github.com/nephele-io/nephele/internal/cloud/plan"
	"github.com/nephele-io/nephele/internal/cloud/plan/intent"
)

// numbersOf counts which kinds of numbers refusals told.
type numbersOf struct{ Refusals, Exact, AtLeast, TooMany, Untold, Multiple int }

// TestRefusedNumbersAreTrue plays random accounts with small quotas, changes them to what each
// refusal says would do, and plays them again: it does. With the next smaller quota it does not,
// which is all that is said where a number is a bound.
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
	if worlds >= 50 && (st.Exact == 0 || st.AtLeast == 0 || st.TooMany == 0) {
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

// short returns what is refused on a VM because a quota of rules does not suffice.
func short(res *plan.Result, vm plan.VMRef) (out []plan.Refusal) {
	for _, x := range res.Refusals {
		if x.VM == vm && x.Lack != nil && x.Lack.Quota == intent.QuotaRulesPerGroup {
			out = append(out, x)
		}
	}
	return out
}

func checkNumbers(t *testing.T, at uint64, st *numbersOf) error {
	e := numbersEstate(at)
	in := e.input(e.History[0], e.cloud())
	res := plan.Compute(in, lower.AWS{})
	if again := plan.Compute(in, lower.AWS{}); !reflect.DeepEqual(res, again) {
		return fmt.Errorf("the same input gives another result")
	}
	// with is what the whole way refuses on a VM with another quota, first what the first plan
	// refuses.
	settled, planned := map[int]*plan.Result{}, map[int]*plan.Result{}
	with := func(rules int, vm plan.VMRef) []plan.Refusal {
		if settled[rules] == nil {
			other := *e
			other.Limits.RulesPerGroup = rules
			settled[rules] = settle(t, &other, other.cloud(), nil)
		}
		return short(settled[rules], vm)
	}
	first := func(rules int, vm plan.VMRef) []plan.Refusal {
		if planned[rules] == nil {
			other := *e
			other.Limits.RulesPerGroup = rules
			planned[rules] = plan.Compute(other.input(other.History[0], other.cloud()), lower.AWS{})
		}
		return short(planned[rules], vm)
	}
	limits := e.Limits
	for _, x := range res.Refusals {
		l := x.Lack
		if l == nil || l.Quota != intent.QuotaRulesPerGroup {
			continue
		}
		st.Refusals++
		if slices.ContainsFunc(res.Refusals, func(o plan.Refusal) bool { return o.VM == x.VM && o.Policy != x.Policy }) {
			st.Multiple++
		}
		fail := func(what string, short []plan.Refusal) error {
			return fmt.Errorf("%s with quotas %d, %d: %s: %s\nthen %+v", x.VM.ID, limits.RulesPerGroup, limits.GroupsPerInterface, x.Message, what, short)
		}
		switch {
		case l.TooMany > 0:
			st.TooMany++
			if len(first(limits.RulesPerInterface/limits.GroupsPerInterface, x.VM)) == 0 {
				return fail("some quota would do", nil)
			}
		case l.WouldDo == 0:
			st.Untold++
		default:
			if l.WouldDo <= limits.RulesPerGroup || l.WouldDo*limits.GroupsPerInterface > limits.RulesPerInterface {
				return fail("there is no such quota", nil)
			}
			if l.WouldDo-1 > limits.RulesPerGroup && len(first(l.WouldDo-1, x.VM)) == 0 {
				return fail("less would do", nil)
			}
			if l.WouldDoAtLeast {
				st.AtLeast++
				continue
			}
			st.Exact++
			// Another VM that has to be taken over for this one's sake may have too little room,
			// and so may this one for a state in between, which says how much that needs.
			still := slices.DeleteFunc(with(l.WouldDo, x.VM), func(o plan.Refusal) bool {
				return o.Why.Is(intent.DependentLoses) || o.Why.Is(intent.WaitsBetween)
			})
			if len(still) > 0 {
				return fail("that does not do", still)
			}
		}
	}
	return nil
}
