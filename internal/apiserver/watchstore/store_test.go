package watchstore

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
)

func policyNamed(name string, generation int64) *v1beta2.NetworkPolicy {
	return &v1beta2.NetworkPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), Generation: generation},
		SourceRef:  &v1beta2.NetworkPolicyReference{Type: v1beta2.AntreaNetworkPolicy, Namespace: "ns", Name: "source-" + name},
		Rules:      []v1beta2.NetworkPolicyRule{{Name: "r"}},
	}
}

func mustWatch(t *testing.T, s *Store, r Resource, key string) *Watcher {
	t.Helper()
	w, err := s.Watch(r, key)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func TestClosedUntilFirstPublish(t *testing.T) {
	s := New(Options{})
	w := mustWatch(t, s, NetworkPolicies, "a")
	if _, ok, err := w.TryNext(); ok || err != nil {
		t.Fatalf("a watch before the first Publish delivers (%v, %v)", ok, err)
	}
	if _, _, err := s.List(NetworkPolicies, ""); !errors.Is(err, ErrNotReady) {
		t.Fatalf("List before the first Publish: %v", err)
	}
	if _, _, err := s.Get(NetworkPolicies, "x"); !errors.Is(err, ErrNotReady) {
		t.Fatalf("Get before the first Publish: %v", err)
	}
	s.Publish(Changes{Policies: []PolicyChange{{Policy: policyNamed("p", 1), SpanAdded: []string{"a"}}}})
	c := newClient(NetworkPolicies)
	if err := c.drain(w); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"ADDED p", "BOOKMARK "}, c.events); diff != "" {
		t.Fatal(diff)
	}
}

func TestDeletedPolicyCarriesSource(t *testing.T) {
	s := New(Options{})
	s.Publish(Changes{Policies: []PolicyChange{{Policy: policyNamed("p", 3), SpanAdded: []string{"a"}}}})
	w := mustWatch(t, s, NetworkPolicies, "a")
	c := newClient(NetworkPolicies)
	if err := c.drain(w); err != nil {
		t.Fatal(err)
	}
	s.Publish(Changes{Policies: []PolicyChange{{Policy: policyNamed("p", 3), Removed: true, SpanRemoved: []string{"a"}}}})
	ev, ok, err := w.TryNext()
	if !ok || err != nil || ev.Type != watch.Deleted {
		t.Fatalf("got %v %v %v", ev, ok, err)
	}
	got := ev.Object.(*v1beta2.NetworkPolicy)
	got.ResourceVersion = ""
	want := policyNamed("p", 3)
	want.Rules = nil
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatal(diff)
	}
}

func TestSlowReceiverIsCutOffAlone(t *testing.T) {
	s := New(Options{MaxPending: 10})
	for i := range 50 {
		s.Publish(Changes{Policies: []PolicyChange{{Policy: policyNamed(fmt.Sprintf("old%d", i), 1), SpanAdded: []string{"a"}}}})
	}
	slow, quick := mustWatch(t, s, NetworkPolicies, "a"), mustWatch(t, s, NetworkPolicies, "a")
	c := newClient(NetworkPolicies)
	for i := range 11 {
		if err := c.drain(quick); err != nil {
			t.Fatal(err)
		}
		if _, _, err := slow.TryNext(); err != nil {
			t.Fatalf("cut off after %d: what a watch begins with counts", i)
		}
		// The same object again and again is one pending change.
		for g := range int64(100) {
			s.Publish(Changes{Policies: []PolicyChange{{Policy: policyNamed(fmt.Sprintf("p%d", i), g), SpanAdded: []string{"a"}}}})
		}
	}
	if _, err := slow.Next(context.Background()); !errors.Is(err, ErrCutOff) {
		t.Fatalf("slow receiver: %v", err)
	}
	if err := c.drain(quick); err != nil {
		t.Fatal(err)
	}
	if len(c.policies) != 61 || s.Watchers(NetworkPolicies) != 1 {
		t.Fatalf("the quick receiver has %d policies, %d watchers are left", len(c.policies), s.Watchers(NetworkPolicies))
	}
	slow.Stop()
	if s.Watchers(NetworkPolicies) != 1 {
		t.Fatal("stopping a watch that was cut off takes another one with it")
	}
}

