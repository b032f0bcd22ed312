package inventory

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
	// Mode is what may be done to the VM, in the words of status.mode of VirtualMachine, and
	// ModeReason who says so. Both are empty if policies are enforced.
	Mode, ModeReason string
	// Agent is the ExternalNode, NAMESPACE/NAME, to whose agent a selector hands the VM; empty if
	// none does. AgentEntity is the ExternalEntity of that node, and AgentDenied says why the VM
	// cannot be handed over whatever the agent does.
	Agent, AgentEntity, AgentDenied string
}

// view is all that the objects of an account are computed from.
type view struct {
	account  types.NamespacedName
	provider v1alpha1.CloudProvider
	// snapshots are the last whole snapshots of the regions that have one.
	snapshots []*cloud.Snapshot
	// selectors are the selectors of the account, sorted.
	selectors []v1alpha1.CloudEntitySelector
	// userTags are spec.tags of the VirtualMachine objects that exist.
	userTags map[types.NamespacedName]map[string]string
	// mergeTags puts them among the tags of the cloud.
	mergeTags bool
	modes     modes
	// holder returns the id of the VM that a VirtualMachine object of the account stands for
	// already; empty if there is none. Nil means that there are none.
	holder func(types.NamespacedName) string
	// kept are services that the snapshots do not show, by region; see keptServices.
	kept map[string][]native
	// keptTags are the service tags as they were.
	keptTags []native
}

// desired is what there should be for an account, as far as its regions are known. Objects carry
// name, namespace, labels, annotations, spec and the inventory part of the status.
type desired struct {
	vms      map[types.NamespacedName]*v1alpha1.VirtualMachine
	vpcs     map[types.NamespacedName]*v1alpha1.Vpc
	entities map[types.NamespacedName]*antreav1alpha2.ExternalEntity
	nodes    map[types.NamespacedName]*antreav1alpha1.ExternalNode
	// refs maps the entities to the VMs they stand for.
	refs map[types.NamespacedName]VMRef
	// natives are the objects of native services, which serviceRefs maps their entities to, by
	// region and id. services counts those of each region, selected or not.
	natives     map[types.NamespacedName]*v1alpha1.CloudNativeService
	serviceRefs map[types.NamespacedName]ServiceRef
	services    map[string]int
	// groups are the addresses of the service tags among natives.
	groups map[types.NamespacedName]*antreav1beta1.Group
	// matchedServices counts the native services that each selector selects; as matched.
	matchedServices []int32
	// ports are the objects of interfaces that are entities of their own, whose entities are among
	// serviceRefs. interfaces counts those of each region, selected or not, and matchedInterfaces
	// those that each selector selects; as matched.
	ports             map[types.NamespacedName]*v1alpha1.NetworkInterface
	interfaces        map[string]int
	matchedInterfaces []int32
	// matched counts the VMs that each selector selects; it runs parallel to view.selectors.
	matched []int32
	// unheeded counts on how much of what it selects each selector's mode is not heeded, because
	// its namespace has no say in it; as matched.
	unheeded []int32
	// counts are the selected VMs and the networks per region.
	counts map[string]counts
	// inNetwork counts the selected VMs of a network, by region and id.
	inNetwork map[objectID]int32
	// clashes are the objects that several VMs would have.
	clashes map[types.NamespacedName]clash
}

type counts struct{ vms, vpcs int32 }

func newDesired(selectors int) desired {
	return desired{
		vms:       map[types.NamespacedName]*v1alpha1.VirtualMachine{},
		vpcs:      map[types.NamespacedName]*v1alpha1.Vpc{},
		entities:  map[types.NamespacedName]*antreav1alpha2.ExternalEntity{},
		nodes:     map[types.NamespacedName]*antreav1alpha1.ExternalNode{},
		refs:      map[types.NamespacedName]VMRef{},
		matched:   make([]int32, selectors),
		unheeded:  make([]int32, selectors),
		counts:    map[string]counts{},
		inNetwork: map[objectID]int32{},
		clashes:   map[types.NamespacedName]clash{},

		natives:         map[types.NamespacedName]*v1alpha1.CloudNativeService{},
		serviceRefs:     map[types.NamespacedName]ServiceRef{},
		services:        map[string]int{},
		groups:          map[types.NamespacedName]*antreav1beta1.Group{},
		matchedServices: make([]int32, selectors),

		ports:             map[types.NamespacedName]*v1alpha1.NetworkInterface{},
		interfaces:        map[string]int{},
		matchedInterfaces: make([]int32, selectors),
	}
}

// compute is a pure function of the view.
func compute(v view) desired {
	d := newDesired(len(v.selectors))
	for _, snap := range v.snapshots {
		d.addMachines(v, snap, nil)
		d.addServices(v, snap)
		d.addInterfaces(v, snap)
	}
	d.addTags(v)
	d.addNetworks(v)
	return d
}

