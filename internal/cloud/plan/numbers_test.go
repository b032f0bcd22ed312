package plan_test

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/nephele-io/nephele/internal/cloud/aws/lower"
	"github.com/nephele-io/nephele/internal/cloud/plan"
)

var (
	ruleRemedy  = regexp.MustCompile(`; a quota of (\d+) rules? per group would do`)
	groupRemedy = regexp.MustCompile(`; a quota of (\d+) groups? per interface would do`)
	pairRemedy  = regexp.MustCompile(`but (\d+) rules? per group and (\d+) groups? per interface would`)
	aloneRemedy = regexp.MustCompile(`would do for all policies of the VM, and one of (\d+) for this one`)
)

// numbersOf counts which kinds of numbers refusals told.
type numbersOf struct{ Refusals, Rules, Groups, Pairs, Alone, None, Rough, Besides, Multiple int }

// TestRefusedNumbersAreTrue plays random accounts with small quotas, changes them to what each
// refusal says would do, and plays them again: it does. With the next smaller quota it does not.
func TestRefusedNumbersAreTrue(t *testing.T) {
	worlds, seed := envInt("NEPHELE_PLAN_WORLDS", defaultWorlds)/2, envInt("NEPHELE_PLAN_SEED", 1)
	var st numbersOf
	for i := range worlds {
		at := uint64(seed + i)
		if err := checkNumbers(t, at, &st); err != nil {
			t.Fatalf("seed %d: %v", at, err)
		}
	}
	t.Logf("seeds %d..%d: %+v", seed, seed+worlds-1, st)
	if worlds >= 50 && (st.Rules == 0 || st.Rough*5 > st.Refusals || st.Alone == 0) {
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
	in := e.input(e.History[0], e.cloud())
	res := plan.Compute(in, lower.AWS{})
	if again := plan.Compute(in, lower.AWS{}); !reflect.DeepEqual(res, again) {
		return fmt.Errorf("the same input gives another result")
	}
	// with plays the account with other quotas, and without returns what the first plan refuses
	// then; of both for want of room on the VM.
	short := func(res *plan.Result, vm plan.VMRef) (out []plan.Refusal) {
		for _, x := range res.Refusals {
			if x.VM == vm && (strings.Contains(x.Message, " on one interface") || strings.Contains(x.Message, "without a gap")) {
				out = append(out, x)
			}
		}
		return out
	}
	unadvised := func(in *plan.Input) { in.Unadvised = true }
	known := map[[3]int]*plan.Result{}
	play := func(rules, groups, whole int) *plan.Result {
		key := [3]int{rules, groups, whole}
		if known[key] == nil {
			other := *e
			other.Limits.RulesPerGroup, other.Limits.GroupsPerInterface = rules, groups
			if whole == 1 {
				known[key] = settle(t, &other, other.cloud(), unadvised)
			} else {
				in := other.input(other.History[0], other.cloud())
				unadvised(&in)
				known[key] = plan.Compute(in, lower.AWS{})
			}
		}
		return known[key]
	}
	with := func(rules, groups int, vm plan.VMRef) []plan.Refusal { return short(play(rules, groups, 1), vm) }
	first := func(rules, groups int, vm plan.VMRef) []plan.Refusal { return short(play(rules, groups, 0), vm) }
	l := e.Limits
	for _, x := range res.Refusals {
		if strings.ContainsAny(x.Message, "\x01\x02") {
			return fmt.Errorf("%q", x.Message)
		}
		if !strings.Contains(x.Message, " on one interface") && !strings.Contains(x.Message, "without a gap") {
			continue
		}
		st.Refusals++
		several := slices.ContainsFunc(res.Refusals, func(o plan.Refusal) bool { return o.VM == x.VM && o.Policy != x.Policy })
		fail := func(what string, short []plan.Refusal) error {
			return fmt.Errorf("%s with quotas %d, %d: %s: %s\nthen %+v", x.VM.ID, l.RulesPerGroup, l.GroupsPerInterface, x.Message, what, short)
		}
		if several {
			st.Multiple++
		}
		switch m, g, p := ruleRemedy.FindStringSubmatch(x.Message), groupRemedy.FindStringSubmatch(x.Message), pairRemedy.FindStringSubmatch(x.Message); {
		case p != nil:
			st.Pairs++
			if rules, groups := number(p[1]), number(p[2]); rules*groups > l.RulesPerInterface || len(with(rules, groups, x.VM)) > 0 {
				return fail("that does not do", with(rules, groups, x.VM))
			}
		case g != nil:
			st.Groups++
			if groups := number(g[1]); len(with(l.RulesPerGroup, groups, x.VM)) > 0 || len(first(l.RulesPerGroup, groups-1, x.VM)) == 0 {
				return fail("that is not the number of groups", with(l.RulesPerGroup, groups, x.VM))
			}
		case m != nil && !strings.Contains(x.Message, "none for all"):
			st.Rules++
			rules := number(m[1])
			if rules*l.GroupsPerInterface > l.RulesPerInterface {
				return fail("there is no such quota", nil)
			}
			if short := with(rules, l.GroupsPerInterface, x.VM); len(short) > 0 {
				return fail("that does not do", short)
			}
			if rules-1 > l.RulesPerGroup && len(first(rules-1, l.GroupsPerInterface, x.VM)) == 0 {
				return fail("less would do", nil)
			}
			if a := aloneRemedy.FindStringSubmatch(x.Message); a != nil {
				st.Alone++
				own := func(o plan.Refusal) bool { return o.Policy == x.Policy }
				if short := with(
					number(a[1]),
					l.GroupsPerInterface,
					x.VM,
				); slices.ContainsFunc(short, own) ||
					!slices.ContainsFunc(first(number(a[1])-1, l.GroupsPerInterface, x.VM), own) {
					return fail("that is not the number for it alone", short)
				}
			}
		case strings.Contains(x.Message, "refused all the same: "):
			st.Besides++
		case strings.Contains(x.Message, "no quota"), strings.Contains(x.Message, "none for all"):
			st.None++
			if short := first(l.RulesPerInterface/l.GroupsPerInterface, l.GroupsPerInterface, x.VM); len(short) == 0 {
				return fail("one would do", short)
			}
		default:
			st.Rough++
		}
	}
	return nil
}

func number(s string) int {
	n, _ := strconv.Atoi(s)
	return n
}
