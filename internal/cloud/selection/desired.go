package selection

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	antreav1alpha1 "github.com/nephele-io/nephele/api/antrea/v1alpha1"
	antreav1alpha2 "github.com/nephele-io/nephele/api/antrea/v1alpha2"
	antreav1beta1 "github.com/nephele-io/nephele/api/antrea/v1beta1"
	"github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud"
)

// VMRef names a VM of an account.
type VMRef struct {
	VMID   string
	Region string
	// Mode is what may be done to the VM, with the values of status.mode of VirtualMachine, and
	// ModeReason the object that sets it. Both are empty if policies are enforced.
	Mode, ModeReason string
	// Agent is the ExternalNode, NAMESPACE/NAME, to whose agent a selector hands the VM; empty if
	// none does. AgentEntity is the ExternalEntity of that node, and AgentDenied says why the VM
	// cannot be handed over whatever the agent does.
	Agent, AgentEntity, AgentDenied string
}

// View is all that the objects of an account are computed from. Compute and Part change nothing of
// it.
type View struct {
	Account  types.NamespacedName
	Provider v1alpha1.CloudProvider
	// Snapshots are the last whole snapshots of the regions that have one.
	Snapshots []*cloud.Snapshot
	// Selectors holds the selectors of the account, sorted; see Sort.
	Selectors []v1alpha1.CloudEntitySelector
	// MergeTags puts spec.tags of VirtualMachine objects among the tags of the cloud.
	MergeTags bool
	Modes     Modes
	// VMs, Services and Interfaces are the objects that exist, for the tags that users gave them
	// and for what is kept while nothing shows it. Objects of other accounts do no harm.
	VMs        map[types.NamespacedName]*v1alpha1.VirtualMachine
	Services   map[types.NamespacedName]*v1alpha1.CloudNativeService
	Interfaces map[types.NamespacedName]*v1alpha1.NetworkInterface
	// Keep tells which of these stay although nothing shows them; nil means that none does. The
	// namespace is "" for objects that no selector decides about.
	Keep func(region, namespace string) bool
}

// Desired is what there should be for an account, as far as its regions are known. Objects carry
// name, namespace, labels, annotations, spec and the inventory part of the status.
type Desired struct {
	VMs      map[types.NamespacedName]*v1alpha1.VirtualMachine
	Vpcs     map[types.NamespacedName]*v1alpha1.Vpc
	Entities map[types.NamespacedName]*antreav1alpha2.ExternalEntity
	Nodes    map[types.NamespacedName]*antreav1alpha1.ExternalNode
	// Services are the objects of native services.
	Services map[types.NamespacedName]*v1alpha1.CloudNativeService
	// Groups are the addresses of the service tags among them.
	Groups map[types.NamespacedName]*antreav1beta1.Group
	// Interfaces are the objects of interfaces that are entities of their own.
	Interfaces map[types.NamespacedName]*v1alpha1.NetworkInterface
	Tally
}

// Tally is what is known of an account as a whole beside its objects.
type Tally struct {
	// VMRefs maps entities to the VMs that they represent, and ServiceRefs the others to native
	// services and interfaces.
	VMRefs      map[types.NamespacedName]VMRef
	ServiceRefs map[types.NamespacedName]ServiceRef
	// Selected runs parallel to View.Selectors.
	Selected []Selected
	// Regions are the counts of each region.
	Regions map[string]Counts
	// Clashes are the objects that several VMs would have.
	Clashes map[types.NamespacedName]Clash

	// inNetwork counts the selected VMs of a network.
	inNetwork map[networkKey]int32
}

// Selected counts what one selector selects.
type Selected struct {
	VMs, Services, Interfaces int32
	// Unheeded is on how much of it the mode of the selector has no effect, because its namespace
	// has no say in it.
	Unheeded int32
}

// Counts counts what a region has: VMs that are selected, and networks, native services and
// interfaces, selected or not. Interfaces are counted only if a selector asks for any.
type Counts struct{ VMs, Vpcs, Services, Interfaces int32 }

// networkKey names a network of a region.
type networkKey struct{ region, id string }

func newDesired(selectors int) Desired {
	return Desired{
		VMs:        map[types.NamespacedName]*v1alpha1.VirtualMachine{},
		Vpcs:       map[types.NamespacedName]*v1alpha1.Vpc{},
		Entities:   map[types.NamespacedName]*antreav1alpha2.ExternalEntity{},
		Nodes:      map[types.NamespacedName]*antreav1alpha1.ExternalNode{},
		Services:   map[types.NamespacedName]*v1alpha1.CloudNativeService{},
		Groups:     map[types.NamespacedName]*antreav1beta1.Group{},
		Interfaces: map[types.NamespacedName]*v1alpha1.NetworkInterface{},
		Tally: Tally{
			VMRefs:      map[types.NamespacedName]VMRef{},
			ServiceRefs: map[types.NamespacedName]ServiceRef{},
			Selected:    make([]Selected, selectors),
			Regions:     map[string]Counts{},
			Clashes:     map[types.NamespacedName]Clash{},
			inNetwork:   map[networkKey]int32{},
		},
	}
}

