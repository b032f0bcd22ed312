package clusterset_test

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nephele-io/nephele/api/antrea/v1beta1"
	setv1alpha1 "github.com/nephele-io/nephele/api/set/v1alpha1"
	"github.com/nephele-io/nephele/internal/clusterset/wire"
	"github.com/nephele-io/nephele/internal/enroll"
	"github.com/nephele-io/nephele/internal/enroll/credential"
)

// untilSync collects what the hub tells until it has told all.
func untilSync(told <-chan *wire.Down) (all []*wire.Down) {
	for d := range told {
		if all = append(all, d); d.Sync != nil {
			break
		}
	}
	return all
}

// TestMemberSees: a member receives the policies for it and the members of their peers, by
// addresses and without names and labels, and nothing of what other members receive.
func TestMemberSees(t *testing.T) {
	s := newSet(t, "east", "west", "north")
	for i, name := range []string{"east", "west"} { // what is for one of them alone
		p := fromWeb("for-"+name, "of-"+name)
		p.Annotations[setv1alpha1.AnnotationClusters] = setv1alpha1.LabelClusterName + "=" + name
		s.must(s.hub.Create(t.Context(), p))
		s.pod("north", "name-for-"+name, "of-"+name, fmt.Sprintf("10.3.0.%d", i+1))
	}
	s.until("north is known", func() (bool, any) { c := s.cluster("north"); return c.Status.Entities == 2, c.Status })
	s.is("west", setv1alpha1.ClusterInSync, metav1.ConditionTrue)
	_, told := s.asks("west")
	raw, err := json.Marshal(untilSync(told))
	s.must(err)
	text := string(raw)
	for _, secret := range []string{"10.3.0.1", "for-east", "of-east", "name-for-west", `"north":`} {
		if strings.Contains(text, secret) {
			t.Errorf("west is told %q: %s", secret, text)
		}
	}
	if !strings.Contains(text, "10.3.0.2") || !strings.Contains(text, "for-west") {
		t.Errorf("west is not told what is for it: %s", text)
	}
}

// TestNothingUpward: a member sends no policies, groups, labels of its Cluster or answers to what
// nobody has asked: such parts of its records do nothing, and the rest counts. One that speaks the
// former version is served as before.
func TestNothingUpward(t *testing.T) {
	s := newSet(t, "east", "west")
	s.must(s.hub.Create(t.Context(), fromWeb("p", "web")))
	s.pod("west", "web", "web", "10.2.0.5")
	s.knowsAll("east", "10.2.0.5")
	tell, told := s.asksAs("west", &wire.Hello{Version: wire.Oldest, Oldest: wire.Oldest, Epoch: "old"})
	first := <-told
	if w := first.Welcome; w == nil || w.Version != wire.Oldest {
		t.Fatalf("%+v", first)
	}
	line := map[string]any{}
	raw, err := json.Marshal(&wire.Up{Whole: true, Listed: true, Namespaces: []wire.Namespace{{Name: "shop"}}, LabelSets: []wire.LabelSet{{ID: 1, Labels: map[string]string{"app": "web"}}},
		Entities: []wire.Entity{{Ref: wire.Ref{Kind: wire.Pod, Namespace: "shop", Name: "new"}, Labels: 1, Addresses: []netip.Addr{netip.MustParseAddr("10.2.0.6")}}}})
	s.must(err)
	s.must(json.Unmarshal(raw, &line))
	policy := map[string]any{"uid": "x", "generation": 1, "kind": "ClusterNetworkPolicy.crd.antrea.io", "object": map[string]any{"metadata": map[string]any{"name": "forged"}}}
	line["policies"], line["parts"] = []any{policy}, []any{map[string]any{"g": "ga00", "c": "east", "a": []string{"10.1.0.1"}}}
	line["welcome"], line["cluster"], line["taken"] = map[string]any{"version": 1, "labels": map[string]string{"env": "x"}}, "east", map[string]any{"by": map[string]string{"aws/1/a": "east"}}
	line["answers"] = []any{map[string]any{"id": 7, "flow": map[string]any{}}}
	s.must(tell(line))
	s.knowsAll("east", "10.2.0.6")
	var policies v1beta1.ClusterNetworkPolicyList
	s.must(s.sides["east"].List(t.Context(), &policies))
	if len(policies.Items) != 1 || policies.Items[0].Name != "hub-p" {
		t.Errorf("%v", policies.Items)
	}
	if c := s.cluster("west"); c.Labels["env"] != "prod" || c.Status.Refused != 0 {
		t.Errorf("%+v", c)
	}
}

