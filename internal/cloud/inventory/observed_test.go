package inventory

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/sim/aws"
)

// TestObserved: what somebody else has read with the account's provider takes the place of a
// reading, unless something newer is known; and what was begun before it does not take its place.
func TestObserved(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.direct = true
	l.create(l.secret(goodCreds), l.cpa(), l.ces("web", "all", wholeVPC(vpc1)))
	l.reconcile()
	const key = "clouds/acc"
	provider, _ := l.inv.Provider(key)
	scope := cloud.Scope{Account: key, Region: oregon}
	instances, err := l.region(oregon).Instances()
	if err != nil {
		t.Fatal(err)
	}
	vm := instances[slices.IndexFunc(instances, func(i aws.Instance) bool { return i.VPCID == vpc1 })].ID
	read := func(value string) *cloud.Snapshot {
		t.Helper()
		if err := l.region(oregon).CreateTags([]string{vm}, []aws.Tag{{Key: "state", Value: value}}); err != nil {
			t.Fatal(err)
		}
		s, err := provider.Observe(t.Context(), scope)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	shows := func(when, want string) {
		t.Helper()
		s, _ := l.inv.Latest(key, oregon)
		i := slices.IndexFunc(s.VMs, func(v cloud.VM) bool { return v.ID == vm })
		if got := s.VMs[i].Tags["state"]; got != want {
			t.Errorf("%s: the snapshot shows %q, want %q", when, got, want)
		}
		if pending := l.inv.Pending(key); len(pending) > 0 {
			t.Errorf("%s: pending %v", when, slices.Sorted(maps.Keys(pending)))
		}
	}
	hand := func(s *cloud.Snapshot) bool { return l.inv.Observed(key, provider, []*cloud.Snapshot{s}) }

	l.advance(30 * time.Second)
	first := read("one")
	calls := l.calls("DescribeInstances")
	if !hand(first) {
		t.Fatal("a reading is not taken")
	}
	l.reconcile()
	shows("handed over", "one")
	if got := get(l, &v1alpha1.VirtualMachine{}, "web", vm).Status.Tags["state"]; got != "one" {
		t.Errorf("the object shows %q", got)
	}
	l.advance(50 * time.Second) // the poll would have been due, were it not for the reading
	l.reconcile()
	if n := l.calls("DescribeInstances") - calls; n != 0 {
		t.Errorf("%d readings beside the one that was handed over", n)
	}
	l.advance(11 * time.Second)
	l.reconcile()
	if n := l.calls("DescribeInstances") - calls; n != 1 {
		t.Errorf("%d readings an interval after it, want 1", n)
	}

	// What is older than what is known, or was read in another way, is not taken.
	if hand(first) {
		t.Error("an older reading is taken")
	}
	l.advance(time.Second)
	other := read("two")
	if l.inv.Observed(key, struct{ cloud.Provider }{provider}, []*cloud.Snapshot{other}) {
		t.Error("the reading of another provider is taken")
	}
	l.advance(time.Second)
	read("three")
	l.inv.Touched(key, map[string][]string{oregon: {vm}})
	l.advance(time.Second)
	l.reconcile()
	if hand(other) {
		t.Error("a reading is taken that is older than what was read of one object since")
	}
	shows("read one by one", "three")

	// Readings on their way when something was handed over are made again.
	a := l.inv.lookup(key)
	p := &pass{loop: l.inv, cpa: l.account(), account: a}
	for _, begin := range []func(){func() { l.inv.Trigger(key) }, func() { l.inv.Touched(key, map[string][]string{oregon: {vm}}) }} {
		l.advance(time.Second)
		before := read("four")
		begin()
		jobs := a.due(l.clock(), false)
		if len(jobs) != 1 {
			t.Fatalf("%d jobs, want 1", len(jobs))
		}
		l.advance(time.Second)
		if !hand(read("five")) {
			t.Fatal("a reading is not taken")
		}
		p.record(outcome{job: jobs[0], started: l.clock(), snapshot: before})
		shows("an older reading ends", "five")
		calls := l.calls("DescribeInstances")
		l.advance(time.Second)
		l.reconcile()
		if n := l.calls("DescribeInstances") - calls; n != 1 {
			t.Errorf("%d readings in the place of the one that was outdated, want 1", n)
		}
		shows("read again", "five")
	}
}