// count changes the counts of a region.
func (t *Tally) count(region string, change func(*Counts)) {
	c := t.Regions[region]
	change(&c)
	t.Regions[region] = c
}

// Compute returns what there should be.
func Compute(v View) Desired {
	d := newDesired(len(v.Selectors))
	for _, snap := range v.Snapshots {
		d.addMachines(v, snap, nil)
		d.addServices(v, snap)
		d.addInterfaces(v, snap)
	}
	d.addTags(v)
	d.addNetworks(v)
	if v.Keep != nil {
		d.yield(v)
		d.keepRefs(v)
	}
	return d
}

// addMachines adds the objects of the VMs of a snapshot; if only is set, of those with these ids.
func (d *Desired) addMachines(v View, snap *cloud.Snapshot, only map[string]bool) {
	add := func(vm *cloud.VM) {
		m := machine{vm: vm, network: snap.Network(vm.NetworkID),
			region: snap.Region, seen: metav1.NewTime(snap.ObservedAt)}
		for _, id := range vm.Interfaces {
			if nic := snap.Interface(id); nic != nil {
				m.nics = append(m.nics, nic)
			}
		}
		if d.addMachine(v, m) {
			d.inNetwork[networkKey{snap.Region, vm.NetworkID}]++
			d.count(snap.Region, func(c *Counts) { c.VMs++ })
		}
	}
	if only == nil {
		for i := range snap.VMs {
			add(&snap.VMs[i])
		}
		return
	}
	for id := range only {
		if vm := snap.VM(id); vm != nil {
			add(vm)
		}
	}
}

// addNetworks adds the objects of the networks; the VMs are added already.
func (d *Desired) addNetworks(v View) {
	for _, snap := range v.Snapshots {
		for _, n := range snap.Networks {
			d.addNetwork(v, n, snap.Region, d.inNetwork[networkKey{snap.Region, n.ID}] > 0)
		}
		d.count(snap.Region, func(c *Counts) { c.Vpcs = int32(len(snap.Networks)) })
	}
}

// machine is a VM with what belongs to it.
type machine struct {
	vm      *cloud.VM
	network *cloud.Network
	nics    []*cloud.Interface
	region  string
	seen    metav1.Time
}

// addMachine adds the objects of a VM, one set per namespace that selects it, and reports whether
// any does.
func (d *Desired) addMachine(v View, m machine) bool {
	chosen := choose(v.Selectors, m.vm, m.network, func(i int) { d.Selected[i].VMs++ })
	mode := v.mode(guarded{kind: kindVM, name: m.objectName(), id: m.vm.ID, namespaces: slices.Collect(maps.Keys(chosen)), how: m.how})
	for _, i := range mode.unheeded {
		d.Selected[i].Unheeded++
	}
	for namespace, c := range chosen {
		key := types.NamespacedName{Namespace: namespace, Name: m.objectName()}
		if d.VMs[key] != nil && !d.prevails(v, key, m.vm.ID) {
			continue
		}
		labels, left := tagLabels(m.vm.Tags, v.userTags(key), v.MergeTags)
		m.entityLabels(labels, key)
		vm := m.virtualMachine(v, key, c)
		selectable(vm.Labels, labels)
		vm.Status.UnimportedTags, vm.Status.Mode, vm.Status.ModeReason, vm.Status.ModeUntil = left, mode.mode, mode.by, mode.until
		if c := v.unheard(imported{kindVM, namespace, key.Name}); c != nil {
			vm.Status.Conditions = []metav1.Condition{*c}
		}
		d.VMs[key] = vm
		meta := metav1.ObjectMeta{
			Namespace: namespace, Name: v1alpha1.EntityNamePrefix + key.Name, Labels: labels, Annotations: mark(v.Account),
		}
		entity := types.NamespacedName{Namespace: namespace, Name: meta.Name}
		ref := VMRef{VMID: m.vm.ID, Region: m.region, Mode: mode.mode, ModeReason: mode.by}
		if c.agented {
			if node := m.externalNode(meta); node != nil {
				d.Nodes[entity] = node
				ref.Agent, ref.AgentEntity = entity.String(), agentEntityName(node)
				ref.AgentDenied = v.agentDenied(namespace, len(chosen))
			}
		}
		// The cloud guards it as well, or lets in what the agent decides (decision 0021).
		d.Entities[entity] = m.externalEntity(meta, cloud.EnforcerKey(v.Account.Namespace, v.Account.Name))
		d.VMRefs[entity] = ref
	}
	return len(chosen) > 0
}

