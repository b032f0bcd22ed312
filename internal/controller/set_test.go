package controller

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	antreav1beta1 "github.com/nephele-io/nephele/api/antrea/v1beta1"
	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
	statsv1alpha1 "github.com/nephele-io/nephele/api/stats/v1alpha1"
	"github.com/nephele-io/nephele/internal/apiserver/stats"
	"github.com/nephele-io/nephele/internal/clusterset/setmap"
	"github.com/nephele-io/nephele/internal/clusterset/wire"
	"github.com/nephele-io/nephele/internal/convert"
)

// TestCountedByKind: a copy has the count of the policy of its own kind, though copies of other
// kinds have the same name.
func TestCountedByKind(t *testing.T) {
	s, book := &set{}, stats.New(clocktesting.NewFakePassiveClock(metav1.Now().Time))
	s.book.Store(book)
	named := metav1.ObjectMeta{Namespace: "shop", Name: "hub-p"}
	wide := metav1.ObjectMeta{Name: "hub-p"}
	copies := map[v1beta2.NetworkPolicyType]client.Object{
		v1beta2.AntreaClusterNetworkPolicy: &antreav1beta1.ClusterNetworkPolicy{ObjectMeta: wide},
		v1beta2.AntreaNetworkPolicy:        &antreav1beta1.NetworkPolicy{ObjectMeta: named},
		v1beta2.K8sNetworkPolicy:           &networkingv1.NetworkPolicy{ObjectMeta: named},
	}
	packets := map[v1beta2.NetworkPolicyType]int64{v1beta2.AntreaClusterNetworkPolicy: 3, v1beta2.AntreaNetworkPolicy: 5, v1beta2.K8sNetworkPolicy: 7}
	for kind, o := range copies {
		book.Begin(stats.Policy{Kind: kind, Namespace: o.GetNamespace(), Name: o.GetName(), UID: types.UID(kind)})
		book.PutElsewhere("x", "e", types.UID(kind), statsv1alpha1.TrafficStats{Packets: packets[kind]}, nil)
	}
	for kind, o := range copies {
		if c, is := s.counted(o); !is || c.Packets != packets[kind] {
			t.Errorf("%s: %t %+v, want %d packets", kind, is, c, packets[kind])
		}
	}
}

// TestSidesOfThisCluster: a question for the map of the set is answered from what this cluster has,
// within the work of one answer.
func TestSidesOfThisCluster(t *testing.T) {
	r := newTestReviews(t)
	for i := range 50 {
		ip := fmt.Sprint("10.0.0.", i+1)
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: fmt.Sprint("p", i), UID: types.UID(fmt.Sprint(i))}, Status: corev1.PodStatus{PodIP: ip, PodIPs: []corev1.PodIP{{IP: ip}}}}
		pod.Spec.NodeName = "node"
		if err := r.pods.Add(convert.TrimPod(pod)); err != nil {
			t.Fatal(err)
		}
	}
	s := &set{}
	q := &setmap.Question{Own: []wire.Ref{{Kind: wire.Pod, Namespace: "n", Name: "p1"}, {Kind: wire.Pod, Namespace: "n", Name: "gone"}}, To: []netip.Addr{netip.MustParseAddr("10.9.0.1")}, Packets: setmap.Packets{Except: true}}
	if _, err := s.Sides(t.Context(), q); err == nil {
		t.Error("an answer without reviews")
	}
	s.reviews.Store(r.reviews)
	raw, err := s.Sides(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	a, err := setmap.ParseAnswer(raw, q)
	if err != nil || len(a.Out) != 1 || a.Decisions[a.Out[0][3]].Outcome != "Allow" || a.Of[0] < 0 || a.Of[1] != -1 {
		t.Errorf("%s %v", raw, err)
	}
	r.work = 1
	if _, err := s.Sides(t.Context(), q); err == nil || !strings.Contains(err.Error(), "narrow it with from and to") {
		t.Errorf("%v", err)
	}
}
