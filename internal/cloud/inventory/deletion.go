package inventory

import (
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud/accountspec"
)

// notProtected is what an account says that is not protected only because of its age.
func notProtected() verdict {
	return no(v1alpha1.ReasonOlderAccount, "deleting this account, a selector of it or their namespaces opens its VMs, as in the version that it comes from; "+
		"spec.deletionPolicy: Protect refuses that, and Release says that it is meant")
}

// setUnprotected sets the condition DeletionProtected, or removes it if there is nothing to say,
// and reports whether it is new.
func (p *pass) setUnprotected(live *v1alpha1.CloudProviderAccount) (news bool) {
	if live.Spec.DeletionPolicy != "" || accountspec.DeletionPolicyOf(live) == v1alpha1.DeletionProtect {
		meta.RemoveStatusCondition(&live.Status.Conditions, v1alpha1.ConditionDeletionProtected)
		return false
	}
	return p.loop.set(&live.Status.Conditions, v1alpha1.ConditionDeletionProtected, notProtected(), live.Generation)
}
