package inventory

import (
	"cmp"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/nephele-io/nephele/api/cloud/v1alpha1"
)

// deletionPolicyOf says whether an account may be deleted while VMs are guarded through it. One
// that was read before that could be said stays as it was: tools that delete it as they always did
// go on working.
func deletionPolicyOf(cpa *v1alpha1.CloudProviderAccount) v1alpha1.DeletionPolicy {
	return cmp.Or(cpa.Spec.DeletionPolicy, cpa.Status.DeletionPolicy, deletionAtFirst(&cpa.Status))
}

// deletionAtFirst is the policy where nobody has said anything yet.
func deletionAtFirst(st *v1alpha1.CloudProviderAccountStatus) v1alpha1.DeletionPolicy {
	if st.CloudAccountID != "" {
		return v1alpha1.DeletionRelease
	}
	return v1alpha1.DeletionProtect
}

// notProtected is what an account says that is not protected only because of its age.
func notProtected() verdict {
	return no(v1alpha1.ReasonOlderAccount, "who deletes this account, a selector of it or their namespaces opens its VMs, as in the version that it comes from; "+
		"spec.deletionPolicy: Protect refuses that, and Release says that it is meant")
}

// setUnprotected sets the condition DeletionProtected, or removes it if there is nothing to say,
// and reports whether it is new.
func (p *pass) setUnprotected(live *v1alpha1.CloudProviderAccount) (news bool) {
	if live.Spec.DeletionPolicy != "" || deletionPolicyOf(live) == v1alpha1.DeletionProtect {
		meta.RemoveStatusCondition(&live.Status.Conditions, v1alpha1.ConditionDeletionProtected)
		return false
	}
	return p.set(&live.Status.Conditions, v1alpha1.ConditionDeletionProtected, notProtected(), live.Generation)
}
