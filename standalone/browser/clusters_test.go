package browser

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/nephele-io/nephele/api/antrea/v1beta1"
)

// playClusters shows a hub whose one member has not joined yet.
func (p *place) playClusters(t *testing.T) {
	p.apply(ofSet)
	p.play(t, "clusters", p.console(t, "", true), nil)
	member := &unstructured.Unstructured{}
	member.SetGroupVersionKind(schema.GroupVersionKind{Group: "set.nephele.io", Version: "v1alpha1", Kind: "Cluster"})
	member.SetName("east")
	must(t, p.client.Delete(t.Context(), member))
	must(t, p.client.Delete(t.Context(), &v1beta1.ClusterNetworkPolicy{ObjectMeta: metav1.ObjectMeta{Name: "from-the-hub"}}))
}

const ofSet = `apiVersion: set.nephele.io/v1alpha1
kind: Cluster
metadata: {name: east, labels: {env: prod}}
spec:
  addresses: {pods: [10.66.0.0/16]}
---
apiVersion: crd.antrea.io/v1beta1
kind: ClusterNetworkPolicy
metadata: {name: from-the-hub, annotations: {nephele.io/clusters: env=prod}}
spec:
  tier: platform
  priority: 5
  appliedTo: [{podSelector: {matchLabels: {app: db}}}]
  ingress:
  - action: Allow
    from: [{podSelector: {matchLabels: {app: web}}, scope: ClusterSet}]`
