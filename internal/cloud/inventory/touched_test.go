package inventory

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/sim/aws"
	"github.com/nephele-io/nephele/internal/sim/ec2"
)

// TestTouched: what a caller has changed is read again, and nothing else; until that has worked out
// the region is pending, and what was begun before does not count.
func TestTouched(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.direct = true
	l.create(l.secret(goodCreds), l.cpa(), l.ces("web", "all", wholeVPC(vpc1)))
	l.reconcile()
	const key = "clouds/acc"
	pending := func(when string, want ...string) {
		t.Helper()
		if got := slices.Sorted(maps.Keys(l.inv.Pending(key))); !slices.Equal(got, want) {
			t.Errorf("%s: pending %v, want %v", when, got, want)
		}
	}
	pending("after the first reading")
	groups, err := l.region(oregon).SecurityGroups()
	if err != nil {
		t.Fatal(err)
	}
	group := groups[slices.IndexFunc(groups, func(g aws.SecurityGroup) bool { return g.VPCID == vpc1 })].ID
	tag := func(value string) {
		t.Helper()
		if err := l.region(oregon).CreateTags([]string{group}, []aws.Tag{{Key: "state", Value: value}}); err != nil {
			t.Fatal(err)
		}
	}
	shows := func(when, want string) {
		t.Helper()
		s, _ := l.inv.Latest(key, oregon)
		i := slices.IndexFunc(s.Groups, func(g cloud.Group) bool { return g.ID == group })
		if got := s.Groups[i].Tags["state"]; got != want {
			t.Errorf("%s: the snapshot shows %q, want %q", when, got, want)
		}
	}
	touched := map[string][]string{oregon: {group}, "mars-1": {"sg-1"}}

	tag("one")
	l.inv.Touched(key, touched)
	l.inv.Touched("clouds/other", touched)
	pending("touched", oregon)
	whole := l.calls("DescribeInstances")
	l.reconcile()
	pending("read")
	shows("read", "one")
	if n := l.calls("DescribeInstances") - whole; n != 0 {
		t.Errorf("%d readings of VMs for one group", n)
	}

	// A reading that fails does not count; the next one does.
	tag("two")
	l.inv.Touched(key, touched)
	l.advance(time.Second)
	l.server.Faults().Add(ec2.Fault{Action: "DescribeSecurityGroups", Code: "Unavailable", Times: -1})
	l.reconcile()
	pending("the reading failed", oregon)
	shows("the reading failed", "one")
	l.server.Faults().Clear()
	l.advance(10 * time.Second)
	l.reconcile()
	pending("read at the second attempt")
	shows("read at the second attempt", "two")

	// What is touched while a reading is on its way is pending after it.
	a := l.inv.lookup(key)
	l.inv.Trigger(key)
	pending("asked for everything", oregon)
	jobs := a.due(l.clock(), false)
	l.inv.Touched(key, touched)
	p := &pass{loop: l.inv, cpa: l.account(), account: a}
	s, _ := l.inv.Latest(key, oregon)
	p.record(outcome{job: jobs[0], started: l.clock(), snapshot: s})
	pending("touched meanwhile", oregon)
	l.advance(time.Second)
	l.reconcile()
	pending("read after all")
}
