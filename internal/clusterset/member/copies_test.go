package member

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/nephele-io/nephele/api/antrea/v1alpha2"
	"github.com/nephele-io/nephele/api/antrea/v1beta1"
	cloudv1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	setv1alpha1 "github.com/nephele-io/nephele/api/set/v1alpha1"
	"github.com/nephele-io/nephele/internal/clusterset/member/copies"
	"github.com/nephele-io/nephele/internal/clusterset/wire"
	"github.com/nephele-io/nephele/internal/policy"
)

type noPolicies struct{}

func (noPolicies) PutRemote([]policy.Entity, []policy.EntityRef)                 {}
func (noPolicies) PutOwnLabels(map[string]string)                                {}
func (noPolicies) PutPeerNotes(map[string]string)                                {}
func (noPolicies) FollowCopies(func(client.Object, v1beta1.NetworkPolicyStatus)) {}

func testMember(t *testing.T, objects ...client.Object) *Member {
	s := runtime.NewScheme()
	if err := errors.Join(corev1.AddToScheme(s), networkingv1.AddToScheme(s), v1alpha2.AddToScheme(s), v1beta1.AddToScheme(s), setv1alpha1.AddToScheme(s)); err != nil {
		t.Fatal(err)
	}
	c := fake.NewClientBuilder().WithScheme(s).WithObjects(objects...).Build()
	return New(Options{Client: c, Live: c, Policies: noPolicies{}, Clock: clocktesting.NewFakeClock(time.Unix(1e9, 0)), Log: logr.Discard(), Random: func() float64 { return 0 }})
}

const (
	clusterPolicy = `{"apiVersion":"crd.antrea.io/v1beta1","kind":"ClusterNetworkPolicy","metadata":{"name":"p","labels":{"a":"b"}},"spec":{"priority":5,"tier":"ours","appliedTo":[{"group":"g"}],"ingress":[{"action":"Drop","from":[{"group":"g"}]}]}}`
	spacePolicy   = `{"apiVersion":"crd.antrea.io/v1beta1","kind":"NetworkPolicy","metadata":{"name":"p","namespace":"shop"},"spec":{"priority":5,"appliedTo":[{"podSelector":{}}]}}`
	group         = `{"apiVersion":"crd.antrea.io/v1beta1","kind":"ClusterGroup","metadata":{"name":"g","uid":"ug"},"spec":{"childGroups":["h"]}}`
	tier          = `{"apiVersion":"crd.antrea.io/v1beta1","kind":"Tier","metadata":{"name":"ours","uid":"ut","labels":{"nephele.io/use":"required"}},"spec":{"priority":7}}`
)

func received(kind, object string, needs ...string) *wire.Policy {
	p := &wire.Policy{UID: "u", Generation: 2, Kind: kind, Object: []byte(object), Groups: []string{"gab"}}
	for _, n := range needs {
		p.Needs = append(p.Needs, []byte(n))
	}
	return p
}

// TestPut: a policy is written with what it names, under names that are the hub's, after the groups
// that it names are on record; and not again while it stays so.
func TestPut(t *testing.T) {
	m := testMember(t)
	p := received("ClusterNetworkPolicy.crd.antrea.io", clusterPolicy, tier, group)
	m.book.Know("gab")
	for range 2 {
		if err := m.put(t.Context(), &setv1alpha1.Membership{}, p); err != nil {
			t.Fatal(err)
		}
	}
	var written v1beta1.ClusterNetworkPolicy
	var copied v1beta1.ClusterGroup
	var made v1beta1.Tier
	for name, o := range map[string]client.Object{"hub-p": &written, "hub-g": &copied, "ours": &made, "gab": &setv1alpha1.RemoteGroup{}} {
		if err := m.Client.Get(t.Context(), client.ObjectKey{Name: name}, o); err != nil {
			t.Fatal(err)
		}
	}
	if written.Spec.AppliedTo[0].Group != "hub-g" || written.Spec.Ingress[0].From[0].Group != "hub-g" || copied.Spec.ChildGroups[0] != "hub-h" || written.ResourceVersion != "1" ||
		written.Labels[setv1alpha1.LabelFromHub] != "true" || written.Labels["a"] != "b" || written.Annotations[setv1alpha1.AnnotationSource] != "u" {
		t.Errorf("%+v %+v", written, copied)
	}
	if made.Labels[cloudv1.LabelTierUse] != "required" {
		t.Error("authors of policies here may write some before the policies of the hub")
	}
	// What the hub takes back goes, but not before it has told all.
	if _, err := m.prune(t.Context()); err != nil || m.Client.Get(t.Context(), client.ObjectKey{Name: "hub-p"}, &written) != nil {
		t.Fatal("removed before the hub has told all")
	}
	m.ledger.Synced(nil)
	if _, err := m.prune(t.Context()); err != nil {
		t.Fatal(err)
	}
	for name, o := range map[string]client.Object{"hub-p": &written, "hub-g": &copied} {
		if err := m.Client.Get(t.Context(), client.ObjectKey{Name: name}, o); client.IgnoreNotFound(err) != nil || err == nil {
			t.Errorf("%s is still there: %v", name, err)
		}
	}
	if m.book.Knows("gab") {
		t.Error("its remote group is still there")
	}
}

