package plan_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan"
)

// A class that once needed two groups goes back to one when its rules fill half of it, and not
// before: so it does not come and go with a few rules.
func TestSpilledGroupsGo(t *testing.T) {
	e := small()
	f := e.cloud()
	held := func() int { return len(f.nic(nicID(0)).GroupIDs) }
	for _, c := range []struct{ from, to, groups int }{
		{0, 100, 2}, {50, 100, 2}, {60, 100, 2}, {0, 100, 2}, {75, 100, 1}, {45, 100, 1}, {35, 100, 2}, {0, 295, 5}, {293, 295, 1},
	} {
		settle(t, e, f, func(in *plan.Input) {
			manyBlocks(c.to)(in)
			r := &in.Policies[0].Rules[0]
			r.From.IPBlocks = r.From.IPBlocks[len(r.From.IPBlocks)-c.to+c.from:]
		})
		if held() != c.groups {
			t.Errorf("%+v: %d groups", c, held())
		}
		address := func(i int) string { return fmt.Sprintf("192.0.%d.%d", i/100, 2*(i%100)) }
		if !admits(f, 0, address(c.to-1), "", 80) || !admits(f, 0, address(c.from), "", 80) || c.from > 0 && admits(f, 0, address(c.from-1), "", 80) {
			t.Errorf("%+v: not as the policy says", c)
		}
	}
	e.History[0] = policySet{}
	settle(t, e, f, nil)
	for _, g := range f.snap.Groups {
		if g.Tags[cloud.TagCluster] != "" {
			t.Errorf("%s is left", g.Name)
		}
	}
}

// TestFullClassesBecomeOne: where two classes become one whose interfaces have no slot left, one of
// the interfaces stays where it is, and the other one moves there.
func TestFullClassesBecomeOne(t *testing.T) {
	e := small()
	set := &e.History[0]
	set.Address, set.Applied = [][]int{{2}}, [][]int{{0, 1}, {1}}
	set.Policies = append(set.Policies, policySpec{Tier: 250, Priority: 6, Applied: []int{1}, Rules: []ruleSpec{{
		Action: "Allow", Address: []int{0}, Services: []serviceSpec{{Protocol: "TCP", From: 443, To: 443, Type: -1}},
	}}})
	f := e.cloud()
	settle(t, e, f, manyBlocks(100)) // so that the groups of both are mixed, in the order of their IDs
	settle(t, e, f, manyBlocks(290))
	was := [][]string{f.nic(nicID(0)).GroupIDs, f.nic(nicID(1)).GroupIDs}
	if len(was[0]) != 5 || len(was[1]) != 5 || slices.Equal(was[0], was[1]) {
		t.Fatalf("they hold %v", was)
	}
	set.Applied[1] = nil
	if res := settle(t, e, f, manyBlocks(290)); len(res.Refusals) > 0 {
		t.Errorf("%+v", res.Refusals)
	}
	is := [][]string{f.nic(nicID(0)).GroupIDs, f.nic(nicID(1)).GroupIDs}
	if !slices.Equal(is[0], is[1]) || !slices.Equal(is[0], was[0]) && !slices.Equal(is[0], was[1]) {
		t.Errorf("they hold %v, before that %v", is, was)
	}
}