// how is how much a selector means the VM.
func (m machine) how(s *v1alpha1.CloudEntitySelector) specificity {
	best := notSelected
	for _, e := range s.Spec.VMSelector {
		best = max(best, selectEntry(e, m.vm, m.network))
	}
	return best
}

// objectName is the name of the VirtualMachine object.
func (m machine) objectName() string { return cloud.ObjectName(m.vm.ID) }

// networkUID identifies the network of the VM in labels.
func (m machine) networkUID() string {
	if m.network == nil {
		return m.vm.NetworkID
	}
	return cmp.Or(m.network.UID, m.network.ID)
}

func mark(account types.NamespacedName) map[string]string {
	return map[string]string{AnnotationAccount: cloud.AccountKey(account.Namespace, account.Name)}
}

func (m machine) networkName() string {
	if m.network == nil {
		return ""
	}
	return m.network.Name
}

// entityLabels adds all labels of an entity but the labels of tags.
func (m machine) entityLabels(labels map[string]string, vm types.NamespacedName) {
	labels[v1alpha1.LabelKind] = v1alpha1.LabelKindVirtualMachine
	labels[v1alpha1.LabelNamespace] = vm.Namespace
	setIfLegal(labels, v1alpha1.LabelOwnerVM, strings.ToLower(vm.Name))
	setIfLegal(labels, v1alpha1.LabelOwnerVMVPC, cloud.ObjectName(m.vm.NetworkID))
	setIfLegal(labels, v1alpha1.LabelCloudVMUID, cmp.Or(m.vm.UID, m.vm.ID))
	setIfLegal(labels, v1alpha1.LabelCloudVMName, strings.ToLower(m.vm.Name))
	setIfLegal(labels, v1alpha1.LabelCloudVPCUID, m.networkUID())
	setIfLegal(labels, v1alpha1.LabelCloudVPCName, m.networkName())
	setIfLegal(labels, v1alpha1.LabelCloudRegion, m.region)
}

func (m machine) virtualMachine(v View, key types.NamespacedName, c choice) *v1alpha1.VirtualMachine {
	vm := &v1alpha1.VirtualMachine{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: key.Namespace, Name: key.Name, Labels: accountLabels(v.Account), Annotations: mark(v.Account),
		},
		Status: v1alpha1.VirtualMachineStatus{
			Provider: v.Provider, Tags: m.vm.Tags, State: v1alpha1.VMState(m.vm.State), Region: m.region, Agented: c.agented,
			CloudId: m.vm.ID, CloudUid: m.vm.UID, CloudName: m.vm.Name, CloudVpcId: m.vm.NetworkID, CloudVpcName: m.networkName(),
			LastSeen: &m.seen,
		},
	}
	if !m.vm.Created.IsZero() {
		vm.Status.Created = &metav1.Time{Time: m.vm.Created}
	}
	setIfLegal(vm.Labels, v1alpha1.LabelCESName, c.selector)
	setIfLegal(vm.Labels, v1alpha1.LabelCESNamespace, key.Namespace)
	setIfLegal(vm.Labels, v1alpha1.LabelVPCName, cloud.ObjectName(m.vm.NetworkID))
	setIfLegal(vm.Labels, v1alpha1.LabelCloudVMUID, cmp.Or(m.vm.UID, m.vm.ID))
	setIfLegal(vm.Labels, v1alpha1.LabelCloudVPCUID, m.networkUID())
	for _, nic := range m.nics {
		vm.Status.NetworkInterfaces = append(vm.Status.NetworkInterfaces, shownInterface(nic))
	}
	vm.Status.Addresses = inShort(m.addresses())
	return vm
}

// shownInterface is an interface as statuses have it.
func shownInterface(nic *cloud.Interface) v1alpha1.AttachedInterface {
	out := v1alpha1.AttachedInterface{
		Name: nic.ID, MAC: nic.MAC, SecurityGroupIds: cloud.GroupObjects(nic.GroupIDs), FormerSecurityGroupIds: cloud.GroupObjects(cloud.FormerGroups(nic.Tags)),
	}
	for _, a := range nic.PrivateIPs {
		out.IPs = append(out.IPs, v1alpha1.IPAddress{AddressType: v1alpha1.AddressTypeInternalIP, Address: a.String()})
	}
	for _, a := range nic.PublicIPs {
		out.IPs = append(out.IPs, v1alpha1.IPAddress{AddressType: v1alpha1.AddressTypeExternalIP, Address: a.String()})
	}
	return out
}

