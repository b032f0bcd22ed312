package convert

import (
	"github.com/nephele-io/nephele/api/antrea/v1beta1"
	cloudv1alpha1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
)

// Staged reports whether an object is a policy that is not to be enforced yet. Only the two Antrea
// kinds can be staged: others enforce the rest as well. Any value but the one that is known means
// nothing, so that a slip in it does not open what the policy closes.
func Staged(object any) bool {
	switch o := object.(type) {
	case *v1beta1.NetworkPolicy:
		return o.Annotations[cloudv1alpha1.AnnotationStage] == cloudv1alpha1.StagePlan
	case *v1beta1.ClusterNetworkPolicy:
		return o.Annotations[cloudv1alpha1.AnnotationStage] == cloudv1alpha1.StagePlan
	}
	return false
}
