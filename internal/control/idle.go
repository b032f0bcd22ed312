package control

import (
	"context"
	"iter"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nephele-io/nephele/api/antrea/v1alpha2"
	"github.com/nephele-io/nephele/api/antrea/v1beta1"
	"github.com/nephele-io/nephele/internal/convert"
	"github.com/nephele-io/nephele/internal/policy"
	"github.com/nephele-io/nephele/internal/policy/admission"
	"github.com/nephele-io/nephele/internal/policy/compute"
)

// explainIdle adds to the status of a policy that applies to nothing which of its selectors match
// nothing, and what may have been meant. What cannot be looked up is not told.
func (w statuses) explainIdle(ctx context.Context, object client.Object, s *v1beta1.NetworkPolicyStatus) {
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
	if err := w.c.Options.Client.List(ctx, &list, append(options, client.UnsafeDisableDeepCopy)...); err != nil {
		return
	}
	var pods iter.Seq[admission.Entity]
	if selectsPods(&p) {
		pods = w.podLabels(ctx, p.Namespace)
	}
	wrong := admission.AppliesToNobody(&p, func(yield func(admission.Entity) bool) {
		for i := range list.Items {
			if !yield(admission.Entity{Namespace: list.Items[i].Namespace, Labels: list.Items[i].Labels}) {
				return
			}
		}
	}, pods)
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

// mostLabelSets bounds the sets of labels of Pods that are looked at for one policy.
const mostLabelSets = 5000

// podLabels are the labels of the Pods of a namespace, or with an empty name of all; nil if they
// are not known now.
func (w statuses) podLabels(ctx context.Context, namespace string) iter.Seq[admission.Entity] {
	var pods []admission.Entity
	if err := w.c.query(ctx, func(e *compute.Engine) {
		compute.LabelSets(e, policy.KindPod, namespace, func(name string, labels map[string]string) bool {
			pods = append(pods, admission.Entity{Namespace: name, Labels: labels})
			return len(pods) < mostLabelSets
		})
	}); err != nil {
		return nil
	}
	return slices.Values(pods)
}

// selectsPods reports whether a policy is applied to Pods by their labels.
func selectsPods(p *policy.Policy) bool {
	pods := func(a policy.AppliedTo) bool { return a.PodSelector != nil }
	return slices.ContainsFunc(p.AppliedTo, pods) ||
		slices.ContainsFunc(slices.Concat(p.Ingress, p.Egress), func(r policy.Rule) bool { return slices.ContainsFunc(r.AppliedTo, pods) })
}
