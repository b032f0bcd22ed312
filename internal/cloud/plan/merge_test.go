package plan_test

import (
	"fmt"
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