// addMachines adds the objects of the VMs of a snapshot; if only is set, of those with these ids.
func (d *desired) addMachines(v view, snap *cloud.Snapshot, only map[string]bool) {
	add := func(vm *cloud.VM) {
		m := machine{vm: vm, network: snap.Network(vm.NetworkID),
			region: snap.Region, seen: metav1.NewTime(snap.ObservedAt)}
		for _, id := range vm.Interfaces {
			if nic := snap.Interface(id); nic != nil {
				m.nics = append(m.nics, nic)
			}
		}
		if d.addMachine(v, m) {
			d.inNetwork[objectID{snap.Region, vm.NetworkID}]++
			c := d.counts[snap.Region]
			c.vms++
			d.counts[snap.Region] = c
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
func (d *desired) addNetworks(v view) {
	for _, snap := range v.snapshots {
		for _, n := range snap.Networks {
			d.addNetwork(v, n, snap.Region, d.inNetwork[objectID{snap.Region, n.ID}] > 0)
		}
		d.counts[snap.Region] = counts{vms: d.counts[snap.Region].vms, vpcs: int32(len(snap.Networks))}
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
func (d *desired) addMachine(v view, m machine) bool {
	chosen := choose(v.selectors, m.vm, m.network, func(i int) { d.matched[i]++ })
	mode := v.mode(guarded{kind: kindVM, name: m.objectName(), id: m.vm.ID, namespaces: slices.Collect(maps.Keys(chosen)), how: m.how})
	for _, i := range mode.unheeded {
		d.unheeded[i]++
	}
	for namespace, c := range chosen {
		key := types.NamespacedName{Namespace: namespace, Name: m.objectName()}
		if d.vms[key] != nil && !d.prevails(v, key, m.vm.ID) {
			continue
		}
		labels, left := tagLabels(m.vm.Tags, v.userTags[key], v.mergeTags)
		m.entityLabels(labels, key)
		vm := m.virtualMachine(v, key, c)
		selectable(vm.Labels, labels)
		vm.Status.UnimportedTags, vm.Status.Mode, vm.Status.ModeReason, vm.Status.ModeUntil = left, mode.mode, mode.by, mode.until
		if c := v.unheard(imported{kindVM, namespace, key.Name}); c != nil {
			vm.Status.Conditions = []metav1.Condition{*c}
		}
		d.vms[key] = vm
		meta := metav1.ObjectMeta{
			Namespace: namespace, Name: v1alpha1.EntityNamePrefix + key.Name, Labels: labels, Annotations: mark(v.account),
		}
		entity := types.NamespacedName{Namespace: namespace, Name: meta.Name}
		ref := VMRef{VMID: m.vm.ID, Region: m.region, Mode: mode.mode, ModeReason: mode.by}
		if c.agented {
			if node := m.externalNode(meta); node != nil {
				d.nodes[entity] = node
				ref.Agent, ref.AgentEntity = entity.String(), agentEntityName(node)
				ref.AgentDenied = v.agentDenied(namespace, len(chosen))
			}
		}
		// The cloud guards it as well, or lets in what the agent decides (decision 0021).
		d.entities[entity] = m.externalEntity(meta, cloud.EnforcerKey(v.account.Namespace, v.account.Name))
		d.refs[entity] = ref
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

// entityLabels adds all labels of an entity but those of the tags.
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

func (m machine) virtualMachine(v view, key types.NamespacedName, c choice) *v1alpha1.VirtualMachine {
	vm := &v1alpha1.VirtualMachine{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: key.Namespace, Name: key.Name, Labels: accountLabels(v.account), Annotations: mark(v.account),
		},
		Status: v1alpha1.VirtualMachineStatus{
			Provider: v.provider, Tags: m.vm.Tags, State: v1alpha1.VMState(m.vm.State), Region: m.region, Agented: c.agented,
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

func (d *desired) addNetwork(v view, n cloud.Network, region string, managed bool) {
	key := types.NamespacedName{Namespace: v.account.Namespace, Name: cloud.ObjectName(n.ID)}
	if d.vpcs[key] != nil {
		return
	}
	vpc := &v1alpha1.Vpc{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: key.Namespace, Name: key.Name, Labels: accountLabels(v.account), Annotations: mark(v.account),
		},
		Status: v1alpha1.VpcStatus{
			CloudName: n.Name, CloudId: n.ID, Provider: v.provider, Region: region, Tags: lasting(n.Tags), Managed: managed,
		},
	}
	setIfLegal(vpc.Labels, v1alpha1.LabelCloudVPCUID, cmp.Or(n.UID, n.ID))
	for _, c := range n.CIDRs {
		vpc.Status.Cidrs = append(vpc.Status.Cidrs, c.String())
	}
	d.vpcs[key] = vpc
}

// sortedKeys returns the keys of a map in order.
func sortedKeys[V any](m map[types.NamespacedName]V) []types.NamespacedName {
	keys := make([]types.NamespacedName, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b types.NamespacedName) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return keys
}
