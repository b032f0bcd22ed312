package control

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/nephele-io/nephele/api/antrea/v1alpha2"
	"github.com/nephele-io/nephele/api/antrea/v1beta1"
	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
	"github.com/nephele-io/nephele/internal/apiserver/watchstore"
)

// fromGroup is a policy that names a ClusterGroup as its peer, and a tier.
func fromGroup(t *testing.T, tier string) *v1beta1.ClusterNetworkPolicy {
	return decode[v1beta1.ClusterNetworkPolicy](t, fmt.Sprintf(`
metadata: {name: p, uid: uid-p, generation: 1}
spec:
  tier: %s
  priority: 5
  appliedTo: [{externalEntitySelector: {matchLabels: {role: db}}}]
  ingress: [{name: r, action: Allow, from: [{group: web}], ports: [{port: http}]}]`, tier))
}

func (w *testWorld) wantClusterStatus(step, want string) {
	w.t.Helper()
	p := get(w, &v1beta1.ClusterNetworkPolicy{ObjectMeta: metav1.ObjectMeta{Name: "p"}})
	if got := line(p.Status); got != want {
		w.t.Errorf("%s: %s, want %s", step, got, want)
	}
}

// takeAll returns what a watcher has to say.
func takeAll(t *testing.T, watcher *watchstore.Watcher) []watch.Event {
	t.Helper()
	var out []watch.Event
	for {
		e, ok, err := watcher.TryNext()
		if err != nil {
			t.Fatal(err)
		}
		if !ok {
			return out
		}
		out = append(out, e)
	}
}

// A group that comes later, goes away and comes back as another one: the policy says so and
// recovers, and enforcers are told no more than what changes for them.
func TestGroupComesAndGoes(t *testing.T) {
	const fine, missing = "Realizing 0/1 gen 1 [Realizable=True  ]",
		`Realizing 0/1 gen 1 [Realizable=True  spec.ingress[0].from[0].group: invalid value "web": want an existing group]`
	w := newTestWorld(t)
	w.put(vm(t, "a", "db", "cloud-a"))
	w.put(vm(t, "b", "web", "cloud-b"))
	w.put(fromGroup(t, "application"))
	w.settle()
	watcher, err := w.Store().Watch(watchstore.AddressGroups, "cloud-a")
	if err != nil {
		t.Fatal(err)
	}
	defer watcher.Stop()
	w.wantClusterStatus("before the group", missing)
	group := func(uid string) *v1beta1.ClusterGroup {
		return decode[v1beta1.ClusterGroup](t, "{metadata: {name: web, uid: "+uid+"}, spec: {externalEntitySelector: {matchLabels: {role: web}}}}")
	}
	told := func(step string, want ...string) {
		t.Helper()
		var got []string
		for _, e := range takeAll(t, watcher) {
			if g, ok := e.Object.(*v1beta2.AddressGroup); ok && e.Type != watch.Bookmark {
				got = append(got, fmt.Sprintf("%s %s %s %d", e.Type, g.Name, g.UID, len(g.GroupMembers)))
			} else if e.Type != watch.Bookmark {
				got = append(got, fmt.Sprintf("%s %T", e.Type, e.Object))
			}
		}
		if strings.Join(got, "; ") != strings.Join(want, "; ") {
			t.Errorf("%s: %q, want %q", step, got, want)
		}
	}
	told("before the group")
	w.put(group("one"))
	w.settle()
	w.wantClusterStatus("the group came", fine)
	told("the group came", "ADDED web one 1")
	w.remove(group("one"))
	w.settle()
	w.wantClusterStatus("the group went", missing)
	told("the group went", "DELETED web one 0")
	w.put(group("two"))
	w.settle()
	told("the group came back", "ADDED web two 1")

	// Between two rounds: the same members, so nothing to tell, but it is another one.
	w.remove(group("two"))
	w.put(group("three"))
	w.settle()
	w.wantClusterStatus("the group was replaced", fine)
	told("the group was replaced")
	objects, _, err := w.Store().List(watchstore.AddressGroups, "")
	if err != nil || len(objects) != 1 || objects[0].(*v1beta2.AddressGroup).UID != "three" {
		t.Errorf("listed: %v, %v", objects, err)
	}
	w.remove(group("three"))
	w.settle()
	told("the group went again", "DELETED web three 0")
}

