package controller

import (
	"testing"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	antreav1beta1 "github.com/nephele-io/nephele/api/antrea/v1beta1"
	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
	statsv1alpha1 "github.com/nephele-io/nephele/api/stats/v1alpha1"
	"github.com/nephele-io/nephele/internal/apiserver/stats"
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