// TestOldVersionKeepsItsGroups: while this cluster cannot write the new version of a policy or of a
// group, the old version stays in force with all groups that it names. They go when the new version
// is written.
func TestOldVersionKeepsItsGroups(t *testing.T) {
	kind := "ClusterNetworkPolicy.crd.antrea.io"
	child := `{"apiVersion":"crd.antrea.io/v1beta1","kind":"ClusterGroup","metadata":{"name":"h","uid":"uh","generation":1},"spec":{}}`
	without := strings.NewReplacer(`"appliedTo":[{"group":"g"}]`, `"appliedTo":[{"podSelector":{}}]`, `{"group":"g"}`, `{"podSelector":{}}`).Replace(clusterPolicy)
	oddGroup := strings.Replace(group, `"spec":{`, `"spec":{"odd":1,`, 1)
	for name, next := range map[string]*wire.Policy{
		"a policy not understood":  received(kind, strings.Replace(without, `"action"`, `"unless":"x","action"`, 1), tier),
		"its group not understood": received(kind, without, tier, oddGroup),
		"its tier refused":         received(kind, without, strings.NewReplacer("ours", "other", "ut", "uo").Replace(tier)),
	} {
		t.Run(name, func(t *testing.T) {
			m := testMember(t, &setv1alpha1.Membership{ObjectMeta: metav1.ObjectMeta{Name: setv1alpha1.MembershipName}},
				&v1beta1.Tier{ObjectMeta: metav1.ObjectMeta{Name: "other"}, Spec: v1beta1.TierSpec{Priority: 8}})
			give := func(p *wire.Policy) (again bool) {
				m.book.Know("gab")
				m.ledger.Want(p)
				m.ledger.Synced([]string{p.UID})
				again, _ = m.writeAll(t.Context())
				return again
			}
			there := func() string {
				var found []string
				for name, o := range map[string]client.Object{"hub-p": &v1beta1.ClusterNetworkPolicy{}, "hub-g": &v1beta1.ClusterGroup{}, "hub-h": &v1beta1.ClusterGroup{}, "gab": &setv1alpha1.RemoteGroup{}} {
					if err := m.Client.Get(t.Context(), client.ObjectKey{Name: name}, o); err == nil {
						found = append(found, name)
					} else if client.IgnoreNotFound(err) != nil {
						t.Fatal(err)
					}
				}
				slices.Sort(found)
				return strings.Join(found, " ")
			}
			all := "gab hub-g hub-h hub-p"
			if again := give(received(kind, clusterPolicy, tier, group, child)); again || there() != all {
				t.Fatalf("at first: %s, again %t", there(), again)
			}
			next.Generation, next.Groups = 3, nil
			if again := give(next); !again || there() != all || !m.book.Knows("gab") {
				t.Errorf("refused: %s, again %t; want %s, because the old version stays", there(), again, all)
			}
			last := received(kind, without, tier)
			last.Generation, last.Groups = 4, nil
			m.ledger.Want(last)
			m.writeAll(t.Context())
			m.writeAll(t.Context())
			if got := there(); m.book.Knows("gab") || strings.Contains(got, "hub-g") || strings.Contains(got, "hub-h") || !strings.Contains(got, "hub-p") {
				t.Errorf("written: %s; want no group", got)
			}
		})
	}
}

// TestRefusals: what is not accepted, not understood or not possible is not written, and says why.
func TestRefusals(t *testing.T) {
	no := false
	cluster, space := "ClusterNetworkPolicy.crd.antrea.io", "NetworkPolicy.crd.antrea.io"
	for name, c := range map[string]struct {
		p      *wire.Policy
		accept setv1alpha1.Acceptance
		there  []client.Object
		reason string
	}{
		"cluster-wide":          {p: received(cluster, clusterPolicy), accept: setv1alpha1.Acceptance{ClusterWide: &no}, reason: copies.NotAccepted},
		"a tier":                {p: received(cluster, clusterPolicy), accept: setv1alpha1.Acceptance{Tiers: []string{"application"}}, reason: copies.NotAccepted},
		"a Namespace":           {p: received(space, spacePolicy), accept: setv1alpha1.Acceptance{Namespaces: []string{"dev", "team-*"}}, reason: copies.NotAccepted},
		"no Namespace here":     {p: received(space, spacePolicy), reason: copies.NoNamespace},
		"an unknown kind":       {p: received("Firewall.example.org", clusterPolicy), reason: copies.NeedsNewer},
		"an unknown part":       {p: received(cluster, strings.Replace(clusterPolicy, `"action"`, `"unless":"x","action"`, 1)), reason: copies.NeedsNewer},
		"names what is unknown": {p: received(cluster, clusterPolicy, `{"kind":"Feed"}`), reason: copies.NeedsNewer},
		"another tier":          {p: received(cluster, clusterPolicy, tier), there: []client.Object{&v1beta1.Tier{ObjectMeta: metav1.ObjectMeta{Name: "ours"}, Spec: v1beta1.TierSpec{Priority: 8}}}, reason: copies.TierRefused},
		"somebody's own":        {p: received(cluster, clusterPolicy), there: []client.Object{&v1beta1.ClusterNetworkPolicy{ObjectMeta: metav1.ObjectMeta{Name: "hub-p"}}}, reason: copies.NameTaken},
	} {
		t.Run(name, func(t *testing.T) {
			m := testMember(t, c.there...)
			m.book.Know("gab")
			err := m.put(t.Context(), &setv1alpha1.Membership{Spec: setv1alpha1.MembershipSpec{Accept: c.accept}}, c.p)
			var v *copies.Refusal
			if !errors.As(err, &v) || v.Reason != c.reason {
				t.Errorf("%v, want %s", err, c.reason)
			}
			var list v1beta1.ClusterNetworkPolicyList
			if err := m.Client.List(t.Context(), &list); err != nil || len(list.Items) > len(c.there) {
				t.Errorf("%v %v", err, list.Items)
			}
		})
	}
}
