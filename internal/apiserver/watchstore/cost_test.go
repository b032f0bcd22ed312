package watchstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
)

// takeOne takes the next event of a watch.
func takeOne(t *testing.T, w *Watcher) Event {
	t.Helper()
	events, err := w.wait(context.Background(), make([]Event, 1), 1)
	if err != nil {
		t.Fatal(err)
	}
	return events[0]
}

// TestManyReceiversShareOneObject: what is the same for all receivers is made once, and encoded
// once per encoding; nothing of that is kept when everybody has it.
func TestManyReceiversShareOneObject(t *testing.T) {
	s := New(Options{})
	s.Publish(Changes{
		AddressGroups:   []GroupChange{hugeGroup(0, 3, "a", "b")},
		AppliedToGroups: []GroupChange{hugeGroup(0, 3, "a", "b")},
		Policies:        []PolicyChange{{Policy: policyNamed("p", 1), SpanAdded: []string{"a", "b"}}},
	})
	pairs := map[Resource][2]*Watcher{}
	for _, r := range Resources() {
		pairs[r] = [2]*Watcher{mustWatch(t, s, r, "a"), mustWatch(t, s, r, "b")}
	}
	same := func(r Resource, eventType watch.EventType) Event {
		t.Helper()
		x, y := takeOne(t, pairs[r][0]), takeOne(t, pairs[r][1])
		if x.Type != eventType || x.Object() != y.Object() || x.Frames() == nil || x.Frames() != y.Frames() {
			t.Fatalf("%s of %s: %p and %p", x.Type, r, x.Object(), y.Object())
		}
		return x
	}
	e := same(AddressGroups, watch.Added)
	same(NetworkPolicies, watch.Added)
	if x, y := takeOne(t, pairs[AppliedToGroups][0]), takeOne(t, pairs[AppliedToGroups][1]); x.Object() == y.Object() || x.Frames() != nil {
		t.Fatal("applied-to groups are each receiver's own")
	}
	for _, pair := range pairs {
		for _, w := range pair {
			if b := takeOne(t, w); b.Type != watch.Bookmark {
				t.Fatal(b)
			}
		}
	}
	if len(s.rendered) != 0 {
		t.Fatalf("%d objects are kept for nobody", len(s.rendered))
	}
	s.Publish(Changes{
		AddressGroups: []GroupChange{{Name: "g", UID: "g", Added: hugeGroup(3, 4).Added}},
		Policies:      []PolicyChange{{Policy: policyNamed("p", 2)}},
	})
	same(AddressGroups, watch.Modified)
	same(NetworkPolicies, watch.Modified)

	broken := errors.New("not this time")
	if _, err := e.Frames().Encode("encoding 0", func(io.Writer) error { return broken }); !errors.Is(err, broken) {
		t.Fatal(err)
	}
	var times [2]int
	var running sync.WaitGroup
	for i := range 20 {
		running.Go(func() {
			data, err := e.Frames().Encode(fmt.Sprint("encoding ", i%2), func(w io.Writer) error {
				times[i%2]++
				_, err := fmt.Fprint(w, i%2)
				return err
			})
			if string(data) != fmt.Sprint(i%2) || err != nil {
				t.Errorf("%q, %v", data, err)
			}
		})
	}
	running.Wait()
	if times != [2]int{1, 1} {
		t.Fatal(times)
	}
}

