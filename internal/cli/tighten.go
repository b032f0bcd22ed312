package cli

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"

	antreav1beta1 "github.com/nephele-io/nephele/api/antrea/v1beta1"
	cloudv1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
)

// tightens reads from a policy whether as much of it is to be enforced as fits. A policy that cannot be read is kept as it was.
func tightens(ctx context.Context, c client.Reader) func(v1beta2.NetworkPolicyReference) bool {
	return func(ref v1beta2.NetworkPolicyReference) bool {
		var o client.Object
		switch ref.Type {
		case v1beta2.AntreaClusterNetworkPolicy:
			o = &antreav1beta1.ClusterNetworkPolicy{}
		case v1beta2.AntreaNetworkPolicy:
			o = &antreav1beta1.NetworkPolicy{}
		default:
			return false
		}
		if err := c.Get(ctx, client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name}, o); err != nil {
			return false
		}
		return o.GetAnnotations()[cloudv1.AnnotationOnRefusal] == cloudv1.OnRefusalTighten
	}
}
