package selection

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
	"github.com/nephele-io/nephele/internal/cloud/accountspec"
)

// Surroundings are the objects that decide what an account's loop makes of the account.
type Surroundings struct {
	// Selectors holds the selectors of the account and perhaps of others.
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
	// Refs maps their names to the VMs that they represent, as the loop does.
	Refs map[types.NamespacedName]VMRef
	// Services maps the others to the native services and interfaces that they represent, as the
	// loop does.
	Services map[types.NamespacedName]ServiceRef
	// Groups are the addresses of service tags, sorted by namespace and name.
	Groups []*antreav1beta1.Group
	// Selecting are the namespaces with a selector that the account lets select. Elsewhere nothing
	// is imported, and nothing is kept.
	Selecting map[string]bool
	// Settings are what the account says about enforcement.
	Settings accountspec.Settings
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
	v := View{
		Account: types.NamespacedName{Namespace: account.Namespace, Name: account.Name}, Provider: provider, Snapshots: snapshots,
		MergeTags: accountspec.UserTagsOf(account) == v1alpha1.UserTagsMerge,
		Modes:     Modes{Fallback: account.Spec.Mode, Release: account.Spec.ReleaseNamespaces, Now: around.At},
		VMs:       map[types.NamespacedName]*v1alpha1.VirtualMachine{},
	}
	for _, vm := range around.VMs {
		v.VMs[types.NamespacedName{Namespace: vm.Namespace, Name: vm.Name}] = vm
		v.Modes.Look(vm)
	}
	for _, o := range around.Services {
		v.Modes.Look(o)
	}
	for _, o := range around.Interfaces {
		v.Modes.Look(o)
	}
	selectors, refused := selectorsFor(account, around)
	out := Previewed{Selecting: map[string]bool{}, Settings: accountspec.SettingsOf(account, 0)}
	for _, s := range selectors {
		out.Selecting[s.Namespace] = true
		if Check(&s) == "" {
			v.Selectors = append(v.Selectors, s)
		}
	}
	d := Compute(v)
	out.Services = d.ServiceRefs
	out.Refs, out.Remarks = d.VMRefs, remarks(v, d, refused)
	for _, key := range SortedKeys(d.Clashes) {
		out.Unimported = append(out.Unimported, d.Clashes[key].Message(key))
	}
	out.Entities = make([]*antreav1alpha2.ExternalEntity, 0, len(d.Entities))
	for _, key := range SortedKeys(d.Entities) {
		out.Entities = append(out.Entities, d.Entities[key])
	}
	for _, key := range SortedKeys(d.Groups) {
		out.Groups = append(out.Groups, d.Groups[key])
	}
	return out
}

// selectorsFor are the selectors of an account, those that it lets select and the others, both
// sorted.
func selectorsFor(account *v1alpha1.CloudProviderAccount, around Surroundings) ([]v1alpha1.CloudEntitySelector, []Refused) {
	var all []v1alpha1.CloudEntitySelector
	for _, s := range around.Selectors {
		if s.Spec.AccountName == account.Name && s.Spec.AccountNamespace == account.Namespace {
			all = append(all, *s)
		}
	}
	Sort(all)
	may, not, _ := Granted(account, all, among(around.Namespaces)) // labels that are at hand are read without error
	return may, not
}

// SelectorsOf are the selectors of an account that it lets select.
func SelectorsOf(account *v1alpha1.CloudProviderAccount, around Surroundings) []v1alpha1.CloudEntitySelector {
	may, _ := selectorsFor(account, around)
	return may
}

// remarks are about what is not granted.
func remarks(v View, d Desired, refused []Refused) []string {
	var out []string
	for _, r := range refused {
		out = append(out, fmt.Sprintf("CloudEntitySelector %s/%s: %s", r.Selector.Namespace, r.Selector.Name, r.Why))
	}
	for i := range v.Selectors {
		s := &v.Selectors[i]
		if reason, message := Unheeded(v.Account, v.Modes.Release, s, d.Selected[i].Unheeded, v.Modes.Now); reason != "" {
			out = append(out, fmt.Sprintf("CloudEntitySelector %s/%s: %s", s.Namespace, s.Name, message))
		}
	}
	for o := range v.Modes.broken {
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
	if wrong := Check(s); wrong != "" {
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