// A tier that comes later and is replaced: the policy says so and recovers.
func TestTierComesAndGoes(t *testing.T) {
	w := newTestWorld(t)
	w.put(vm(t, "a", "db", "cloud-a"))
	w.put(decode[v1beta1.ClusterGroup](t, `{metadata: {name: web}, spec: {externalEntitySelector: {}}}`))
	w.put(fromGroup(t, "gold"))
	w.settle()
	const missing = `Failed 0/0 gen 1 [Realizable=False NetworkPolicyInvalid spec.tier: invalid value "gold": want the name of an existing Tier]`
	w.wantClusterStatus("before the tier", missing)
	gold := &v1beta1.Tier{ObjectMeta: metav1.ObjectMeta{Name: "gold"}, Spec: v1beta1.TierSpec{Priority: 7}}
	w.put(gold)
	w.settle()
	w.wantClusterStatus("the tier came", "Realizing 0/1 gen 1 [Realizable=True  ]")
	w.remove(gold)
	w.settle()
	w.wantClusterStatus("the tier went", missing)
	gold.Spec.Priority = 8
	w.put(gold)
	w.settle()
	w.wantClusterStatus("the tier came back", "Realizing 0/1 gen 1 [Realizable=True  ]")
	objects, _, err := w.Store().List(watchstore.NetworkPolicies, "cloud-a")
	if err != nil || len(objects) != 1 || *objects[0].(*v1beta2.NetworkPolicy).TierPriority != 8 {
		t.Errorf("listed: %v, %v", objects, err)
	}
}