func TestNextEnds(t *testing.T) {
	s := New(Options{})
	w := mustWatch(t, s, AddressGroups, "a")
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := w.Next(ctx); !errors.Is(err, context.Canceled) {
		t.Fatalf("ended context: %v", err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		if _, err := w.Next(context.Background()); !errors.Is(err, ErrStopped) {
			t.Errorf("stopped watch: %v", err)
		}
	})
	w.Stop()
	w.Stop()
	wg.Wait()
}

// TestNodesWithTheSameAddress: an agent cannot tell them apart, so one stands for all, and the
// address stays in the group until the last of them goes (a Node that is replaced by one of another
// name has both for a moment).
func TestNodesWithTheSameAddress(t *testing.T) {
	s := New(Options{})
	s.Publish(Changes{})
	w, c := mustWatch(t, s, AddressGroups, "a"), newClient(AddressGroups)
	node := func(name string) Member {
		return &GivenMember{GroupMember: v1beta2.GroupMember{Node: &v1beta2.NodeReference{Name: name}, IPs: []v1beta2.IPAddress{{10, 0, 0, 1}}}}
	}
	names := func(step string, want ...string) {
		t.Helper()
		if err := c.drain(w); err != nil {
			t.Fatalf("%s: %v", step, err)
		}
		var got []string
		for _, m := range c.groups["g"] {
			got = append(got, m.Node.Name)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", step, diff)
		}
		if listed, err := listing(s, AddressGroups, "a"); err != nil || listed != c.state() {
			t.Errorf("%s: List gives %s, the client holds %s (%v)", step, listed, c.state(), err)
		}
	}
	change := func(added, removed []Member) {
		s.Publish(Changes{AddressGroups: []GroupChange{{Name: "g", Added: added, Removed: removed}}})
	}
	s.Publish(Changes{AddressGroups: []GroupChange{{Name: "g", Added: []Member{node("m")}, SpanAdded: []string{"a"}}}})
	names("one", "m")
	change([]Member{node("n")}, nil)
	names("two", "m")
	change([]Member{node("l")}, nil)
	names("three", "l")
	change(nil, []Member{node("l")})
	names("the first goes", "m")
	change([]Member{node("m")}, nil)
	names("one again", "m")
	change([]Member{node("k")}, []Member{node("m"), node("n")})
	names("replaced", "k")
	change(nil, []Member{node("k")})
	names("all go")
}

