package realize

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/nephele-io/nephele/internal/cloud/plan"
	"github.com/nephele-io/nephele/internal/sim/ec2"
)

// fill makes groups by hand until the region has so many.
func (l *lab) fill(want int) {
	l.Helper()
	groups, err := l.region(home).SecurityGroups()
	if err != nil {
		l.Fatal(err)
	}
	for i := len(groups); i < want; i++ {
		l.forge(fmt.Sprintf("filler-%d", i), nil)
	}
}

// refusals returns what the last result refuses, once it does nothing else any more.
func (l *lab) refusals() []plan.Refusal {
	l.Helper()
	l.until("refused", func() bool {
		r, _ := l.realizer.Report(labAccount)
		return r.Result != nil && r.Err == nil && r.Result.Plan.Empty() && len(r.Result.Refusals) > 0
	})
	r, _ := l.realizer.Report(labAccount)
	return r.Result.Refusals
}

// refusedOnly reports refusals that are not about one policy on the web servers, with the quota of
// groups that would do.
func (l *lab) refusedOnly(policy string, enough int) {
	l.Helper()
	all := l.refusals()
	for _, x := range all {
		on := x.VM.ID == l.vms["web-1"].id || x.VM.ID == l.vms["web-2"].id
		if x.Policy.Name != policy || !on || x.Kept || !strings.HasSuffix(x.Message, fmt.Sprintf("a quota of %d groups would do", enough)) {
			l.Errorf("refusal of %q on %s: %q", x.Policy.Name, x.VM.ID, x.Message)
		}
	}
	if len(all) != 2 {
		l.Errorf("%d refusals", len(all))
	}
}

// TestNoRoomForGroups: a region with 2,500 groups has no room for one of ours; nothing is called,
// and policy and VM are told the numbers.
func TestNoRoomForGroups(t *testing.T) {
	t.Parallel()
	l := newLab(t, labConfig{})
	l.fill(2500)
	calls := l.mutations()
	l.engine.PutPolicy(webIn())
	l.publish()
	l.start()
	l.refusedOnly(webIn().Name, 2503)
	if n := l.mutations() - calls; n > 0 {
		t.Errorf("%d calls", n)
	}
}

// TestRoomForSomeGroups: a policy that there is a group for is realized next to one that there is
// none for, and that one too when the quota is raised to what its refusal says.
func TestRoomForSomeGroups(t *testing.T) {
	t.Parallel()
	var quota atomic.Int32
	quota.Store(100)
	l := newLab(t, labConfig{groupsPerRegion: func() int { return int(quota.Load()) }})
	l.fill(99)
	l.engine.PutPolicy(dbNoShell())
	l.engine.PutPolicy(webIn())
	l.publish()
	l.start()
	l.refusedOnly(webIn().Name, 102)
	if got := l.ask(probe{"ops-1", "db-1", 22}); got.Allowed {
		t.Errorf("the policy on the database is not in force: %s", got.Reason)
	}
	if n := len(l.ours()); n != 1 {
		t.Errorf("%d groups", n)
	}
	quota.Store(102)
	l.publish()
	l.accounts.Trigger(labAccount)
	l.until("all of it is realized", func() bool {
		r, _ := l.realizer.Report(labAccount)
		return r.Result.Plan.Empty() && len(r.Result.Refusals) == 0
	})
	l.settle()
	if d := compare(l.actual(), l.wanted()); d != "" {
		t.Error(d)
	}
}

// TestRoomTakenByOthers: somebody creates a group between two of ours, so the cloud refuses one of
// ours although it was counted to fit. What was counted next is told, and what fits is in force.
func TestRoomTakenByOthers(t *testing.T) {
	t.Parallel()
	var l *lab
	var once sync.Once
	l = newLab(t, labConfig{onCall: func(c ec2.Call) {
		if c.Action == "CreateSecurityGroup" {
			once.Do(func() { l.forge("between", nil) })
		}
	}})
	l.fill(2497)
	l.engine.PutPolicy(dbNoShell())
	l.engine.PutPolicy(webIn())
	l.publish()
	l.start()
	l.refusedOnly(webIn().Name, 2501)
	if !l.refusedCreation() {
		t.Error("the cloud refused nothing, so this test shows nothing")
	}
	if got := l.ask(probe{"ops-1", "db-1", 22}); got.Allowed {
		t.Errorf("the policy on the database is not in force: %s", got.Reason)
	}
}

// refusedCreation reports whether the cloud refused to create a group for want of room.
func (l *lab) refusedCreation() bool {
	for _, c := range l.server.Journal().Calls(0) {
		if c.Action == "CreateSecurityGroup" && c.Code == "SecurityGroupLimitExceeded" {
			return true
		}
	}
	return false
}