// TestLateReceivers: an event is about the moment at which it was taken, also if its receiver asks
// after the object has changed or is gone. A late receiver takes nothing from the receivers of the
// next version, whichever of them asks first.
func TestLateReceivers(t *testing.T) {
	for _, lateFirst := range []bool{false, true} {
		s := New(Options{})
		s.Publish(Changes{
			AddressGroups: []GroupChange{hugeGroup(0, 3, "a", "b")},
			Policies:      []PolicyChange{{Policy: policyNamed("p", 1), SpanAdded: []string{"a", "b"}}},
		})
		groups, policies, other := mustWatch(t, s, AddressGroups, "a"), mustWatch(t, s, NetworkPolicies, "a"), mustWatch(t, s, NetworkPolicies, "b")
		group, policy := takeOne(t, groups), takeOne(t, policies)
		for _, w := range []*Watcher{groups, policies, other, other} { // up to the bookmark
			takeOne(t, w)
		}
		late := func(when string) {
			t.Helper()
			var scratch Scratch
			viewed, _ := policy.View(&scratch)
			for _, object := range []apiruntime.Object{policy.Object(), viewed} {
				if p := object.(*v1beta2.NetworkPolicy); p.Generation != 1 || p.ResourceVersion != formatRevision(1) {
					t.Errorf("%s: generation %d, version %s", when, p.Generation, p.ResourceVersion)
				}
			}
			if g := group.Object().(*v1beta2.AddressGroup); len(g.GroupMembers) != 3 || g.ResourceVersion != formatRevision(1) {
				t.Errorf("%s: %d members, version %s", when, len(g.GroupMembers), g.ResourceVersion)
			}
		}
		s.Publish(Changes{
			AddressGroups: []GroupChange{{Name: "g", UID: "g", Added: hugeGroup(3, 4).Added}},
			Policies:      []PolicyChange{{Policy: policyNamed("p", 2)}},
		})
		next, same := takeOne(t, policies), takeOne(t, other)
		if lateFirst {
			late("before the next version")
		}
		object := next.Object()
		late("after the next version")
		if p := object.(*v1beta2.NetworkPolicy); p.Generation != 2 || p.ResourceVersion != formatRevision(2) {
			t.Errorf("the next version is generation %d, version %s", p.Generation, p.ResourceVersion)
		}
		if same.Object() != object || same.Frames() != next.Frames() {
			t.Error("receivers of the next version do not share it any more")
		}
		s.Publish(Changes{Policies: []PolicyChange{{Policy: policyNamed("p", 2), Removed: true}}, AddressGroups: []GroupChange{{Name: "g", UID: "g", Deleted: true}}})
		late("of what is gone")
	}
}

// TestEventsNeedNoMemory: a policy that concerns few keys, and an applied-to group of which a key
// sees one member, are given to a receiver without anything that is made for it.
func TestEventsNeedNoMemory(t *testing.T) {
	const times = 20
	s := New(Options{})
	var all Changes
	for i := range shortRun {
		name := fmt.Sprint(i)
		member := &GivenMember{GroupMember: v1beta2.GroupMember{Pod: &v1beta2.PodReference{Name: name}}, Host: "a"}
		all.AppliedToGroups = append(all.AppliedToGroups, GroupChange{Name: name, UID: types.UID(name), Added: []Member{member}, SpanAdded: []string{"a"}})
		all.Policies = append(all.Policies, PolicyChange{Name: name, Source: givenPolicy{policyNamed(name, 1)}, SpanAdded: []string{"a"}})
	}
	s.Publish(all)
	for _, r := range []Resource{AppliedToGroups, NetworkPolicies} {
		var watchers []*Watcher
		for range times + 1 { // one to warm up
			watchers = append(watchers, mustWatch(t, s, r, "a"))
		}
		into := make([]Event, shortRun)
		if n := testing.AllocsPerRun(times, func() {
			events, err := watchers[0].TryTake(into)
			if watchers = watchers[1:]; len(events) != shortRun || err != nil {
				t.Fatalf("%d events (%v)", len(events), err)
			}
		}); n > 0 {
			t.Errorf("%s: %.0f allocations for %d events", r, n, shortRun)
		}
	}
}

// TestStalledReceiverHoldsLittle: whatever happens while a receiver does not read, what is kept for
// it is no more than the difference to what it has, and another receiver gets everything meanwhile.
func TestStalledReceiverHoldsLittle(t *testing.T) {
	const members, rounds = 50, 1000
	s := New(Options{})
	s.Publish(Changes{AddressGroups: []GroupChange{hugeGroup(0, members, "a")}})
	stalled, quick := mustWatch(t, s, AddressGroups, "a"), mustWatch(t, s, AddressGroups, "a")
	held, c := newClient(AddressGroups), newClient(AddressGroups)
	if err := held.drain(stalled); err != nil {
		t.Fatal(err)
	}
	for i := range rounds {
		c0 := hugeGroup(i%members, i%members+1)
		change := GroupChange{Name: "g", UID: "g", Added: c0.Added}
		c0.Added[0].(*GivenMember).Ports = []v1beta2.NamedPort{{Name: "p", Port: int32(i)}}
		if i%3 == 0 {
			change.Added, change.Removed = nil, c0.Added
		}
		s.Publish(Changes{AddressGroups: []GroupChange{change}})
		if err := c.drain(quick); err != nil {
			t.Fatal(err)
		}
		if d := stalled.due.first(); d != nil {
			if n := len(d.patch.changes); stalled.due.len() != 1 || n > members {
				t.Fatalf("after %d changes %d objects and %d members wait", i, stalled.due.len(), n)
			}
		}
	}
	if len(c.events) < rounds/2 {
		t.Fatalf("the quick receiver got %d events", len(c.events))
	}
	if err := held.drain(stalled); err != nil {
		t.Fatal(err)
	}
	want, err := listing(s, AddressGroups, "a")
	if err != nil || held.state() != want || c.state() != want {
		t.Fatalf("the receivers differ from what List returns (%v)", err)
	}
}

