package preview_test

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"regexp"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nephele-io/nephele/api/analysis/v1alpha1"
	"github.com/nephele-io/nephele/api/antrea/v1alpha2"
	cloudv1alpha1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/selection"
	"github.com/nephele-io/nephele/internal/explain"
	"github.com/nephele-io/nephele/internal/explain/input"
	"github.com/nephele-io/nephele/internal/explain/redact"
	"github.com/nephele-io/nephele/internal/manifest"
	"github.com/nephele-io/nephele/internal/preview"
	"github.com/nephele-io/nephele/internal/review"
	"github.com/nephele-io/nephele/internal/seed"
)

// hiddenWorld is objects and clouds, in which whatever is of a Namespace has the word of the
// Namespace in each of its names: "wordN", and "word9" what is of the cluster alone.
type hiddenWorld struct {
	*rand.Rand
	objects *input.Objects
}

func word(n int) string { return fmt.Sprint("word", n) }

// spaces is how many Namespaces a world has.
const spaces = 4

func newHiddenWorld(t *testing.T, seed uint64) *hiddenWorld {
	t.Helper()
	w := &hiddenWorld{Rand: rand.New(rand.NewPCG(seed, 41)), objects: &input.Objects{}}
	snapshot := &cloud.Snapshot{Scope: cloud.Scope{Account: "estate/account", Region: "eu-west-1"}, Networks: []cloud.Network{{ID: "vpc-1"}}}
	refs := map[types.NamespacedName]selection.VMRef{}
	group := func(id string, rules ...cloud.Rule) { // no group is ours: its holders are named by ids
		snapshot.Groups = append(snapshot.Groups, cloud.Group{ID: id, Name: id, NetworkID: "vpc-1", Rules: rules})
	}
	everything := cloud.Match{Protocol: cloud.AnyProtocol, From: -1, To: -1}
	group("sg-open", cloud.Rule{Direction: cloud.Ingress, Match: everything, Peer: cloud.Peer{CIDR: netip.MustParsePrefix("10.0.0.0/8")}},
		cloud.Rule{Direction: cloud.Egress, Match: everything, Peer: cloud.Peer{CIDR: netip.MustParsePrefix("0.0.0.0/0")}})
	group("sg-same", cloud.Rule{Direction: cloud.Ingress, Match: everything, Peer: cloud.Peer{GroupID: "sg-same"}},
		cloud.Rule{Direction: cloud.Egress, Match: everything, Peer: cloud.Peer{CIDR: netip.MustParsePrefix("0.0.0.0/0")}})
	for n := range spaces {
		w.objects.Namespaces = append(w.objects.Namespaces, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: word(n), Labels: map[string]string{"team": fmt.Sprint(w.IntN(2))}}})
		for k := range 2 + w.IntN(3) {
			vm := fmt.Sprintf("i-%s-%d", word(n), k)
			e := &v1alpha2.ExternalEntity{
				ObjectMeta: metav1.ObjectMeta{Namespace: word(n), Name: "virtualmachine-" + vm, Labels: map[string]string{
					"app": fmt.Sprint(w.IntN(3)), cloudv1alpha1.LabelCloudVMName: vm, cloudv1alpha1.LabelCloudVMUID: vm, "owner-" + word(n): "x"}},
				Spec: v1alpha2.ExternalEntitySpec{Endpoints: []v1alpha2.Endpoint{{IP: fmt.Sprintf("10.0.%d.%d", n, k+1)}}, ExternalNode: "cloud/estate/account"},
			}
			w.objects.Entities = append(w.objects.Entities, e)
			if w.IntN(4) == 0 {
				continue // not read yet
			}
			nic := cloud.Interface{
				ID: "eni-" + vm, NetworkID: "vpc-1", VMID: vm, PrivateIPs: []netip.Addr{netip.MustParseAddr(e.Spec.Endpoints[0].IP)}, GroupIDs: []string{[]string{"sg-open", "sg-same"}[w.IntN(2)]},
				Description: word(n),
			}
			if w.IntN(3) == 0 {
				nic.PublicIPs = []netip.Addr{netip.MustParseAddr(fmt.Sprintf("198.51.%d.%d", n, k+1))}
			}
			snapshot.Interfaces = append(snapshot.Interfaces, nic)
			snapshot.VMs = append(snapshot.VMs, cloud.VM{ID: vm, Name: vm, NetworkID: "vpc-1", Interfaces: []string{nic.ID}, Tags: map[string]string{"Name": vm}})
			name := types.NamespacedName{Namespace: e.Namespace, Name: e.Name}
			refs[name] = selection.VMRef{VMID: vm, Region: "eu-west-1"}
		}
	}
	snapshot.Interfaces = append(snapshot.Interfaces, cloud.Interface{ID: "eni-word9", NetworkID: "vpc-1", VMID: "i-word9", PrivateIPs: []netip.Addr{netip.MustParseAddr("10.0.9.1")}, GroupIDs: []string{"sg-same"}})
	snapshot.VMs = append(snapshot.VMs, cloud.VM{ID: "i-word9", Name: "i-word9", NetworkID: "vpc-1", Interfaces: []string{"eni-word9"}})
	w.objects.Observed = []input.Account{{Key: "estate/account", Snapshots: []*cloud.Snapshot{snapshot}, VMs: refs}}
	w.objects.Accounts = []*cloudv1alpha1.CloudProviderAccount{{ObjectMeta: metav1.ObjectMeta{Namespace: "estate", Name: "account"}}}
	var text strings.Builder
	for n := range spaces {
		for k := range 1 + w.IntN(2) {
			text.WriteString(w.policy(word(n), fmt.Sprintf("p%d-%s", k, word(n))))
		}
	}
	text.WriteString(w.policy("", "p-word9"))
	set, err := manifest.Parse("world", []byte(text.String()), 0)
	if err != nil {
		t.Fatalf("seed %d: %v\n%s", seed, err, text.String())
	}
	for _, d := range set.Documents {
		d.Object.SetUID(types.UID("uid-" + d.Object.GetName()))
		w.objects.Add(d.Object)
	}
	return w
}