// accountLabels leaves out a name that is too long for a label; AnnotationAccount always has it.
func accountLabels(account types.NamespacedName) map[string]string {
	labels := map[string]string{v1alpha1.LabelCPANamespace: account.Namespace}
	setIfLegal(labels, v1alpha1.LabelCPAName, account.Name)
	return labels
}

// externalEntity has all addresses of the VM, the private ones first.
func (m machine) externalEntity(meta metav1.ObjectMeta, enforcer string) *antreav1alpha2.ExternalEntity {
	e := &antreav1alpha2.ExternalEntity{ObjectMeta: meta, Spec: antreav1alpha2.ExternalEntitySpec{ExternalNode: enforcer}}
	for _, a := range m.addresses() {
		e.Spec.Endpoints = append(e.Spec.Endpoints, antreav1alpha2.Endpoint{IP: a.String()})
	}
	return e
}

// externalNode has the first interface with an address: the API takes exactly one. Without any
// there is no node yet.
func (m machine) externalNode(meta metav1.ObjectMeta) *antreav1alpha1.ExternalNode {
	for _, nic := range m.nics {
		var ips []string
		for _, a := range slices.Concat(nic.PrivateIPs, nic.PublicIPs) {
			ips = append(ips, a.String())
		}
		if len(ips) > 0 {
			return &antreav1alpha1.ExternalNode{ObjectMeta: meta, Spec: antreav1alpha1.ExternalNodeSpec{
				Interfaces: []antreav1alpha1.NetworkInterface{{Name: nic.ID, IPs: ips}},
			}}
		}
	}
	return nil
}

func (d *Desired) addNetwork(v View, n cloud.Network, region string, managed bool) {
	key := types.NamespacedName{Namespace: v.Account.Namespace, Name: cloud.ObjectName(n.ID)}
	if d.Vpcs[key] != nil {
		return
	}
	vpc := &v1alpha1.Vpc{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: key.Namespace, Name: key.Name, Labels: accountLabels(v.Account), Annotations: mark(v.Account),
		},
		Status: v1alpha1.VpcStatus{
			CloudName: n.Name, CloudId: n.ID, Provider: v.Provider, Region: region, Tags: cloud.LastingTags(n.Tags), Managed: managed,
		},
	}
	setIfLegal(vpc.Labels, v1alpha1.LabelCloudVPCUID, cmp.Or(n.UID, n.ID))
	for _, c := range n.CIDRs {
		vpc.Status.Cidrs = append(vpc.Status.Cidrs, c.String())
	}
	d.Vpcs[key] = vpc
}

// SortedKeys returns the keys of a map in order.
func SortedKeys[V any](m map[types.NamespacedName]V) []types.NamespacedName {
	keys := make([]types.NamespacedName, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b types.NamespacedName) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return keys
}

// keepRefs adds the entities that are kept although nothing shows their VMs, services and
// interfaces.
func (d *Desired) keepRefs(v View) {
	for key, vm := range v.VMs {
		if d.VMs[key] == nil && v.Keep(vm.Status.Region, key.Namespace) && vm.Status.CloudId != "" {
			entity := types.NamespacedName{Namespace: key.Namespace, Name: v1alpha1.EntityNamePrefix + key.Name}
			d.VMRefs[entity] = VMRef{VMID: vm.Status.CloudId, Region: vm.Status.Region, Mode: vm.Status.Mode, ModeReason: vm.Status.ModeReason}
		}
	}
	keep := func(key types.NamespacedName, there bool, prefix string, st *v1alpha1.ImportedStatus) {
		if !there && v.Keep(st.Region, key.Namespace) && st.CloudId != "" {
			d.ServiceRefs[types.NamespacedName{Namespace: key.Namespace, Name: prefix + key.Name}] = ServiceRef{st.CloudId, st.Region, st.Mode, st.ModeReason}
		}
	}
	for key, n := range v.Services {
		keep(key, d.Services[key] != nil, v1alpha1.ServiceEntityNamePrefix, &n.Status.ImportedStatus)
	}
	for key, n := range v.Interfaces {
		keep(key, d.Interfaces[key] != nil, v1alpha1.InterfaceEntityNamePrefix, &n.Status.ImportedStatus)
	}
}

// userTags are the tags that users gave to the VM of an object.
func (v View) userTags(key types.NamespacedName) map[string]string {
	if vm := v.VMs[key]; vm != nil {
		return vm.Spec.Tags
	}
	return nil
}
