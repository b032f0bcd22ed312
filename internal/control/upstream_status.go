package control

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/network-policy-api/apis/v1alpha1"
	"sigs.k8s.io/network-policy-api/apis/v1alpha2"

	"github.com/nephele-io/nephele/api/antrea/v1beta1"
)

// Conditions of the policies of the upstream kinds. They have no other fields for a status.
const (
	// ConditionRealizable is True if the policy can be computed; its message says what is strange
	// about it.
	ConditionRealizable = string(v1beta1.NetworkPolicyConditionRealizable)
	// ConditionRealized is True if all enforcers concerned have realized the present generation.
	// Its reason is the phase that Antrea policies have (docs/reference/conditions.md), its
	// message has the numbers.
	ConditionRealized = "Realized"
	// conditionTrafficAgrees is that of Antrea's policies.
	conditionTrafficAgrees = string(v1beta1.NetworkPolicyConditionTrafficAgrees)
	// ReasonRealizable is the reason of Realizable True.
	ReasonRealizable = "Computed"
)

// upstreamOwner owns our conditions among those that others may write on the same policies.
const upstreamOwner = client.FieldOwner("nephele")

// writeUpstreamStatus writes the conditions of a policy of an upstream kind, and no others: other
// network plugins may write theirs. It needs no reading, so that it does not wait for a kind that
// has just been removed.
func (w statuses) writeUpstreamStatus(ctx context.Context, uid types.UID, v verdict) error {
	o := w.c.upstream.lastSeen(uid)
	if o == nil {
		return nil
	}
	if v.tell {
		w.c.event(o, corev1.EventTypeWarning, "PolicyProblem", "ComputePolicies", v.problem)
	}
	former := conditionsOf(o)
	next := upstreamConditions(v.status)
	changed := false
	for i := range next {
		n := &next[i]
		n.LastTransitionTime = metav1.NewTime(w.c.Options.Clock.Now())
		at := slices.IndexFunc(former, func(f metav1.Condition) bool { return f.Type == n.Type })
		if at >= 0 && former[at].Status == n.Status {
			n.LastTransitionTime = former[at].LastTransitionTime
		}
		changed = changed || at < 0 || former[at] != *n
	}
	has := func(list []metav1.Condition) bool {
		return slices.ContainsFunc(list, func(c metav1.Condition) bool { return c.Type == conditionTrafficAgrees })
	}
	changed = changed || has(former) != has(next) // it is there only while traffic differs
	if !changed {
		return nil
	}
	if err := w.applyConditions(ctx, o, next); err != nil {
		return err
	}
	phase := string(v.status.Phase)
	if !slices.ContainsFunc(former, func(f metav1.Condition) bool { return f.Type == ConditionRealized && f.Reason == phase }) {
		w.tellPhase(o, v.status)
	}
	return nil
}

// applyConditions writes conditions to the status of that very object; it is no error if the object
// is gone.
func (w statuses) applyConditions(ctx context.Context, o client.Object, conditions []metav1.Condition) error {
	gvk, err := apiutil.GVKForObject(o, w.c.Options.Client.Scheme())
	if err != nil {
		return fmt.Errorf("status of a policy: %w", err)
	}
	content, err := conditionList(conditions)
	if err != nil {
		return err
	}
	patch := &unstructured.Unstructured{Object: map[string]any{"status": map[string]any{"conditions": content}}}
	patch.SetGroupVersionKind(gvk)
	patch.SetName(o.GetName())
	patch.SetUID(o.GetUID())
	err = w.c.Options.Client.Status().Apply(ctx, client.ApplyConfigurationFromUnstructured(patch), upstreamOwner, client.ForceOwnership)
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return nil // another object of the same name, or none: the watch will tell
	}
	if err != nil {
		return fmt.Errorf("writing the status of %s %s: %w", gvk.Kind, o.GetName(), err)
	}
	return nil
}

// conditionList is the conditions as they stand in an object.
func conditionList(conditions []metav1.Condition) ([]any, error) {
	var out []any
	for i := range conditions {
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&conditions[i])
		if err != nil {
			return nil, fmt.Errorf("status of a policy: %w", err)
		}
		out = append(out, content)
	}
	return out, nil
}

func conditionsOf(o client.Object) []metav1.Condition {
	switch o := o.(type) {
	case *v1alpha1.AdminNetworkPolicy:
		return o.Status.Conditions
	case *v1alpha1.BaselineAdminNetworkPolicy:
		return o.Status.Conditions
	case *v1alpha2.ClusterNetworkPolicy:
		return o.Status.Conditions
	}
	return nil
}

// upstreamConditions says with conditions what a status of an Antrea policy says.
func upstreamConditions(s v1beta1.NetworkPolicyStatus) []metav1.Condition {
	realizable := metav1.Condition{
		Type: ConditionRealizable, Status: metav1.ConditionTrue, Reason: ReasonRealizable, ObservedGeneration: s.ObservedGeneration,
	}
	realized := metav1.Condition{
		Type: ConditionRealized, Status: metav1.ConditionFalse, Reason: string(s.Phase), ObservedGeneration: s.ObservedGeneration,
		Message: fmt.Sprintf("%d of %d enforcers have realized generation %d", s.CurrentNodesRealized, s.DesiredNodesRealized, s.ObservedGeneration),
	}
	switch {
	case s.Phase == v1beta1.NetworkPolicyNotEnforced:
		realized.Message = s.Conditions[0].Message
	case s.Phase == v1beta1.NetworkPolicyPending:
		realized.Message = "not computed yet"
	case s.Phase == v1beta1.NetworkPolicyRealized:
		realized.Status = metav1.ConditionTrue
	case s.Phase == v1beta1.NetworkPolicyIdle: // all that it applies to has it
		realized.Status, realized.Message = metav1.ConditionTrue, idleMessage
	}
	var differs []metav1.Condition
	for _, c := range s.Conditions {
		switch c.Type {
		case v1beta1.NetworkPolicyConditionRealizable:
			realizable.Status, realizable.Message = c.Status, c.Message
			if c.Reason != "" {
				realizable.Reason = c.Reason
			}
			if c.Status == metav1.ConditionFalse {
				realized.Message = "this generation cannot be computed: see the condition " + ConditionRealizable
			}
		case v1beta1.NetworkPolicyConditionRealizationFailure:
			realized.Message += "; " + c.Message
		case v1beta1.NetworkPolicyConditionConfirmed:
			realized.Message += "; " + c.Message
		case v1beta1.NetworkPolicyConditionTrafficAgrees:
			differs = append(differs, metav1.Condition{
				Type: conditionTrafficAgrees, Status: c.Status, Reason: c.Reason, Message: c.Message, ObservedGeneration: s.ObservedGeneration,
			})
		}
	}
	return append([]metav1.Condition{realizable, realized}, differs...)
}
