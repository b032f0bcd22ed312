package webhook

import (
	"fmt"

	cloudv1alpha1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
)

// AnnotationWarnings says which annotations of an Antrea policy do not do what one may expect,
// because nobody knows their value. They are no reason to refuse the policy: what it says is in its
// specification.
func AnnotationWarnings(annotations map[string]string) []string {
	switch value, ok := annotations[cloudv1alpha1.AnnotationOnRefusal]; {
	case !ok, value == cloudv1alpha1.OnRefusalKeep, value == cloudv1alpha1.OnRefusalTighten:
		return nil
	default:
		return []string{fmt.Sprintf("metadata.annotations[%s]: want %s or %s, not %q: it is taken as %[2]s",
			cloudv1alpha1.AnnotationOnRefusal, cloudv1alpha1.OnRefusalKeep, cloudv1alpha1.OnRefusalTighten, value)}
	}
}