// policy draws one.
func (w *hiddenWorld) policy(namespace, name string) string {
	kind, at, action := "ClusterNetworkPolicy", "", []string{"Allow", "Allow", "Drop", "Reject"}[w.IntN(4)]
	to := fmt.Sprintf("{namespaceSelector: {matchLabels: {team: '%d'}}, externalEntitySelector: {matchLabels: {app: '%d'}}}", w.IntN(2), w.IntN(3))
	if namespace != "" {
		kind, at, to = "NetworkPolicy", ", namespace: "+namespace, fmt.Sprintf("{externalEntitySelector: {matchLabels: {app: '%d'}}}", w.IntN(3))
	}
	peer := []string{
		fmt.Sprintf("{namespaceSelector: {matchLabels: {team: '%d'}}, externalEntitySelector: {}}", w.IntN(2)),
		fmt.Sprintf("{namespaceSelector: {}, externalEntitySelector: {matchLabels: {app: '%d'}}}", w.IntN(3)), "{ipBlock: {cidr: 10.0.0.0/16}}", "{ipBlock: {cidr: 192.0.2.0/24}}",
	}[w.IntN(4)]
	rule := fmt.Sprintf("- {name: r-%s, action: %s, %%s: [%s], ports: [{protocol: TCP, port: %d}]}", name, action, peer, 80+w.IntN(2))
	direction := fmt.Sprintf("  ingress:\n  "+rule+"\n", "from")
	if w.IntN(3) == 0 {
		direction = fmt.Sprintf("  egress:\n  "+rule+"\n", "to")
	}
	return fmt.Sprintf("---\napiVersion: crd.antrea.io/v1beta1\nkind: %s\nmetadata: {name: %s%s}\nspec:\n  priority: %d\n  appliedTo: [%s]\n%s", kind, name, at, 1+w.IntN(9), to, direction)
}

