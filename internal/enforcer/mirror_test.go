package enforcer

import (
	"context"
	"errors"
	"testing"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
)

// scripted is a Source that plays fixed streams and then fails.
type scripted map[Resource][]watch.Event

type scriptedStream struct{ events []watch.Event }

var errScriptEnds = errors.New("the script ends")

func (s scripted) Watch(_ context.Context, r Resource, _ string) (Stream, error) {
	return &scriptedStream{s[r]}, nil
}

func (s *scriptedStream) Stop() {}

func (s *scriptedStream) Next(context.Context) (watch.Event, error) {
	if len(s.events) == 0 {
		return watch.Event{}, errScriptEnds
	}
	ev := s.events[0]
	s.events = s.events[1:]
	return ev, nil
}

func entityMember(name string, ips ...string) v1beta2.GroupMember {
	m := v1beta2.GroupMember{ExternalEntity: &v1beta2.ExternalEntityReference{Namespace: "vms", Name: name}}
	for _, ip := range ips {
		m.IPs = append(m.IPs, v1beta2.IPAddress(ip))
	}
	return m
}

func named(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Name: name} }

func bookmark(o runtime.Object) watch.Event { return watch.Event{Type: watch.Bookmark, Object: o} }

func policyWithPeer(name, group string) *v1beta2.NetworkPolicy {
	return &v1beta2.NetworkPolicy{ObjectMeta: named(name), AppliedToGroups: []string{"a"}, Rules: []v1beta2.NetworkPolicyRule{
		{Direction: v1beta2.DirectionIn, From: v1beta2.NetworkPolicyPeer{AddressGroups: []string{group}}}}}
}

// appliedGroups is a stream of the one applied-to group that the policies here name.
func appliedGroups() []watch.Event {
	return []watch.Event{{Type: watch.Added, Object: &v1beta2.AppliedToGroup{ObjectMeta: named("a")}}, bookmark(&v1beta2.AppliedToGroup{})}
}

func play(t *testing.T, s scripted) (*Mirror, map[Resource]error) {
	t.Helper()
	m := Follower{Source: s, Clock: clocktesting.NewFakeClock(metav1.Now().Time), Log: logr.Discard()}.Mirror("cloud/ns/a", nil)
	ends := map[Resource]error{}
	for r := range s {
		ends[r] = m.follow(t.Context(), r, func() {})
	}
	return m, ends
}

func TestMirrorFollowsStreams(t *testing.T) {
	group := &v1beta2.AddressGroup{ObjectMeta: named("g"), GroupMembers: []v1beta2.GroupMember{entityMember("web1", "1"), entityMember("web2", "2")}}
	m, ends := play(t, scripted{
		NetworkPolicies: {{Type: watch.Added, Object: policyWithPeer("p", "g")}, bookmark(&v1beta2.NetworkPolicy{}),
			{Type: watch.Added, Object: policyWithPeer("q", "g")}, {Type: watch.Deleted, Object: policyWithPeer("p", "g")}},
		AddressGroups: {{Type: watch.Added, Object: group}, bookmark(&v1beta2.AddressGroup{}),
			{Type: watch.Modified, Object: &v1beta2.AddressGroupPatch{ObjectMeta: named("g"),
				AddedGroupMembers: []v1beta2.GroupMember{entityMember("web2", "22")}, RemovedGroupMembers: []v1beta2.GroupMember{entityMember("web2", "2")}}}},
		AppliedToGroups: appliedGroups(),
	})
	for r, err := range ends {
		if !errors.Is(err, errScriptEnds) {
			t.Errorf("%s: %v", r, err)
		}
	}
	got, _, err := m.Current()
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Policies) != 1 || got.Policies[0].Name != "q" {
		t.Errorf("policies = %v, want q alone", got.Policies)
	}
	var ips []string
	for _, mem := range got.AddressGroups[0].Object().GroupMembers {
		ips = append(ips, mem.ExternalEntity.Name+"="+string(mem.IPs[0]))
	}
	if len(ips) != 2 || ips[0] != "web1=1" || ips[1] != "web2=22" {
		t.Errorf("members = %v, want web1=1 web2=22", ips)
	}
	if len(group.GroupMembers) != 2 || string(group.GroupMembers[1].IPs[0]) != "2" {
		t.Error("the patch changed the object in place; a plan may still be reading it")
	}
}

