package inventory

import (
	"k8s.io/apimachinery/pkg/types"

	antreav1alpha2 "github.com/nephele-io/nephele/api/antrea/v1alpha2"
	"github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud"
)

// Preview returns the ExternalEntities that the selectors of an account make of snapshots of its regions, sorted by
// namespace and name: what the loop would write. It is a pure function; selectors of other accounts, and those that say
// nothing, are left out. vms are the VirtualMachine objects that exist, for the tags that users gave them.
func Preview(account types.NamespacedName, provider v1alpha1.CloudProvider, selectors []*v1alpha1.CloudEntitySelector,
	vms []*v1alpha1.VirtualMachine, snapshots []*cloud.Snapshot,
) []*antreav1alpha2.ExternalEntity {
	v := view{account: account, provider: provider, snapshots: snapshots, userTags: map[types.NamespacedName]map[string]string{}}
	for _, vm := range vms {
		v.userTags[types.NamespacedName{Namespace: vm.Namespace, Name: vm.Name}] = vm.Spec.Tags
	}
	for _, s := range selectors {
		if s.Spec.AccountName == account.Name && s.Spec.AccountNamespace == account.Namespace && checkSelector(s) == "" {
			v.selectors = append(v.selectors, *s)
		}
	}
	sortSelectors(v.selectors)
	d := compute(v)
	out := make([]*antreav1alpha2.ExternalEntity, 0, len(d.entities))
	for _, key := range sortedKeys(d.entities) {
		out = append(out, d.entities[key])
	}
	return out
}
