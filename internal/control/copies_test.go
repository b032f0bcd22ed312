package control

import (
	"sync"
	"testing"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nephele-io/nephele/api/antrea/v1beta1"
	setv1alpha1 "github.com/nephele-io/nephele/api/set/v1alpha1"
)

// TestCopiesAreFollowed: a follower of copies of the hub's NetworkPolicies of Kubernetes gets how
// far they are realized, also what was so before it followed, and nothing about other policies.
func TestCopiesAreFollowed(t *testing.T) {
	w := newTestWorld(t)
	policy := func(name string, generation int64) *networkingv1.NetworkPolicy {
		p := &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "app", Name: name, UID: types.UID("uid-" + name), Generation: generation}}
		if name != "own" {
			p.Labels = map[string]string{setv1alpha1.LabelFromHub: "true"}
		}
		p.Spec.PolicyTypes = []networkingv1.PolicyType{"Ingress"}
		return p
	}
	var mu sync.Mutex
	last := map[string]string{}
	is := func(step, name, want string) {
		t.Helper()
		w.settle()
		mu.Lock()
		defer mu.Unlock()
		if last[name] != want {
			t.Errorf("%s: %s is %q, want %q", step, name, last[name], want)
		}
	}
	w.namespaceWithPod()
	w.put(policy("hub-p", 1))
	w.put(policy("own", 1))
	w.settle()
	w.FollowCopies(func(o client.Object, s v1beta1.NetworkPolicyStatus) {
		mu.Lock()
		defer mu.Unlock()
		s.Conditions = nil
		last[o.GetName()] = line(s)
	})
	is("from the beginning", "hub-p", "Realizing 0/1 gen 1 []")
	w.report("uid-hub-p", "n1", 1, "")
	w.report("uid-own", "n1", 1, "")
	is("reported", "hub-p", "Realized 1/1 gen 1 []")
	w.put(policy("hub-p", 2))
	is("changed", "hub-p", "Realizing 0/1 gen 2 []")
	w.report("uid-hub-p", "n1", 2, "no room")
	is("failed", "hub-p", "Failed 0/1 gen 2 []")
	is("own", "own", "")
	w.remove(policy("hub-p", 2))
	w.settle()
	if w.book.policies["uid-hub-p"] != nil || w.book.policies["uid-own"] != nil {
		t.Error("something is kept of what is gone, or not followed")
	}
}
