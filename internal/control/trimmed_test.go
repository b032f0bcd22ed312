package control

import (
	"context"
	"net/netip"
	"reflect"
	"slices"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	toolscache "k8s.io/client-go/tools/cache"
	cachetesting "k8s.io/client-go/tools/cache/testing"

	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
	"github.com/nephele-io/nephele/internal/apiserver/watchstore"
	"github.com/nephele-io/nephele/internal/control/trim"
	"github.com/nephele-io/nephele/internal/convert"
	"github.com/nephele-io/nephele/internal/policy"
)

// TestInformersHoldTrimmedPods: a real informer takes what the Trimmer leaves of Pods, and the
// Controller learns from it of every Pod that comes, moves and goes.
func TestInformersHoldTrimmedPods(t *testing.T) {
	source := cachetesting.NewFakeControllerSource()
	pod := func(address string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"}, Status: corev1.PodStatus{PodIPs: []corev1.PodIP{{IP: address}}}}
	}
	source.Add(pod("10.0.0.1"))
	informer := toolscache.NewSharedIndexInformer(source, &corev1.Pod{}, 0, toolscache.Indexers{toolscache.NamespaceIndex: toolscache.MetaNamespaceIndexFunc})
	if err := informer.SetTransform(trim.NewTrimmer().Trim); err != nil {
		t.Fatal(err)
	}
	c := newTestWorld(t).Controller
	for _, h := range []toolscache.ResourceEventHandler{c.handler(kindPod), c.directory.handler()} {
		if _, err := informer.AddEventHandler(h); err != nil {
			t.Fatal(err)
		}
	}
	var running sync.WaitGroup
	defer running.Wait()
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	running.Go(func() { informer.RunWithContext(ctx) })
	ref := policy.EntityRef{Kind: policy.KindPod, Namespace: "ns", Name: "p"}
	has := func(addresses ...string) func() bool {
		return func() bool {
			c.round()
			state, _ := c.engine.Entity(ref)
			found := 0
			for _, a := range addresses {
				if slices.Equal(state.Addresses, []netip.Addr{netip.MustParseAddr(a)}) && slices.Equal(c.directory.at(netip.MustParseAddr(a)), []policy.EntityRef{ref}) {
					found++
				}
			}
			return found == len(addresses) && (found > 0 || state.Addresses == nil)
		}
	}
	eventually(t, "the Pod is there", has("10.0.0.1"))
	source.Modify(pod("10.0.0.2"))
	eventually(t, "the Pod has another address", has("10.0.0.2"))
	if found := c.directory.at(netip.MustParseAddr("10.0.0.1")); found != nil {
		t.Fatalf("its former address is that of %v", found)
	}
	for _, o := range informer.GetStore().List() {
		if _, ok := o.(*convert.TrimmedPod); !ok {
			t.Fatalf("the informer holds a %T", o)
		}
	}
	source.Delete(pod("10.0.0.2"))
	eventually(t, "the Pod is gone", has())
}

// TestManyEqualRules: a Kubernetes NetworkPolicy of a megabyte of rules that say the same takes no
// more than one with each of them once. What is computed of it allows the same; up to a thousand
// rules nothing is left out.
func TestManyEqualRules(t *testing.T) {
	from := func(cidr string) networkingv1.NetworkPolicyIngressRule {
		return networkingv1.NetworkPolicyIngressRule{From: []networkingv1.NetworkPolicyPeer{{IPBlock: &networkingv1.IPBlock{CIDR: cidr}}}}
	}
	const manyRules = 1000 // how many rules trim leaves alone
	port := intstr.FromInt32(80)
	to := networkingv1.NetworkPolicyEgressRule{Ports: []networkingv1.NetworkPolicyPort{{Port: &port}}}
	w := newTestWorld(t)
	w.put(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "vms", Name: "x", UID: "x"}, Spec: corev1.PodSpec{NodeName: "n"},
		Status: corev1.PodStatus{PodIP: "10.0.0.1", PodIPs: []corev1.PodIP{{IP: "10.0.0.1"}}}})
	for name, c := range map[string]struct {
		ingress, egress         int
		leftIngress, leftEgress int
	}{"a few": {manyRules, manyRules, manyRules, manyRules}, "many": {700_000, manyRules + 1, 3, 1}} {
		p := &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "vms", Name: "p", UID: types.UID(name), Generation: 1}}
		p.Spec.PolicyTypes = []networkingv1.PolicyType{networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress}
		p.Spec.Ingress = make([]networkingv1.NetworkPolicyIngressRule, c.ingress)
		p.Spec.Ingress[c.ingress/2], p.Spec.Ingress[c.ingress-2], p.Spec.Ingress[c.ingress-1] = from("10.0.0.0/8"), from("192.0.2.0/24"), from("10.0.0.0/8")
		for range c.egress {
			p.Spec.Egress = append(p.Spec.Egress, to)
		}
		out, err := trim.NewTrimmer().Trim(p)
		if err != nil {
			t.Fatal(err)
		}
		trimmed := out.(*networkingv1.NetworkPolicy)
		if len(trimmed.Spec.Ingress) != c.leftIngress || len(trimmed.Spec.Egress) != c.leftEgress || !reflect.DeepEqual(trimmed.Spec.Egress[0], to) {
			t.Errorf("%s: %d and %d rules are left", name, len(trimmed.Spec.Ingress), len(trimmed.Spec.Egress))
			continue
		}
		if name != "many" {
			continue
		}
		if want := []networkingv1.NetworkPolicyIngressRule{{}, from("10.0.0.0/8"), from("192.0.2.0/24")}; !reflect.DeepEqual(trimmed.Spec.Ingress, want) {
			t.Errorf("left is %v", trimmed.Spec.Ingress)
		}
		w.put(trimmed)
		w.settle()
		all, _, err := w.Store().List(watchstore.NetworkPolicies, "n")
		if err != nil || len(all) != 1 || len(all[0].(*v1beta2.NetworkPolicy).Rules) != 4 {
			t.Errorf("computed: %v, %v", all, err)
		}
	}
}