func TestMirrorIsIncomplete(t *testing.T) {
	for name, s := range map[string]scripted{
		"a kind without bookmark": {
			NetworkPolicies: {bookmark(&v1beta2.NetworkPolicy{})}, AddressGroups: {bookmark(&v1beta2.AddressGroup{})}, AppliedToGroups: {}},
		"a policy names a group that has not come": {
			NetworkPolicies: {{Type: watch.Added, Object: policyWithPeer("p", "g")}, bookmark(&v1beta2.NetworkPolicy{})},
			AddressGroups:   {bookmark(&v1beta2.AddressGroup{})}, AppliedToGroups: appliedGroups()},
		"a policy names applied-to groups of which none has come": {
			NetworkPolicies: {{Type: watch.Added, Object: policyWithPeer("p", "g")}, bookmark(&v1beta2.NetworkPolicy{})},
			AddressGroups:   {{Type: watch.Added, Object: &v1beta2.AddressGroup{ObjectMeta: named("g")}}, bookmark(&v1beta2.AddressGroup{})},
			AppliedToGroups: {bookmark(&v1beta2.AppliedToGroup{})}},
	} {
		m, _ := play(t, s)
		if got, _, err := m.Current(); err == nil {
			t.Errorf("%s: Current() = %v, want an error: planning on it would open or cut flows", name, got)
		}
	}
}

func TestMirrorRefusesStreamsOutOfStep(t *testing.T) {
	for name, events := range map[string][]watch.Event{
		"a second bookmark":           {bookmark(&v1beta2.AddressGroup{}), bookmark(&v1beta2.AddressGroup{})},
		"patch of unknown group":      {bookmark(&v1beta2.AddressGroup{}), {Type: watch.Modified, Object: &v1beta2.AddressGroupPatch{ObjectMeta: named("x")}}},
		"change before bookmark":      {{Type: watch.Deleted, Object: &v1beta2.AddressGroup{ObjectMeta: named("x")}}},
		"an error event":              {{Type: watch.Error, Object: &metav1.Status{Message: "too old"}}},
		"an object of other kind":     {{Type: watch.Added, Object: &metav1.Status{}}, bookmark(&v1beta2.AddressGroup{})},
		"an object of another stream": {{Type: watch.Added, Object: &v1beta2.AppliedToGroup{}}, bookmark(&v1beta2.AddressGroup{})},
		"a patch of another stream": {{Type: watch.Added, Object: &v1beta2.AddressGroup{ObjectMeta: named("x")}}, bookmark(&v1beta2.AddressGroup{}),
			{Type: watch.Modified, Object: &v1beta2.AppliedToGroupPatch{ObjectMeta: named("x")}}},
		"a whole group as change": {{Type: watch.Added, Object: &v1beta2.AddressGroup{ObjectMeta: named("x")}}, bookmark(&v1beta2.AddressGroup{}),
			{Type: watch.Modified, Object: &v1beta2.AddressGroup{ObjectMeta: named("x")}}},
		"a patch as addition": {bookmark(&v1beta2.AddressGroup{}), {Type: watch.Added, Object: &v1beta2.AddressGroupPatch{ObjectMeta: named("x")}}},
		"an unknown type":     {bookmark(&v1beta2.AddressGroup{}), {Type: "RENAMED", Object: &v1beta2.AddressGroup{}}},
	} {
		_, ends := play(t, scripted{AddressGroups: events})
		if err := ends[AddressGroups]; err == nil || errors.Is(err, errScriptEnds) {
			t.Errorf("%s: the stream went on (%v), want it given up so that it is watched anew", name, err)
		}
	}
}

// TestBrokenStreamKeepsWhatIsKnown: what was mirrored stays in force until the next bookmark.
func TestBrokenStreamKeepsWhatIsKnown(t *testing.T) {
	m, _ := play(t, scripted{
		NetworkPolicies: {{Type: watch.Added, Object: policyWithPeer("p", "g")}, bookmark(&v1beta2.NetworkPolicy{})},
		AddressGroups:   {{Type: watch.Added, Object: &v1beta2.AddressGroup{ObjectMeta: named("g")}}, bookmark(&v1beta2.AddressGroup{})},
		AppliedToGroups: appliedGroups(),
	})
	m.how.Source = scripted{NetworkPolicies: {}}
	if err := m.follow(t.Context(), NetworkPolicies, func() {}); !errors.Is(err, errScriptEnds) {
		t.Fatal(err)
	}
	if got, _, err := m.Current(); err != nil || len(got.Policies) != 1 {
		t.Errorf("Current() = %v, %v; want the one policy that was known", got.Policies, err)
	}
}