// TestTwoOfOneName: of two processes that are one member by their certificate, perhaps because
// somebody has copied it, the later counts; the first is told, and takes nothing with it.
func TestTwoOfOneName(t *testing.T) {
	s := newSet(t, "east", "west")
	s.must(s.hub.Create(t.Context(), fromWeb("p", "web")))
	s.pod("west", "web", "web", "10.2.0.5")
	s.knowsAll("east", "10.2.0.5")
	_, first := s.asks("west")
	for (<-first).Welcome == nil {
	}
	_, second := s.asksAs("west", &wire.Hello{Version: wire.Version, Oldest: wire.Oldest, Epoch: "copied"})
	if d := <-second; d.Welcome == nil {
		t.Errorf("%+v", d)
	}
	end := ""
	for d := range first {
		end = d.End
	}
	if !strings.Contains(end, "connected anew") {
		t.Errorf("the first is told %q", end)
	}
	if got := s.sides["east"].all(); !slices.Equal(got, []string{"10.2.0.5"}) {
		t.Errorf("east knows %v", got)
	}
}

// TestBadInput: each mistake is one sentence, and nothing is lost by it.
func TestBadInput(t *testing.T) {
	s, other := newSet(t, "east", "west"), newSet(t)
	p := fromWeb("p", "web")
	s.must(s.hub.Create(t.Context(), p))
	s.pod("east", "web", "web", "10.1.0.5")
	s.knowsAll("west", "10.1.0.5")
	says := func(what, got string, want ...string) {
		t.Helper()
		for _, w := range want {
			if !strings.Contains(got, w) {
				t.Errorf("%s: %q does not say %q", what, got, w)
			}
		}
		if strings.Contains(got, "\n") {
			t.Errorf("%s: %q is more than one line", what, got)
		}
	}
	join := func(token credential.Invitation, server string) string {
		key, err := credential.NewKey()
		s.must(err)
		if _, err = credential.Join(t.Context(), server, token, nil, key); err == nil {
			return ""
		}
		return err.Error()
	}
	invite := func(name string) credential.Invitation {
		token, _, err := enroll.InviteCluster(t.Context(), s.hub, s.cluster(name), s.server.Listener.Addr().String(), time.Hour, s.clock.Now())
		s.must(err)
		return token
	}
	token := invite("west")
	says("a token of another hub", join(token, other.server.URL), "certificate")
	if err := join(token, s.server.URL); err != "" {
		t.Error(err)
	}
	says("a token twice", join(token, s.server.URL), "used")
	token = invite("west")
	s.clock.Step(2 * time.Hour)
	says("an expired token", join(token, s.server.URL), "ended")

	// Addresses that another has, and clusters that there are not.
	c := &setv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "zone", CreationTimestamp: metav1.NewTime(s.clock.Now())}}
	c.Spec.Addresses.Pods = []string{"10.1.4.0/24"}
	s.must(s.hub.Create(t.Context(), c))
	s.until("the overlap is told", func() (bool, any) {
		found := meta.FindStatusCondition(s.cluster("zone").Status.Conditions, setv1alpha1.ClusterClaimsRefused)
		return found != nil && found.Reason == setv1alpha1.ReasonOverlap && strings.Contains(found.Message, "addresses of east, which had them first"), found
	})
	nowhere := fromWeb("nowhere", "web")
	nowhere.Spec.Ingress[0].From[0].NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{setv1alpha1.LabelClusterName: "atlantis"}}
	s.must(s.hub.Create(t.Context(), nowhere))
	s.until("the missing cluster is told", func() (bool, any) {
		r := s.told.of(string(nowhere.UID), "east")
		return r.Reason == setv1alpha1.ReasonNoCluster && strings.Contains(r.Message, "names the cluster atlantis"), r
	})
	if got := s.sides["west"].all(); !slices.Equal(got, []string{"10.1.0.5"}) {
		t.Errorf("%v is left", got)
	}
	var ns corev1.Namespace
	s.must(s.sides["west"].Get(t.Context(), client.ObjectKey{Name: "shop"}, &ns))
}
