package status

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	cloudv1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud/plan"
)

// agentedCondition is the condition Agented of a VM; nil if no selector hands it over.
func agentedCondition(r Report, vm plan.VMRef) *metav1.Condition {
	s, asked := r.Agents[vm]
	if !asked {
		return nil
	}
	c := &metav1.Condition{Type: cloudv1.ConditionAgented, Status: metav1.ConditionFalse, Reason: s.Reason, Message: s.Message}
	if s.Handed {
		c.Status = metav1.ConditionTrue
	}
	return c
}

// tellAgented writes an event when a VM is handed to its agent or comes back.
func (s *Writer) tellAgented(on subject, before []metav1.Condition) {
	was, is := meta.IsStatusConditionTrue(before, cloudv1.ConditionAgented), meta.FindStatusCondition(*on.conditions, cloudv1.ConditionAgented)
	switch now := is != nil && is.Status == metav1.ConditionTrue; {
	case now && !was:
		s.Events.Eventf(on.Object, nil, corev1.EventTypeNormal, "HandedToAgent", "Realize", "%s", note(is.Message))
	case was && !now && is != nil:
		s.Events.Eventf(on.Object, nil, corev1.EventTypeWarning, "BackFromAgent", "Realize", "%s", note(is.Message))
	case was && !now:
		s.Events.Eventf(on.Object, nil, corev1.EventTypeNormal, "BackFromAgent", "Realize", "the cloud guards the VM: no selector hands it to an agent")
	}
}