// Every reason of GroupMembersComputed.
func TestGroupConditions(t *testing.T) {
	w := newTestWorld(t)
	for name, spec := range map[string]string{
		"lonely": "{childGroups: [nobody]}", "blocks": "{ipBlocks: [{cidr: 10.0.0.0/33}]}",
		"operator": "{podSelector: {matchExpressions: [{key: a, operator: Like}]}}", "self": "{childGroups: [self]}",
	} {
		w.put(decode[v1beta1.ClusterGroup](t, "{metadata: {name: "+name+", uid: u-"+name+"}, spec: "+spec+"}"))
	}
	w.settle()
	want := func(name, want string) {
		t.Helper()
		g := get(w, &v1beta1.ClusterGroup{ObjectMeta: metav1.ObjectMeta{Name: name}})
		c := g.Status.Conditions[0]
		if got := fmt.Sprintf("%s %s: %s", c.Status, c.Reason, c.Message); !strings.HasPrefix(got, want) {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
	want("lonely", `True : spec.childGroups[0]: invalid value "nobody": want an existing group`)
	want("blocks", `False GroupInvalid: spec.ipBlocks[0].cidr: invalid value "10.0.0.0/33"`)
	want("operator", "False GroupInvalid: spec.podSelector.matchExpressions[0].operator")
	want("self", "False ChildGroupsNestingExceeded: spec.childGroups[0]")
	w.put(decode[v1beta1.ClusterGroup](t, "{metadata: {name: nobody}, spec: {podSelector: {}}}"))
	w.put(decode[v1beta1.ClusterGroup](t, "{metadata: {name: blocks, uid: u-blocks}, spec: {ipBlocks: [{cidr: 10.0.0.0/8}]}}"))
	w.settle()
	want("lonely", "True : ")
	want("blocks", "True : ")
}

// A changed list of named ports changes no identity, and is told all the same: as an addition that
// overwrites.
func TestChangedPortsAreTold(t *testing.T) {
	w := newTestWorld(t)
	w.put(vm(t, "a", "db", "cloud-a"))
	w.put(vm(t, "b", "web", "cloud-b"))
	w.put(decode[v1beta1.ClusterGroup](t, `{metadata: {name: web}, spec: {externalEntitySelector: {matchLabels: {role: web}}}}`))
	w.put(fromGroup(t, "application"))
	w.settle()
	peers, err := w.Store().Watch(watchstore.AddressGroups, "cloud-a")
	if err != nil {
		t.Fatal(err)
	}
	defer peers.Stop()
	applied, err := w.Store().Watch(watchstore.AppliedToGroups, "cloud-a")
	if err != nil {
		t.Fatal(err)
	}
	defer applied.Stop()
	takeAll(t, peers)
	takeAll(t, applied)
	withPort := func(name, role, host string, port int32) *v1alpha2.ExternalEntity {
		x := vm(t, name, role, host)
		x.Spec.Ports = []v1alpha2.NamedPort{{Name: "http", Port: port}}
		return x
	}
	w.put(withPort("b", "web", "cloud-b", 8080))
	w.put(withPort("a", "db", "cloud-a", 80))
	w.settle()
	for _, watcher := range []*watchstore.Watcher{peers, applied} {
		var added, removed []v1beta2.GroupMember
		events := takeAll(t, watcher)
		if len(events) != 1 || events[0].Type != watch.Modified {
			t.Fatalf("events: %+v", events)
		}
		switch p := events[0].Object.(type) {
		case *v1beta2.AddressGroupPatch:
			added, removed = p.AddedGroupMembers, p.RemovedGroupMembers
		case *v1beta2.AppliedToGroupPatch:
			added, removed = p.AddedGroupMembers, p.RemovedGroupMembers
		}
		if len(added) != 1 || len(removed) != 0 || len(added[0].Ports) != 1 {
			t.Errorf("patch: %+v, %+v", added, removed)
		}
	}
	w.put(withPort("b", "web", "cloud-b", 8080))
	w.settle()
	if events := takeAll(t, peers); len(events) > 0 {
		t.Errorf("nothing changed, but: %+v", events)
	}
}

// A Group as what a policy of its Namespace is applied to, while it has members elsewhere: the
// policy is not realized.
func TestGroupAcrossNamespaces(t *testing.T) {
	const fine = "Realizing 0/1 gen 1 [Realizable=True  ]"
	w := newTestWorld(t)
	w.put(decode[corev1.Namespace](t, "metadata: {name: vms, labels: {team: a}}"))
	w.put(decode[corev1.Namespace](t, "metadata: {name: other, labels: {team: a}}"))
	w.put(vm(t, "a", "db", "cloud-a"))
	w.put(decode[v1beta1.Group](t, "{metadata: {namespace: vms, name: g}, spec: {namespaceSelector: {matchLabels: {team: a}}, externalEntitySelector: {}}}"))
	p := allowSSH(t, "p", "db", 1)
	p.Spec.AppliedTo = []v1beta1.AppliedTo{{Group: "g"}}
	w.put(p)
	w.settle()
	w.wantStatus("nobody elsewhere", "p", fine)
	stranger := vm(t, "b", "db", "cloud-b")
	stranger.Namespace = "other"
	w.put(stranger)
	w.settle()
	w.wantStatus("somebody elsewhere", "p", "Failed 0/0 gen 1 [Realizable=False NetworkPolicyAppliedToUnsupportedGroup "+
		`spec.appliedTo[0].group: invalid value "g": want a group that selects nothing outside the Namespace of the policy]`)
	for _, r := range watchstore.Resources() {
		if objects, _, err := w.Store().List(r, ""); err != nil || len(objects) != 0 {
			t.Errorf("%s: %d objects are published (%v)", r, len(objects), err)
		}
	}
	w.put(decode[corev1.Namespace](t, "metadata: {name: other, labels: {team: b}}"))
	w.settle()
	w.wantStatus("its Namespace is not selected any more", "p", fine)
}
