package hub

import (
	"slices"
	"strings"
	"testing"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nephele-io/nephele/api/antrea/v1beta1"
	setv1alpha1 "github.com/nephele-io/nephele/api/set/v1alpha1"
	"github.com/nephele-io/nephele/internal/clusterset/claims"
	"github.com/nephele-io/nephele/internal/clusterset/outbox"
	"github.com/nephele-io/nephele/internal/clusterset/union"
	"github.com/nephele-io/nephele/internal/clusterset/wire"
)

func acnp(name, clusters string) v1beta1.ClusterNetworkPolicy {
	p := v1beta1.ClusterNetworkPolicy{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), Generation: 3, Annotations: map[string]string{setv1alpha1.AnnotationClusters: clusters}}}
	p.Spec.Tier, p.Spec.Priority = "ours", 5
	p.Spec.AppliedTo = []v1beta1.AppliedTo{{Group: "parent"}}
	p.Spec.Ingress = []v1beta1.Rule{{Action: v1beta1.RuleActionAllow, From: []v1beta1.NetworkPolicyPeer{{PodSelector: &metav1.LabelSelector{}, Scope: v1beta1.ScopeClusterSet}}}}
	return p
}

func inputsOf(policies ...v1beta1.ClusterNetworkPolicy) *inputs {
	in := &inputs{policies: policies}
	for name, env := range map[string]string{"east": "prod", "west": "test"} {
		in.clusters = append(in.clusters, setv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"env": env}}})
	}
	in.tiers = []v1beta1.Tier{{ObjectMeta: metav1.ObjectMeta{Name: "ours"}}, {ObjectMeta: metav1.ObjectMeta{Name: "other"}}}
	group := func(name string, children ...string) v1beta1.ClusterGroup {
		return v1beta1.ClusterGroup{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1beta1.GroupSpec{ChildGroups: children}}
	}
	in.cgroups = []v1beta1.ClusterGroup{group("parent", "child"), group("child"), group("unused")}
	return in
}

// TestDraw: policies go to the clusters that they select, with what they name and nothing else, and
// stay the same value while they say the same.
func TestDraw(t *testing.T) {
	in := inputsOf(acnp("prod", "env=prod"), acnp("all", "{}"), acnp("none", "env=dev"), acnp("nonsense", "a b"), acnp("large", "{}"))
	in.policies[4].Annotations["long"] = strings.Repeat("x", mostObject)
	copied := acnp("copied", "{}")
	copied.Labels = map[string]string{setv1alpha1.LabelFromHub: "true"}
	local := acnp("local", "{}")
	delete(local.Annotations, setv1alpha1.AnnotationClusters)
	in.policies = append(in.policies, copied, local)
	in.knps = []networkingv1.NetworkPolicy{{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "knp", UID: "knp", Annotations: map[string]string{setv1alpha1.AnnotationClusters: "clusterset.k8s.io/cluster-name=west"}}}}
	out := draw(in, nil)
	for name, want := range map[string][]string{"east": {"all", "prod"}, "west": {"all", "knp"}} {
		var got []string
		for uid := range out.policies[name] {
			got = append(got, uid)
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("%s has %v, want %v", name, got, want)
		}
	}
	sent := out.policies["east"]["all"]
	var needs string
	for _, raw := range sent.Needs {
		needs += string(raw)
	}
	if len(sent.Needs) != 3 || !strings.Contains(needs, `"ours"`) || !strings.Contains(needs, `"child"`) || strings.Contains(needs, "unused") || len(sent.Groups) != 1 {
		t.Errorf("%s %v", needs, sent.Groups)
	}
	if strings.Contains(string(sent.Object), setv1alpha1.AnnotationClusters) {
		t.Error("a member would send it on")
	}
	if len(out.targets) != 5 || out.targets[slices.IndexFunc(out.targets, func(x target) bool { return x.uid == "large" })].refused == "" {
		t.Errorf("%+v", out.targets)
	}
	again := draw(in, out.policies["east"])
	if again.policies["east"]["all"] != sent {
		t.Error("nothing has changed, and it would be sent again")
	}
	in.policies[1].Spec.Priority = 7
	if draw(in, out.policies["east"]).policies["east"]["all"] == sent {
		t.Error("a change would not be sent")
	}
}

