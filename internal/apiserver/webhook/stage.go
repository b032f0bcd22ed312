package webhook

import (
	"fmt"

	admissionv1 "k8s.io/api/admission/v1"

	cloudv1alpha1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/policy"
)

// StageErrors returns what is wrong with the stage of an Antrea policy. An unknown value is
// refused: its author believes that the policy is not enforced, and it would be.
func StageErrors(annotations map[string]string) []policy.FieldError {
	value, given := annotations[cloudv1alpha1.AnnotationStage]
	if !given || value == cloudv1alpha1.StagePlan {
		return nil
	}
	return []policy.FieldError{{Field: "metadata.annotations[" + cloudv1alpha1.AnnotationStage + "]", Value: value, Want: cloudv1alpha1.StagePlan + ", or no such annotation"}}
}

// UnheededStage warns of a stage on a policy of a kind that cannot be staged.
func UnheededStage(annotations map[string]string) []string {
	if _, given := annotations[cloudv1alpha1.AnnotationStage]; !given {
		return nil
	}
	return []string{fmt.Sprintf("metadata.annotations[%s]: not heeded on this kind: the policy is enforced", cloudv1alpha1.AnnotationStage)}
}

// stage is the part of the answer about the stage of a policy. An object that was stored with a
// wrong one may be changed otherwise.
func (decode decodePolicy) stage(q *question, given *storedPolicy) answer {
	value := given.meta.Annotations[cloudv1alpha1.AnnotationStage]
	before, existed := "", false
	if q.operation == admissionv1.Update {
		if old, err := decode(q.old); err == nil {
			before, existed = old.meta.Annotations[cloudv1alpha1.AnnotationStage], true
		}
	}
	switch errs := StageErrors(given.meta.Annotations); {
	case given.meta.DeletionTimestamp != nil, existed && before == value && len(errs) > 0:
		return answer{}
	case len(errs) > 0:
		return answer{errs: errs}
	case value == "":
		return answer{}
	case existed && before != value:
		return answer{warnings: []string{"the policy was in force and is staged now: what it closed is open, as if it were deleted"}}
	}
	return answer{warnings: []string{"the policy is staged: it is not enforced until the annotation " + cloudv1alpha1.AnnotationStage + " is removed"}}
}