// TestNothingHiddenIsToldWithClouds: with clouds that were read, no review tells anything by name
// of Namespaces that somebody may not see, nor of the cluster.
func TestNothingHiddenIsToldWithClouds(t *testing.T) {
	seed := seed.Of(t)
	words := regexp.MustCompile(`word[0-9]`)
	told, nodes, edges := 0, 0, 0
	for n := range uint64(12) {
		w := newHiddenWorld(t, seed+n)
		sees := map[string]bool{word(0): true, word(1): w.IntN(2) == 0, word(9): w.IntN(2) == 0}
		view := redact.View{Namespace: func(ns string) bool { return sees[ns] && ns != word(9) }, Cluster: sees[word(9)]}
		c := explain.Compute(w.objects).For(view)
		check := func(what string, answer any) {
			told++
			for _, found := range words.FindAllString(asJSON(answer), -1) {
				if !sees[found] {
					t.Fatalf("world %d, for a caller that sees %v: %s has %s:\n%s", seed+n, sees, what, found, asJSON(answer))
				}
			}
		}
		world := func() *explain.World { return c.World(false) }
		for _, spec := range []v1alpha1.ReachReviewSpec{{To: "any", Refused: true}, {To: word(0) + "/*"}, {Grouped: true}, {Grouped: true, Refused: true}} {
			status, err := review.Reach(world(), spec)
			if err != nil {
				t.Fatalf("world %d: %v", seed+n, err)
			}
			check(fmt.Sprintf("%+v", spec), status)
			if status.Map != nil {
				nodes, edges = nodes+len(status.Map.Nodes), edges+len(status.Map.Edges)
			}
		}
		for _, spec := range []v1alpha1.EffectiveRulesSpec{{}, {Of: word(0) + "/*"}} {
			status, err := review.Rules(world(), spec)
			if err != nil {
				t.Fatalf("world %d: %v", seed+n, err)
			}
			check(fmt.Sprintf("%+v", spec), status)
		}
		for range 20 {
			a, b := w.objects.Entities[w.IntN(len(w.objects.Entities))], w.objects.Entities[w.IntN(len(w.objects.Entities))]
			status, err := review.Flow(c, v1alpha1.FlowReviewSpec{From: a.Spec.Endpoints[0].IP, To: b.Spec.Endpoints[0].IP, Port: "80"})
			if err == nil {
				check("a flow", status)
			}
		}
		spec := v1alpha1.PlanReviewSpec{Manifests: w.policy(word(0), "new-"+word(0)) + w.policy(word(0), "p0-"+word(0)), Map: true}
		rights := preview.Rights{May: func(_, _, _, namespace, _ string) bool { return namespace == word(0) }}
		proposal, errs, err := preview.Propose(spec, nil, rights)
		if err != nil || len(errs) > 0 {
			t.Fatalf("world %d: %v, %v\n%s", seed+n, errs, err, spec.Manifests)
		}
		status, err := preview.Limited(t.Context(), preview.Before{Computed: c, World: world}, view, proposal, spec)
		if err != nil {
			t.Fatalf("world %d: %v", seed+n, err)
		}
		check("a plan", status)
		if len(status.Accounts) > 0 {
			t.Fatalf("world %d: a plan tells of accounts", seed+n)
		}
		foreign := v1alpha1.PlanReviewSpec{
			Manifests: w.policy(word(2), "new-"+word(0)), Delete: []v1alpha1.ObjectReference{{Group: "crd.antrea.io", Kind: "NetworkPolicy", Namespace: word(3), Name: "p0-" + word(3)}},
		}
		if _, errs, _ := preview.Propose(foreign, nil, rights); len(errs) != 2 || errs[0].Reason != v1alpha1.ErrorForbidden || errs[1].Reason != v1alpha1.ErrorForbidden {
			t.Fatalf("world %d: objects in foreign Namespaces: %s", seed+n, asJSON(errs))
		}
	}
	if told < 120 || nodes < 60 || edges < 60 {
		t.Errorf("%d answers, %d nodes and %d edges: want more", told, nodes, edges)
	}
}