// TestTooBroad: a policy whose peer is too broad is not sent to members that do not have it, and
// does not vanish for members that may.
func TestTooBroad(t *testing.T) {
	in := inputsOf(acnp("all", "{}"))
	in.policies[0].Status.Clusters = []v1beta1.ClusterRealization{{Name: "east", ObservedGeneration: 2}}
	h := &Hub{union: union.New(), outline: draw(in, nil)}
	for _, g := range h.outline.groups {
		h.union.Want(g)
		h.broad = map[string]bool{g.ID: true}
	}
	h.union.PutCluster("east", nil, claims.Of(&in.clusters[0], nil))
	for name, want := range map[string]int{"east": 1, "west": 0} {
		if got := h.sendable(name, outbox.New(name).Has); len(got) != want {
			t.Errorf("%s is sent %d policies, want %d", name, len(got), want)
		}
	}
	if got := h.sendable("west", func(string) bool { return true }); len(got) != 1 {
		t.Error("it would be taken back because it has grown")
	}
}

// TestBounded: what a member tells of a policy can be stored, whatever it is.
func TestBounded(t *testing.T) {
	r := bounded(wire.Realization{Phase: "<script>", Message: strings.Repeat("é\n\x1b", 1000), Reason: strings.Repeat("x", 100), Realized: -5})
	if r.Phase != v1beta1.PhaseUnknown || len(r.Message) > 256 || strings.ContainsAny(r.Message, "\n\x1b") || len(r.Reason) > 64 || r.Realized != 0 {
		t.Errorf("%+v", r)
	}
}

// TestIdentityHidden: a policy that allows Pods is not sent where their addresses are not seen, and
// says so; one that drops them is sent, and says what it does not meet. One that is in force stays.
func TestIdentityHidden(t *testing.T) {
	drops := acnp("drops", "{}")
	drops.Spec.Ingress[0].Action = v1beta1.RuleActionDrop
	pinned := acnp("pinned", "{}")
	pinned.Spec.Ingress[0].From[0].NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{setv1alpha1.LabelClusterName: "west"}}
	had := acnp("had", "{}")
	had.Status.Clusters = []v1beta1.ClusterRealization{{Name: "west", ObservedGeneration: 2}}
	in := inputsOf(acnp("allows", "{}"), drops, pinned, had)
	for i := range in.clusters {
		c := &in.clusters[i]
		c.Spec.Addresses.Pods = map[string][]string{"east": {"10.1.0.0/16"}, "west": {"10.2.0.0/16"}}[c.Name]
		c.Status.ClusterID = "joined"
		if c.Name == "east" {
			c.Spec.SeenAs = []setv1alpha1.SeenAs{{To: "10.2.0.0/16", As: setv1alpha1.SeenNode}}
		}
	}
	told := &recordedPolicies{all: map[string][]v1beta1.ClusterRealization{}}
	h := &Hub{Options: Options{Policies: told}, union: union.New(), outline: draw(in, nil), clusters: map[string]*member{}}
	for i := range in.clusters {
		h.clusters[in.clusters[i].Name] = &member{cluster: &in.clusters[i], session: &session{}}
	}
	for name, want := range map[string]string{"east": "allows drops had pinned", "west": "drops had pinned"} {
		var got []string
		for uid := range h.sendable(name, outbox.New(name).Has) {
			got = append(got, uid)
		}
		if slices.Sort(got); strings.Join(got, " ") != want {
			t.Errorf("%s is sent %v, want %s", name, got, want)
		}
	}
	for i := range h.outline.targets {
		h.realized(&h.outline.targets[i])
	}
	for uid, want := range map[string]string{"allows": "Failed IdentityHidden", "drops": "Unknown IdentityHidden", "pinned": "Unknown Syncing", "had": "Unknown IdentityHidden"} {
		for _, r := range told.all[uid] {
			if got := r.Phase + " " + r.Reason; r.Name == "west" && got != want || r.Name == "east" && got != "Unknown Syncing" {
				t.Errorf("%s in %s: %s %s, want %s", uid, r.Name, got, r.Message, want)
			}
		}
	}
}

// recordedPolicies keeps what it is told.
type recordedPolicies struct {
	all map[string][]v1beta1.ClusterRealization
}

func (r *recordedPolicies) RealizedInClusters(uid string, in []v1beta1.ClusterRealization) {
	r.all[uid] = in
}
