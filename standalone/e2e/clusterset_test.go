package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nephele-io/nephele/api/antrea/v1alpha2"
	"github.com/nephele-io/nephele/api/antrea/v1beta1"
	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
	"github.com/nephele-io/nephele/internal/tier"
)

// TestClusterSet: a hub and two members that join by the printed lines. A policy of the hub means
// workloads of both, in both; it goes on when the hub is killed, for a Pod that is relabelled then
// and for a member that begins anew; what was wrong is put right when the hub is back.
func TestClusterSet(t *testing.T) {
	t.Parallel()
	feed := freeAddress(t)
	hub, east, west := newCluster(t, "--api-listen", feed), newCluster(t), newCluster(t)
	joined := map[string]string{}
	for i, c := range []*cluster{east, west} {
		name := []string{"east", "west"}[i]
		code, out, errOut := run(t, "cluster", "token", name, "--server", feed, "--pods", fmt.Sprintf("10.%d.0.0/16", i+1), "--label", "env=prod", "--kubeconfig", hub.kubeconfig())
		if code != 0 {
			t.Fatal(out, errOut)
		}
		joined[name] = strings.Fields(out)[2]
		if code, out, errOut := run(t, "join", joined[name], "--kubeconfig", c.kubeconfig()); code != 0 {
			t.Fatal(out, errOut)
		}
		must(t, c.client.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}))
	}
	if code, out, errOut := run(t, "join", joined["west"], "--kubeconfig", east.kubeconfig()); code != 2 || !strings.Contains(errOut, "nephele leave ends that") {
		t.Errorf("a member joins anew: %d %s %s", code, out, errOut)
	}
	if code, _, errOut := run(t, "join", joined["west"], "--timeout", "5s", "--kubeconfig", hub.kubeconfig()); code != 2 || !strings.Contains(errOut, "it was used") {
		t.Errorf("a token is used twice: %d %s", code, errOut)
	}
	pod := func(c *cluster, name, app, ip string) *corev1.Pod {
		t.Helper()
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, Labels: map[string]string{"app": app}},
			Spec: corev1.PodSpec{NodeName: "n1", Containers: []corev1.Container{{Name: "c", Image: "c"}}}}
		must(t, c.client.Create(t.Context(), p))
		p.Status.PodIP, p.Status.PodIPs = ip, []corev1.PodIP{{IP: ip}}
		must(t, c.client.Status().Update(t.Context(), p))
		return p
	}
	pod(east, "web", "web", "10.1.0.5")
	pod(east, "forged", "web", "10.2.0.99")
	pod(west, "db", "db", "10.2.0.7")
	local := pod(west, "web", "web", "10.2.0.8")
	policy := &v1beta1.ClusterNetworkPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "db-from-web", Annotations: map[string]string{"nephele.io/clusters": "env=prod"}},
		Spec: v1beta1.NetworkPolicySpec{
			Priority: 5, Tier: "platform", AppliedTo: []v1beta1.AppliedTo{{PodSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "db"}}}},
			Ingress: []v1beta1.Rule{{Action: v1beta1.RuleActionAllow, From: []v1beta1.NetworkPolicyPeer{{PodSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}, Scope: v1beta1.ScopeClusterSet}}}},
		},
	}
	must(t, hub.client.Create(t.Context(), policy))
	west.admits("10.1.0.5", "10.2.0.8")
	west.guards("db")
	hub.tells("west", "Realizing") // nobody enforces there
	eventuallyTold(t, "the forged claim is told", func(context.Context) (bool, string) {
		code, out, _ := run(t, "cluster", "list", "--kubeconfig", hub.kubeconfig())
		return code == 1 && strings.Contains(out, "east: not believed: Pod shop/forged: 10.2.0.99"), out
	})

	// Each half is answered by the cluster that knows it.
	explain := func(from string) (int, string) {
		code, out, errOut := run(t, "explain", "--from", from, "--to", "west:shop/db", "--port", "5432", "--kubeconfig", hub.kubeconfig())
		return code, out + errOut
	}
	if code, out := explain("east:shop/web"); code != 0 || !strings.Contains(out, "egress  east: Allow") || !strings.Contains(out, "hub-db-from-web") {
		t.Errorf("explain: %d %s", code, out)
	}
	if code, out := explain("east:shop/forged"); code != 2 || !strings.Contains(out, "with an address that is believed") {
		t.Errorf("explain: %d %s", code, out)
	}

	code, text, errOut := run(t, "reach", "--from", "any", "--to", "west:shop/db", "--port", "5432", "--kubeconfig", hub.kubeconfig())
	if code != 0 || !strings.Contains(text, "east:shop/web") || !strings.Contains(text, "west:shop/web") || strings.Contains(text, "forged") || strings.Contains(text, "Unknown") {
		t.Errorf("reach: %d %s %s", code, text, errOut)
	}
	code, text, errOut = run(t, "reach", "--grouped", "--from", "*:*/*", "--kubeconfig", hub.kubeconfig())
	drawn := regexp.MustCompile(`(?m)^east:shop/web +west:shop/db +everything +Allow +west:hub-db-from-web$`)
	if code != 0 || !drawn.MatchString(text) || strings.Contains(text, "forged") || strings.Contains(text, "Unknown") {
		t.Errorf("map: %d %s %s", code, text, errOut)
	}
	copied := &v1beta1.ClusterNetworkPolicy{}
	must(t, west.client.Get(t.Context(), client.ObjectKey{Name: "hub-db-from-web"}, copied))
	west.counts("n1", copied, 3)
	eventually(t, "what a member has counted is told in the hub", func(ctx context.Context) (bool, string) {
		text, err := hub.raw(ctx, "/apis/stats.antrea.io/v1alpha1/antreaclusternetworkpolicystats/db-from-web")
		return err == nil && strings.Contains(string(text), `"packets":3,"bytes":300,"sessions":1}`) && strings.Contains(string(text), copied.Spec.Ingress[0].Name), fmt.Sprint(string(text), err)
	})

	tests := filepath.Join(t.TempDir(), "set.yaml")
	must(t, os.WriteFile(tests, []byte(`{apiVersion: nephele.io/v1alpha1, kind: PolicyTest, metadata: {name: set}, spec: {flows: [
		{from: "east:shop/app=web", to: "west:shop/db", port: 5432, expect: allow}, {from: "east:shop/web", to: "west:shop/db", port: 5432, expect: deny}]}}`), 0o600))
	code, text, errOut = run(t, "test", "--set", "-f", tests, "--kubeconfig", hub.kubeconfig())
	if code != 1 || !strings.Contains(text, "2 expectations: 1 met, 1 not met") || !strings.Contains(text, "Allow: TCP 5432 from east:shop/web to west:shop/db") {
		t.Errorf("test: %d %s %s", code, text, errOut)
	}

	// A Service that east exports is a peer in west; the kind ServiceExport is installed late.
	must(t, hub.client.Create(t.Context(), &v1beta1.ClusterNetworkPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "to-api", Annotations: map[string]string{"nephele.io/clusters": "env=prod"}},
		Spec: v1beta1.NetworkPolicySpec{
			Priority: 6, Tier: "platform", AppliedTo: []v1beta1.AppliedTo{{PodSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "db"}}}},
			Egress: []v1beta1.Rule{{Action: v1beta1.RuleActionAllow, ToServices: []v1beta1.PeerService{{Namespace: "shop", Name: "api", Scope: v1beta1.ScopeClusterSet}}}},
		},
	}))
	east.exports(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "api"}, Spec: corev1.ServiceSpec{
		Selector: map[string]string{"app": "web"}, Ports: []corev1.ServicePort{{Port: 443, TargetPort: intstr.FromInt32(8443)}}}})
	west.serves("10.1.0.5:8443")
	east.serves("10.1.0.5:8443", "10.2.0.99:8443") // its own Pod is its own, whatever others believe
	must(t, hub.client.Delete(t.Context(), &v1beta1.ClusterNetworkPolicy{ObjectMeta: metav1.ObjectMeta{Name: "to-api"}}))
	west.serves()

	// An own policy of west means what east shows.
	shown := &unstructured.Unstructured{}
	shown.SetGroupVersionKind(schema.GroupVersionKind{Group: "set.nephele.io", Version: "v1alpha1", Kind: "Cluster"})
	shown.SetName("east")
	must(t, hub.client.Patch(t.Context(), shown, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"visibleNamespaces":["shop"]}}`))))
	pod(east, "api", "api", "10.1.0.9")
	own := policy.DeepCopy()
	own.ObjectMeta, own.Spec.Ingress[0].Name = metav1.ObjectMeta{Name: "own"}, ""
	own.Spec.Ingress[0].From[0].PodSelector.MatchLabels["app"] = "api"
	must(t, west.client.Create(t.Context(), own))
	west.admits("10.1.0.5", "10.1.0.9", "10.2.0.8")
	must(t, west.client.Delete(t.Context(), own))
	west.admits("10.1.0.5", "10.2.0.8")

	hub.kill()
	edit(t, west.client, local, func() { local.Labels["app"] = "db" })
	west.admits("10.1.0.5")
	west.guards("db", "web")
	west.kill()
	west.run()
	west.admits("10.1.0.5")
	west.guards("db", "web")
	must(t, west.client.Get(t.Context(), client.ObjectKey{Name: "hub-db-from-web"}, copied))
	edit(t, west.client, copied, func() { copied.Spec.Priority = 9 })

	hub.run()
	eventually(t, "the edit is undone", func(ctx context.Context) (bool, string) {
		err := west.client.Get(ctx, client.ObjectKey{Name: "hub-db-from-web"}, copied)
		return err == nil && copied.Spec.Priority == 5, fmt.Sprint(err, copied.Spec.Priority)
	})
	pod(east, "web-2", "web", "10.1.0.6")
	west.admits("10.1.0.5", "10.1.0.6")
	// Without its Cluster a member has nothing in anybody's peers, and no say.
	gone := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: "east"}}
	gone.SetGroupVersionKind(schema.GroupVersionKind{Group: "set.nephele.io", Version: "v1alpha1", Kind: "Cluster"})
	must(t, hub.client.Delete(t.Context(), gone))
	west.admits()
	must(t, hub.client.Delete(t.Context(), policy))
	eventually(t, "the policy is taken back", func(ctx context.Context) (bool, string) {
		err := west.client.Get(ctx, client.ObjectKey{Name: "hub-db-from-web"}, copied)
		return client.IgnoreNotFound(err) == nil && err != nil, fmt.Sprint(err)
	})
	if code, out, errOut := run(t, "leave", "--drop", "--kubeconfig", east.kubeconfig()); code != 0 {
		t.Fatal(out, errOut)
	}
	var left v1beta1.ClusterNetworkPolicyList
	if err := east.client.List(t.Context(), &left); err != nil || len(left.Items) > 0 {
		t.Errorf("%v %v", left.Items, err)
	}
}

// TestAntreaMember: a member whose policies an Antrea Controller computes has, in its own API, the
// hub's policies as ones without scope and the members of their peers in other clusters as
// ExternalEntities. The Antrea Controller is away here: what it computes is another test's.
func TestAntreaMember(t *testing.T) {
	t.Parallel()
	tier.OnlyLong(t, "TestForeign and TestForeignKeeps (internal/clusterset/member); TestClusterSet joins and leaves")
	feed := freeAddress(t)
	hub, west := newCluster(t, "--api-listen", feed), newCluster(t, "--antrea", "--antrea-member")
	must(t, hub.client.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}))
	web := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", Labels: map[string]string{"app": "web"}},
		Spec: corev1.PodSpec{NodeName: "n1", Containers: []corev1.Container{{Name: "c", Image: "c"}}}}
	must(t, hub.client.Create(t.Context(), web))
	web.Status.PodIP, web.Status.PodIPs = "10.1.0.5", []corev1.PodIP{{IP: "10.1.0.5"}}
	must(t, hub.client.Status().Update(t.Context(), web))
	must(t, hub.client.Create(t.Context(), &v1beta1.ClusterNetworkPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "db-from-web", Annotations: map[string]string{"nephele.io/clusters": "{}"}},
		Spec: v1beta1.NetworkPolicySpec{
			Priority: 5, Tier: "platform", AppliedTo: []v1beta1.AppliedTo{{PodSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "db"}}}},
			Ingress: []v1beta1.Rule{{Action: v1beta1.RuleActionAllow, From: []v1beta1.NetworkPolicyPeer{{PodSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}, Scope: v1beta1.ScopeClusterSet}}}},
		},
	}))
	for i, c := range []*cluster{hub, west} {
		name := []string{"east", "west"}[i]
		code, out, errOut := run(t, "cluster", "token", name, "--server", feed, "--pods", fmt.Sprintf("10.%d.0.0/16", i+1), "--kubeconfig", hub.kubeconfig())
		if code != 0 {
			t.Fatal(out, errOut)
		}
		if code, out, errOut := run(t, "join", strings.Fields(out)[2], "--kubeconfig", c.kubeconfig()); code != 0 {
			t.Fatal(out, errOut)
		}
	}
	entities := func(ctx context.Context) string {
		var list v1alpha2.ExternalEntityList
		if err := west.client.List(ctx, &list, client.InNamespace("nephele-set")); err != nil || len(list.Items) == 0 {
			return fmt.Sprint(err)
		}
		return fmt.Sprint(list.Items[0].Spec.Endpoints)
	}
	copied := &v1beta1.ClusterNetworkPolicy{}
	eventually(t, "the policy is there, and the members of its peer", func(ctx context.Context) (bool, string) {
		err := west.client.Get(ctx, client.ObjectKey{Name: "hub-db-from-web"}, copied)
		return err == nil && entities(ctx) == "[{10.1.0.5 }]", fmt.Sprint(err, entities(ctx))
	})
	if from := copied.Spec.Ingress[0].From; len(from) != 2 || from[0].Scope != "" || !strings.HasPrefix(from[1].Group, "nephele-set-") {
		t.Errorf("%+v", from)
	}
	hub.tells("west", "Pending") // nobody computes there
	db := web.DeepCopy()
	db.ObjectMeta, db.Status = metav1.ObjectMeta{Namespace: "shop", Name: "db", Labels: map[string]string{"app": "db"}}, corev1.PodStatus{}
	must(t, west.client.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}))
	must(t, west.client.Create(t.Context(), db))
	db.Status.PodIP, db.Status.PodIPs = "10.2.0.7", []corev1.PodIP{{IP: "10.2.0.7"}}
	must(t, west.client.Status().Update(t.Context(), db))
	for from, byRule := range map[string]bool{"east:shop/web": true, "192.0.2.7": false} {
		eventuallyTold(t, "west answers what becomes of what comes from "+from, func(context.Context) (bool, string) {
			_, out, errOut := run(t, "explain", "--from", from, "--to", "west:shop/db", "--port", "5432", "--kubeconfig", hub.kubeconfig())
			return strings.Contains(out, "ingress west: Allow") && strings.Contains(out, "hub-db-from-web") == byRule, out + errOut
		})
	}
	var list v1alpha2.ExternalEntityList
	must(t, west.client.List(t.Context(), &list, client.InNamespace("nephele-set")))
	edit(t, west.client, &list.Items[0], func() { list.Items[0].Spec.Endpoints[0].IP = "192.0.2.1" })
	eventually(t, "an edit is undone", func(ctx context.Context) (bool, string) { return entities(ctx) == "[{10.1.0.5 }]", entities(ctx) })
	if code, out, errOut := run(t, "leave", "--drop", "--kubeconfig", west.kubeconfig()); code != 0 {
		t.Fatal(out, errOut)
	}
	if got := entities(t.Context()); got != "<nil>" {
		t.Errorf("left: %s", got)
	}
}

func (c *cluster) kubeconfig() string { return filepath.Join(c.dir, "kubeconfig") }

// rest is a client for whatever is served.
func (c *cluster) rest() (rest.Interface, error) {
	cfg, err := clientcmd.BuildConfigFromFlags("", c.kubeconfig())
	if err != nil {
		return nil, err
	}
	kube, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return nil, err
	}
	return kube.RESTClient(), nil
}

// raw reads a path.
func (c *cluster) raw(ctx context.Context, path string) ([]byte, error) {
	served, err := c.rest()
	if err != nil {
		return nil, err
	}
	return served.Get().AbsPath(path).DoRaw(ctx)
}

// counts says what a Node has counted of the first rule of a policy.
func (c *cluster) counts(node string, p *v1beta1.ClusterNetworkPolicy, packets int64) {
	c.t.Helper()
	served, err := c.rest()
	must(c.t, err)
	body := fmt.Sprintf(`{"apiVersion":"controlplane.antrea.io/v1beta2","kind":"NodeStatsSummary","metadata":{"name":%q},"antreaClusterNetworkPolicies":[
		{"networkPolicy":{"uid":%q},"ruleTrafficStats":[{"name":%q,"trafficStats":{"packets":%d,"bytes":%d,"sessions":1}}]}]}`, node, p.UID, p.Spec.Ingress[0].Name, packets, 100*packets)
	must(c.t, served.Post().AbsPath("/apis/controlplane.antrea.io/v1beta2/nodestatssummaries").SetHeader("Content-Type", "application/json").Body([]byte(body)).Do(c.t.Context()).Error())
}

// computed reads what is computed for everybody.
func (c *cluster) computed(ctx context.Context, resource string, into any) error {
	text, err := c.raw(ctx, "/apis/controlplane.antrea.io/v1beta2/"+resource)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, into)
}

// admits waits until the peers of all policies are these addresses.
func (c *cluster) admits(want ...string) {
	c.t.Helper()
	eventually(c.t, fmt.Sprintf("the peers are %v", want), func(ctx context.Context) (bool, string) {
		var list v1beta2.AddressGroupList
		if err := c.computed(ctx, "addressgroups", &list); err != nil {
			return false, err.Error()
		}
		got := map[string]bool{}
		for _, g := range list.Items {
			for _, m := range g.GroupMembers {
				for _, ip := range m.IPs {
					a, _ := netip.AddrFromSlice(ip)
					got[a.Unmap().String()] = true
				}
			}
		}
		return slices.Equal(slices.Sorted(maps.Keys(got)), want) || len(got)+len(want) == 0, fmt.Sprint(got)
	})
}

// exports makes a Service and exports it, where nobody knows yet what a ServiceExport is.
func (c *cluster) exports(s *corev1.Service) {
	c.t.Helper()
	object := func(version, kind, name string, content map[string]any) *unstructured.Unstructured {
		o := &unstructured.Unstructured{Object: content}
		o.SetAPIVersion(version)
		o.SetKind(kind)
		o.SetName(name)
		return o
	}
	must(c.t, c.client.Create(c.t.Context(), object("apiextensions.k8s.io/v1", "CustomResourceDefinition", "serviceexports.multicluster.x-k8s.io", map[string]any{
		"metadata": map[string]any{"annotations": map[string]any{"api-approved.kubernetes.io": "https://github.com/kubernetes/enhancements/pull/1711"}},
		"spec": map[string]any{
			"group": "multicluster.x-k8s.io", "scope": "Namespaced", "names": map[string]any{"kind": "ServiceExport", "plural": "serviceexports"},
			"versions": []any{map[string]any{"name": "v1alpha1", "served": true, "storage": true,
				"schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}},
		},
	})))
	must(c.t, c.client.Create(c.t.Context(), s))
	export := object("multicluster.x-k8s.io/v1alpha1", "ServiceExport", s.Name, map[string]any{})
	export.SetNamespace(s.Namespace)
	eventually(c.t, "the Service is exported", func(ctx context.Context) (bool, string) {
		err := c.client.Create(ctx, export)
		return err == nil, fmt.Sprint(err)
	})
}

// serves waits until these are the addresses and ports of Services of the set that are peers.
func (c *cluster) serves(want ...string) {
	c.t.Helper()
	eventually(c.t, fmt.Sprintf("Services are at %v", want), func(ctx context.Context) (bool, string) {
		var policies v1beta2.NetworkPolicyList
		var groups v1beta2.AddressGroupList
		if err := errors.Join(c.computed(ctx, "networkpolicies", &policies), c.computed(ctx, "addressgroups", &groups)); err != nil {
			return false, err.Error()
		}
		var got []string
		for i := range policies.Items {
			for _, r := range policies.Items[i].Rules {
				for _, s := range r.Services {
					got = append(got, named(groups.Items, r.To.AddressGroups, s)...)
				}
			}
		}
		slices.Sort(got)
		return slices.Equal(got, want), fmt.Sprint(got)
	})
}

// named are the addresses and ports that members of groups have by the name that a rule says.
func named(groups []v1beta2.AddressGroup, in []string, s v1beta2.Service) []string {
	var out []string
	for i := range groups {
		for _, m := range groups[i].GroupMembers {
			for _, p := range m.Ports {
				if slices.Contains(in, groups[i].Name) && s.Port != nil && p.Name == s.Port.StrVal {
					a, _ := netip.AddrFromSlice(m.IPs[0])
					out = append(out, netip.AddrPortFrom(a.Unmap(), uint16(p.Port)).String())
				}
			}
		}
	}
	return out
}

// guards waits until policies apply to these Pods.
func (c *cluster) guards(want ...string) {
	c.t.Helper()
	eventually(c.t, fmt.Sprintf("policies apply to %v", want), func(ctx context.Context) (bool, string) {
		var list v1beta2.AppliedToGroupList
		if err := c.computed(ctx, "appliedtogroups", &list); err != nil {
			return false, err.Error()
		}
		got := map[string]bool{}
		for _, g := range list.Items {
			for _, m := range g.GroupMembers {
				got[m.Pod.Name] = true
			}
		}
		return slices.Equal(slices.Sorted(maps.Keys(got)), want), fmt.Sprint(got)
	})
}

// tells waits until the policy's status says a phase of a cluster.
func (c *cluster) tells(cluster, phase string) {
	c.t.Helper()
	eventually(c.t, cluster+" is told to be "+phase, func(ctx context.Context) (bool, string) {
		var p v1beta1.ClusterNetworkPolicy
		err := c.client.Get(ctx, client.ObjectKey{Name: "db-from-web"}, &p)
		return err == nil && slices.ContainsFunc(p.Status.Clusters, func(r v1beta1.ClusterRealization) bool {
			return r.Name == cluster && string(r.Phase) == phase && r.ObservedGeneration == p.Generation
		}), fmt.Sprintf("%v %+v", err, p.Status)
	})
}
