package inventory

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	antreav1alpha2 "github.com/nephele-io/nephele/api/antrea/v1alpha2"
	antreav1beta1 "github.com/nephele-io/nephele/api/antrea/v1beta1"
	"github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud"
)

// Surroundings are the objects that decide what an account's loop makes of the account.
type Surroundings struct {
	// Selectors are those of the account and perhaps of others.
	Selectors []*v1alpha1.CloudEntitySelector
	// VMs are the VirtualMachine objects that exist, for the tags that users gave them and for the
	// annotation that breaks the glass.
	VMs []*v1alpha1.VirtualMachine
	// Services and Interfaces are the objects of these kinds that exist, for that annotation.
	Services   []*v1alpha1.CloudNativeService
	Interfaces []*v1alpha1.NetworkInterface
	// Namespaces are those that exist, for their labels.
	Namespaces []*corev1.Namespace
	// At is when it is asked, for releases that end by themselves; zero is before all ends.
	At time.Time
}

// Previewed is what the loop would know of an account.
type Previewed struct {
	// Entities are the ExternalEntities that it would write, sorted by namespace and name.
	Entities []*antreav1alpha2.ExternalEntity
	// Refs maps their names to the VMs that they stand for, as Inventory.Entities does.
	Refs map[types.NamespacedName]VMRef
	// Services maps the others to the native services and interfaces that they stand for, as
	// Inventory.Services does.
	Services map[types.NamespacedName]ServiceRef
	// Groups are the addresses of service tags, sorted by namespace and name.
	Groups []*antreav1beta1.Group
	// Selecting are the namespaces with a selector that the account lets select. Elsewhere nothing
	// is imported, and nothing is kept.
	Selecting map[string]bool
	// Settings are what Inventory.Settings would return.
	Settings Settings
	// Remarks name the selectors and VirtualMachines that are not granted what they ask for, and
	// say how to grant it, sorted.
	Remarks []string
	// Unimported name the VMs that are selected and have no object, because another VM has it,
	// sorted.
	Unimported []string
}

// Preview returns what the loop would make of an account and the objects around it with these
// snapshots of its regions. It is a pure function; selectors of other accounts, and those that say
// nothing, are left out.
func Preview(account *v1alpha1.CloudProviderAccount, provider v1alpha1.CloudProvider, around Surroundings, snapshots []*cloud.Snapshot) Previewed {
	v := view{
		account: types.NamespacedName{Namespace: account.Namespace, Name: account.Name}, provider: provider, snapshots: snapshots,
		userTags: map[types.NamespacedName]map[string]string{}, mergeTags: userTagsOf(account) == v1alpha1.UserTagsMerge,
		modes: modes{fallback: account.Spec.Mode, release: account.Spec.ReleaseNamespaces, now: around.At},
	}
	for _, vm := range around.VMs {
		key := types.NamespacedName{Namespace: vm.Namespace, Name: vm.Name}
		v.userTags[key] = vm.Spec.Tags
		v.modes.look(kindVM, vm)
	}
	for _, o := range around.Services {
		v.modes.look(kindService, o)
	}
	for _, o := range around.Interfaces {
		v.modes.look(kindInterface, o)
	}
	v.holder = holderAmong(around.VMs, v.account)
	selectors, refused := selectorsFor(account, around)
	out := Previewed{Selecting: map[string]bool{}, Settings: settingsOf(account, 0)}
	for _, s := range selectors {
		out.Selecting[s.Namespace] = true
		if checkSelector(&s) == "" {
			v.selectors = append(v.selectors, s)
		}
	}
	d := compute(v)
	out.Services = d.serviceRefs
	out.Refs, out.Remarks = d.refs, remarks(v, d, refused)
	for _, key := range sortedKeys(d.clashes) {
		out.Unimported = append(out.Unimported, d.clashes[key].message(key))
	}
	out.Entities = make([]*antreav1alpha2.ExternalEntity, 0, len(d.entities))
	for _, key := range sortedKeys(d.entities) {
		out.Entities = append(out.Entities, d.entities[key])
	}
	for _, key := range sortedKeys(d.groups) {
		out.Groups = append(out.Groups, d.groups[key])
	}
	return out
}

// holderAmong is view.holder for these objects.
func holderAmong(vms []*v1alpha1.VirtualMachine, account types.NamespacedName) func(types.NamespacedName) string {
	held := map[types.NamespacedName]string{}
	for _, vm := range vms {
		if vm.Annotations[AnnotationAccount] == cloud.AccountKey(account.Namespace, account.Name) {
			held[types.NamespacedName{Namespace: vm.Namespace, Name: vm.Name}] = vm.Status.CloudId
		}
	}
	return func(key types.NamespacedName) string { return held[key] }
}

// selectorsFor are the selectors of an account, those that it lets select and the others, both
// sorted.
func selectorsFor(account *v1alpha1.CloudProviderAccount, around Surroundings) ([]v1alpha1.CloudEntitySelector, []refused) {
	var all []v1alpha1.CloudEntitySelector
	for _, s := range around.Selectors {
		if s.Spec.AccountName == account.Name && s.Spec.AccountNamespace == account.Namespace {
			all = append(all, *s)
		}
	}
	sortSelectors(all)
	may, not, _ := granted(account, all, among(around.Namespaces)) // labels that are at hand are read without error
	return may, not
}

// SelectorsOf are the selectors of an account that it lets select.
func SelectorsOf(account *v1alpha1.CloudProviderAccount, around Surroundings) []v1alpha1.CloudEntitySelector {
	may, _ := selectorsFor(account, around)
	return may
}

// remarks are about what is not granted.
func remarks(v view, d desired, refused []refused) []string {
	var out []string
	for _, r := range refused {
		out = append(out, fmt.Sprintf("CloudEntitySelector %s/%s: %s", r.selector.Namespace, r.selector.Name, r.why))
	}
	for i := range v.selectors {
		s := &v.selectors[i]
		if verdict := unheeded(v.account, v.modes.release, s, d.unheeded[i], v.modes.now); verdict.status != "" {
			out = append(out, fmt.Sprintf("CloudEntitySelector %s/%s: %s", s.Namespace, s.Name, verdict.message))
		}
	}
	for o := range v.modes.broken {
		if c := v.unheard(o); c != nil && d.has(o) {
			out = append(out, o.String()+": "+c.Message)
		}
	}
	slices.Sort(out)
	return out
}

// Unmatched returns what is wrong with a selector, or which of its entries select no VM of the
// snapshots, as paths with a few words.
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
	// Before somebody asks for services, snapshots show none.
	shown := slices.ContainsFunc(snapshots, func(snap *cloud.Snapshot) bool { return len(snap.Services) > 0 })
	for i, e := range s.Spec.NativeSelector {
		if shown && !slices.ContainsFunc(snapshots, func(snap *cloud.Snapshot) bool {
			return slices.ContainsFunc(snap.Services, func(x cloud.Service) bool { return selectService(e, &x, networks[x.NetworkID]) })
		}) {
			out = append(out, fmt.Sprintf("spec.nativeSelector[%d] selects no native service", i))
		}
	}
	for i, e := range s.Spec.InterfaceSelector {
		if !slices.ContainsFunc(snapshots, func(snap *cloud.Snapshot) bool {
			return slices.ContainsFunc(snap.Interfaces, func(n cloud.Interface) bool { return selectInterface(e, &n, networks[n.NetworkID]) != notSelected })
		}) {
			out = append(out, fmt.Sprintf("spec.interfaceSelector[%d] selects no network interface", i))
		}
	}
	return out
}
