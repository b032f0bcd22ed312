package webhook

import (
	"context"
	"encoding/json"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/network-policy-api/apis/v1alpha1"
	"sigs.k8s.io/network-policy-api/apis/v1alpha2"

	"github.com/nephele-io/nephele/internal/convert"
	"github.com/nephele-io/nephele/internal/policy/admission"
)

// The kinds of policy.networking.k8s.io. Each returns an empty object, and what of one is compared
// in updates.

func upstreamPolicy() (runtime.Object, func() any) {
	o := &v1alpha2.ClusterNetworkPolicy{}
	return o, func() any { return o.Spec }
}

func adminPolicy() (runtime.Object, func() any) {
	o := &v1alpha1.AdminNetworkPolicy{}
	return o, func() any { return o.Spec }
}

func baselinePolicy() (runtime.Object, func() any) {
	o := &v1alpha1.BaselineAdminNetworkPolicy{}
	return o, func() any { return o.Spec }
}

// validateUpstream checks a policy of an upstream kind. What it was written for in a later version
// of the API is a warning.
func validateUpstream(empty func() (runtime.Object, func() any)) func(context.Context, *states, *question) answer {
	return func(_ context.Context, _ *states, q *question) answer {
		object, spec := empty()
		if err := json.Unmarshal(q.object, object); err != nil {
			return unreadable(err)
		}
		if q.operation == admissionv1.Update {
			old, oldSpec := empty()
			if err := json.Unmarshal(q.old, old); err == nil && equality.Semantic.DeepEqual(oldSpec(), spec()) {
				return answer{}
			}
		}
		p, ok := convert.Upstream(object)
		if !ok {
			return answer{}
		}
		a := answer{errs: admission.ValidateUpstream(&p)}
		if meta, ok := object.(metav1.Object); ok {
			a.warnings = UnheededStage(meta.GetAnnotations())
		}
		for _, w := range p.Warnings {
			a.warnings = append(a.warnings, w.Error())
		}
		return a
	}
}
