package control

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nephele-io/nephele/api/antrea/v1alpha2"
	"github.com/nephele-io/nephele/api/antrea/v1beta1"
	"github.com/nephele-io/nephele/internal/control/convert"
	"github.com/nephele-io/nephele/internal/policy"
	"github.com/nephele-io/nephele/internal/policy/admission"
)

// explainIdle adds to the status of a policy that applies to nothing which of its selectors match
// nothing, and what may have been meant. What cannot be looked up is not told.
func (c *Controller) explainIdle(ctx context.Context, object client.Object, s *v1beta1.NetworkPolicyStatus) {
	var p policy.Policy
	var options []client.ListOption
	switch o := object.(type) {
	case *v1beta1.NetworkPolicy:
		p, options = convert.NetworkPolicy(o), append(options, client.InNamespace(o.Namespace))
	case *v1beta1.ClusterNetworkPolicy:
		p = convert.ClusterNetworkPolicy(o)
	default:
		return
	}
	var list v1alpha2.ExternalEntityList
	if err := c.Client.List(ctx, &list, append(options, client.UnsafeDisableDeepCopy)...); err != nil {
		return
	}
	wrong := admission.AppliesToNobody(&p, func(yield func(admission.Entity) bool) {
		for i := range list.Items {
			if !yield(admission.Entity{Namespace: list.Items[i].Namespace, Labels: list.Items[i].Labels}) {
				return
			}
		}
	})
	if len(wrong) == 0 {
		return
	}
	text := policy.JoinErrors(wrong)
	for i := range s.Conditions {
		if m := &s.Conditions[i].Message; s.Conditions[i].Type == v1beta1.NetworkPolicyConditionRealizable && *m == idleMessage {
			*m += ": " + text
			s.Message = shortened(*m)
		}
	}
}
