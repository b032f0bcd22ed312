package inventory

import (
	"testing"
	"time"

	"github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/sim/ec2"
)

// prove says that events of the lab's region come, as of now.
func (l *lab) prove() {
	a := l.inv.lookup("clouds/acc")
	(&hearing{inventory: l.inv, account: a, turn: a.feed.turn}).Proven(oregon, l.clock())
}

// polled is how long a reconcile waits for the next, and whether it has read the region whole.
func (l *lab) polled() (wait time.Duration, read bool) {
	l.Helper()
	after := l.server.Journal().Total()
	wait = l.reconcile()
	return wait, len(l.readings(after)) > 0
}

// TestPollsRest: while events are proven to come a poll waits, but not for longer than it may, and
// when they cease everything is read as soon as if there had been none.
func TestPollsRest(t *testing.T) {
	t.Parallel()
	l := newFeedLab(t)
	l.reconcile()
	begin := l.clock()
	for l.clock().Sub(begin) < longestRest-10*time.Second {
		l.advance(10 * time.Second)
		l.prove()
		if _, read := l.polled(); read {
			t.Fatalf("read whole after %s, while events come", l.clock().Sub(begin))
		}
	}
	l.advance(10 * time.Second)
	if _, read := l.polled(); !read {
		t.Error("not read whole in the longest time")
	}
	// Somebody cuts the events off right after one that proves them, and changes something.
	l.advance(50 * time.Second)
	l.prove()
	l.retag("unheard")
	l.advance(20 * time.Second)
	if wait, read := l.polled(); read || wait != 40*time.Second {
		t.Errorf("read %t, next in %s; want the rest of an interval since the last event", read, wait)
	}
	l.advance(40 * time.Second)
	if _, read := l.polled(); !read {
		t.Error("not read whole an interval after events have ceased")
	}
	if vm := get(l, &v1alpha1.VirtualMachine{}, "web", vm1); vm.Status.Tags["n"] != "unheard" {
		t.Errorf("tags %v", vm.Status.Tags)
	}
}

// TestRestEnds: a region that cannot be read is polled at its pace, and what was heard of it is
// known for two intervals more, as what is read is.
func TestRestEnds(t *testing.T) {
	t.Parallel()
	l := newFeedLab(t)
	l.reconcile()
	for range 12 {
		l.advance(20 * time.Second)
		l.prove()
		l.reconcile()
	}
	l.server.Faults().Add(ec2.Fault{Action: "DescribeInstances", Code: "InternalError", Times: 1000})
	observed := func() string {
		return condition(get(l, &v1alpha1.VirtualMachine{}, "web", vm1).Status.Conditions, v1alpha1.ConditionObserved)
	}
	l.advance(time.Minute)
	if _, read := l.polled(); !read || observed() != "True OK" {
		t.Errorf("read %t, observed %q", read, observed())
	}
	l.prove()
	l.advance(time.Minute + time.Second)
	if _, read := l.polled(); !read || observed() == "True OK" {
		t.Errorf("read %t, observed %q, two intervals after the last event", read, observed())
	}
}

// TestTold: where something can change without an event polls do not wait.
func TestTold(t *testing.T) {
	t.Parallel()
	const us, them = "111122223333", "444455556666"
	for name, c := range map[string]struct {
		snapshot cloud.Snapshot
		shown    []cloud.ServiceKind
		want     bool
	}{
		"nothing": {want: true},
		"ours": {snapshot: cloud.Snapshot{
			Networks: []cloud.Network{{OwnerID: us}}, Peerings: []cloud.Peering{{A: cloud.PeeringEnd{OwnerID: us}, B: cloud.PeeringEnd{OwnerID: us}}},
			Interfaces: []cloud.Interface{{OwnerID: us, VMID: "i-1", GroupIDs: []string{"sg-1"}}, {OwnerID: us}},
			Groups:     []cloud.Group{{OwnerID: us}}, PrefixLists: []cloud.PrefixList{{OwnerID: us}},
		}, want: true},
		"a shared network":           {snapshot: cloud.Snapshot{Networks: []cloud.Network{{OwnerID: them}}}},
		"a peering of another":       {snapshot: cloud.Snapshot{Peerings: []cloud.Peering{{A: cloud.PeeringEnd{OwnerID: us}, B: cloud.PeeringEnd{OwnerID: them}}}}},
		"an interface of another":    {snapshot: cloud.Snapshot{Interfaces: []cloud.Interface{{OwnerID: them, VMID: "i-1"}}}},
		"a service's interface":      {snapshot: cloud.Snapshot{Interfaces: []cloud.Interface{{OwnerID: us, GroupIDs: []string{"sg-1"}}}}},
		"a group of another":         {snapshot: cloud.Snapshot{Groups: []cloud.Group{{OwnerID: them}}}},
		"a list that the cloud owns": {snapshot: cloud.Snapshot{PrefixLists: []cloud.PrefixList{{OwnerID: cloud.CloudOwned}}}},
		"services are shown":         {shown: []cloud.ServiceKind{"Database"}},
	} {
		now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
		c.snapshot.OwnerID = us
		r := &region{snapshot: &c.snapshot, proven: now.Add(55 * time.Second)}
		a := &account{interval: time.Minute, shown: c.shown, regions: map[string]*region{oregon: r}}
		a.schedule(r, now)
		if waits := len(a.due(now.Add(time.Minute), false)) == 0; waits != c.want {
			t.Errorf("%s: the poll waits: %t", name, waits)
		}
		r.proven = now.Add(longestRest - time.Second)
		for underway, rest := range map[bool]time.Duration{true: underwayIntervals * time.Minute, false: longestRest} {
			a.underway = underway
			if waits := a.dueAt(r).Sub(now); c.want && waits != rest {
				t.Errorf("%s, a change is carried out: %t: the poll waits for %s, want %s", name, underway, waits, rest)
			}
		}
	}
}