// TestSlowBeginnerKeepsLittle: a watcher that has all but begun, and reads no further, does not
// make the store keep what others receive.
func TestSlowBeginnerKeepsLittle(t *testing.T) {
	const objects, left = 200, 3
	s := New(Options{})
	var all Changes
	for i := range objects {
		all.Policies = append(all.Policies, PolicyChange{Policy: policyNamed(fmt.Sprint(i), 1), SpanAdded: []string{"a"}})
	}
	s.Publish(all)
	slow, quick := mustWatch(t, s, NetworkPolicies, "a"), mustWatch(t, s, NetworkPolicies, "a")
	for range objects + 1 - left {
		takeOne(t, slow)
	}
	c := newClient(NetworkPolicies)
	for i := range 1000 {
		if err := c.drain(quick); err != nil {
			t.Fatal(err)
		}
		if n := len(s.rendered); n > sharedPerUnread*left+1 {
			t.Fatalf("%d objects are kept for a watcher that needs %d", n, left)
		}
		s.Publish(Changes{Policies: []PolicyChange{{Policy: policyNamed(fmt.Sprint(i%objects), int64(i))}}})
	}
	slow.Stop()
	s.Publish(Changes{})
	if n := len(s.rendered); n != 0 || s.unread.Load() != 0 {
		t.Fatalf("%d objects are kept for nobody, %d are counted as unread", n, s.unread.Load())
	}
}

// yieldingSource is a policy that gives others a chance to ask for it while it is made; it panics
// as often as panics says.
type yieldingSource struct {
	givenPolicy
	asked, panics atomic.Int32
}

// NetworkPolicy implements PolicySource.
func (y *yieldingSource) NetworkPolicy(room *PolicyRoom) *v1beta2.NetworkPolicy {
	y.asked.Add(1)
	for range 1000 {
		runtime.Gosched()
	}
	if y.panics.Add(-1) >= 0 {
		panic("not this time")
	}
	return y.givenPolicy.NetworkPolicy(room)
}

// TestReceiversWaitForOneThatMakesTheObject: many that ask for an object at the same time have it
// made once; if that panics, the next one has it made.
func TestReceiversWaitForOneThatMakesTheObject(t *testing.T) {
	s := New(Options{})
	source := &yieldingSource{givenPolicy: givenPolicy{policyNamed("p", 1)}}
	source.panics.Store(1)
	s.Publish(Changes{Policies: []PolicyChange{{Name: "p", Source: source, SpanAdded: []string{"a"}}}})
	var watchers []*Watcher
	for range 50 {
		watchers = append(watchers, mustWatch(t, s, NetworkPolicies, "a"))
	}
	var taking sync.WaitGroup
	var got [50]Event
	var panicked atomic.Int32
	for i, w := range watchers {
		taking.Go(func() {
			defer func() {
				if recover() != nil {
					panicked.Add(1)
				}
			}()
			events, err := w.Take(context.Background(), make([]Event, 1))
			if err != nil {
				t.Error(err)
				return
			}
			events[0].Object()
			got[i] = events[0]
		})
	}
	taking.Wait()
	if n := source.asked.Load(); n != 2 || panicked.Load() != 1 {
		t.Errorf("made %d times, %d panicked", n, panicked.Load())
	}
	var all apiruntime.Object
	for _, e := range got {
		if e.body == nil { // of the one that panicked
			continue
		}
		if all == nil {
			all = e.Object()
		}
		if e.Object() != all {
			t.Fatalf("%v and %v", e.Object(), all)
		}
	}
}
