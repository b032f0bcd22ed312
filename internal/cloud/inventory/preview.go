package inventory

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	antreav1alpha2 "github.com/nephele-io/nephele/api/antrea/v1alpha2"
	"github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud"
)

// Previewed is what the loop would know of an account.
type Previewed struct {
	// Entities are the ExternalEntities that it would write, sorted by namespace and name.
	Entities []*antreav1alpha2.ExternalEntity
	// Refs maps their names to the VMs that they stand for, as Inventory.Entities does.
	Refs map[types.NamespacedName]VMRef
	// Settings are what Inventory.Settings would return.
	Settings Settings
}

// Preview returns what the loop would make of an account and its selectors with these snapshots of its regions. It is a pure function;
// selectors of other accounts, and those that say nothing, are left out. vms are the VirtualMachine objects that exist, for the tags that
// users gave them and for the annotation that breaks the glass.
func Preview(account *v1alpha1.CloudProviderAccount, provider v1alpha1.CloudProvider, selectors []*v1alpha1.CloudEntitySelector,
	vms []*v1alpha1.VirtualMachine, snapshots []*cloud.Snapshot,
) Previewed {
	v := view{
		account: types.NamespacedName{Namespace: account.Namespace, Name: account.Name}, provider: provider, snapshots: snapshots,
		userTags: map[types.NamespacedName]map[string]string{},
		modes:    modes{fallback: account.Spec.Mode, broken: map[types.NamespacedName]string{}},
	}
	for _, vm := range vms {
		key := types.NamespacedName{Namespace: vm.Namespace, Name: vm.Name}
		v.userTags[key] = vm.Spec.Tags
		if reason, ok := vm.Annotations[v1alpha1.AnnotationBreakGlass]; ok {
			v.modes.broken[key] = reason
		}
	}
	for _, s := range selectors {
		if s.Spec.AccountName == account.Name && s.Spec.AccountNamespace == account.Namespace && checkSelector(s) == "" {
			v.selectors = append(v.selectors, *s)
		}
	}
	sortSelectors(v.selectors)
	d := compute(v)
	out := Previewed{Entities: make([]*antreav1alpha2.ExternalEntity, 0, len(d.entities)), Refs: d.refs, Settings: settingsOf(account)}
	for _, key := range sortedKeys(d.entities) {
		out.Entities = append(out.Entities, d.entities[key])
	}
	return out
}

// Unmatched returns what is wrong with a selector, or which of its entries select no VM of the snapshots, as paths with a few words.
func Unmatched(s *v1alpha1.CloudEntitySelector, snapshots []*cloud.Snapshot) []string {
	if wrong := checkSelector(s); wrong != "" {
		return []string{wrong}
	}
	networks := map[string]*cloud.Network{}
	for _, snap := range snapshots {
		for i := range snap.Networks {
			networks[snap.Networks[i].ID] = &snap.Networks[i]
		}
	}
	selects := func(e v1alpha1.VirtualMachineSelector) bool {
		return slices.ContainsFunc(snapshots, func(snap *cloud.Snapshot) bool {
			return slices.ContainsFunc(snap.VMs, func(vm cloud.VM) bool { return selectEntry(e, &vm, networks[vm.NetworkID]) != notSelected })
		})
	}
	var out []string
	for i, e := range s.Spec.VMSelector {
		if !selects(e) {
			out = append(out, fmt.Sprintf("spec.vmSelector[%d] selects no VM", i))
		}
	}
	return out
}