// TestOverwrittenAndGone: a member changes, goes and comes back as it was when it went, and the
// receiver, which has read none of that, still holds what was before.
func TestOverwrittenAndGone(t *testing.T) {
	pod := func(port int32) *GivenMember {
		return &GivenMember{GroupMember: v1beta2.GroupMember{Pod: &v1beta2.PodReference{Namespace: "ns", Name: "p"}, Ports: []v1beta2.NamedPort{{Name: "web", Port: port}}}}
	}
	node := func(name string) *GivenMember {
		return &GivenMember{GroupMember: v1beta2.GroupMember{Node: &v1beta2.NodeReference{Name: name}, IPs: []v1beta2.IPAddress{{10, 0, 0, 1}}}}
	}
	for what, c := range map[string]struct {
		first, then *GivenMember
		removed     []Member
	}{
		"the port of a Pod":                {pod(80), pod(81), nil},
		"another Node of the same address": {node("m"), node("n"), []Member{node("m")}},
	} {
		s := New(Options{})
		s.Publish(Changes{AddressGroups: []GroupChange{{Name: "g", Added: []Member{c.first}, SpanAdded: []string{"a"}}}})
		w, held := mustWatch(t, s, AddressGroups, "a"), newClient(AddressGroups)
		if err := held.drain(w); err != nil {
			t.Fatal(err)
		}
		for _, change := range []GroupChange{{Added: []Member{c.then}, Removed: c.removed}, {Removed: []Member{c.then}}, {Added: []Member{c.then}}} {
			change.Name = "g"
			s.Publish(Changes{AddressGroups: []GroupChange{change}})
		}
		if err := held.drain(w); err != nil {
			t.Fatal(err)
		}
		if listed, err := listing(s, AddressGroups, "a"); err != nil || listed != held.state() {
			t.Errorf("%s: List gives %s, the client holds %s (%v)", what, listed, held.state(), err)
		}
		got := slices.Collect(maps.Values(held.groups["g"]))
		if diff := cmp.Diff([]v1beta2.GroupMember{c.then.GroupMember}, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}
}

func TestUnknownResource(t *testing.T) {
	s := New(Options{})
	s.Publish(Changes{})
	if _, err := s.Watch("pods", ""); err == nil {
		t.Error("Watch of an unknown resource succeeds")
	}
	if _, _, err := s.List("pods", ""); err == nil {
		t.Error("List of an unknown resource succeeds")
	}
	if _, _, err := s.Get("pods", "x"); err == nil {
		t.Error("Get of an unknown resource succeeds")
	}
}

// TestConcurrentReceivers has writers and receivers at the same time; every receiver ends with what
// List says.
func TestConcurrentReceivers(t *testing.T) {
	s := New(Options{})
	s.Publish(Changes{})
	const rounds = 300
	var receivers sync.WaitGroup
	for i := range 8 {
		key := []string{"", "a", "b"}[i%3]
		r := Resources()[i%3]
		w := mustWatch(t, s, r, key)
		receivers.Go(func() {
			defer w.Stop()
			c := newClient(r)
			for {
				ev, err := w.Next(t.Context())
				if err != nil {
					t.Error(err)
					return
				}
				if err := c.receive(ev); err != nil {
					t.Errorf("%s for %q: %v", r, key, err)
					return
				}
				if c.policies["end"] != nil || c.groups["end"] != nil {
					return
				}
			}
		})
	}
	both := []string{"a", "b"}
	for i := range rounds {
		m := modelMember{host: both[i%2], ip: byte(i), port: 1}
		c := Changes{}
		if i%2 == 0 {
			c.AddressGroups = []GroupChange{{Name: "g", Added: []Member{m.member(AddressGroups, fmt.Sprint(i))}, SpanAdded: both}}
			c.AppliedToGroups = []GroupChange{{Name: "g", Added: []Member{m.member(AppliedToGroups, fmt.Sprint(i))}, SpanAdded: both}}
			c.Policies = []PolicyChange{{Policy: policyNamed("p", int64(i)), SpanAdded: both}}
		} else {
			c.AddressGroups = []GroupChange{{Name: "g", Deleted: true, SpanRemoved: both}}
			c.AppliedToGroups = []GroupChange{{Name: "g", Deleted: true, SpanRemoved: both}}
			c.Policies = []PolicyChange{{Policy: policyNamed("p", int64(i)), Removed: true, SpanRemoved: both}}
		}
		s.Publish(c)
	}
	s.Publish(Changes{
		AddressGroups:   []GroupChange{{Name: "end", SpanAdded: both}},
		AppliedToGroups: []GroupChange{{Name: "end", SpanAdded: both}},
		Policies:        []PolicyChange{{Policy: policyNamed("end", 1), SpanAdded: both}},
	})
	receivers.Wait()
}

func TestResumeFromAPosition(t *testing.T) {
	s := New(Options{FirstRevision: 100})
	if _, err := s.Resume(NetworkPolicies, "", Position(100)); !errors.Is(err, ErrExpired) {
		t.Errorf("before the first Publish: %v", err)
	}
	s.Publish(Changes{Policies: []PolicyChange{{Policy: &v1beta2.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Name: "p"}}}}})
	list, revision, err := s.List(NetworkPolicies, "")
	if err != nil || revision != 101 {
		t.Fatalf("revision %d, %v", revision, err)
	}
	for _, position := range []string{"", Position(100), Position(102), list[0].(*v1beta2.NetworkPolicy).ResourceVersion} {
		if _, err := s.Resume(NetworkPolicies, "", position); !errors.Is(err, ErrExpired) {
			t.Errorf("from %q: %v", position, err)
		}
	}
	if _, err := s.Resume("pods", "", Position(101)); err == nil || errors.Is(err, ErrExpired) {
		t.Errorf("of an unknown resource: %v", err)
	}
	w, err := s.Resume(NetworkPolicies, "", Position(101))
	if err != nil {
		t.Fatal(err)
	}
	ev, ok, err := w.TryNext()
	if err != nil || !ok || ev.Type != watch.Bookmark || ev.Object.(*v1beta2.NetworkPolicy).ResourceVersion != Position(101) {
		t.Errorf("got %v %t %v", ev, ok, err)
	}
	if ev, ok, _ := w.TryNext(); ok {
		t.Errorf("then %v", ev)
	}
}
