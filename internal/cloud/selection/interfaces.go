package selection

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	antreav1alpha2 "github.com/nephele-io/nephele/api/antrea/v1alpha2"
	"github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud"
)

// This file imports network interfaces that selectors name as entities of their own. It asks the
// cloud nothing: they are in every snapshot. Decision 0024 says which entity an interface belongs
// to, and so which policies can apply to it.

// selectInterface tells whether and how an entry selects an interface. network is the interface's;
// it may be nil if the snapshot does not show it. A VPC alone means the interfaces that are of no
// VM: the others are there with their VMs.
func selectInterface(e v1alpha1.NetworkInterfaceSelector, n *cloud.Interface, network *cloud.Network) specificity {
	if n.Front {
		return notSelected
	}
	how := notSelected
	if len(e.TagMatch) > 0 {
		if slices.ContainsFunc(e.TagMatch, func(t v1alpha1.TagMatch) bool {
			value, ok := n.Tags[t.Key]
			return !ok || len(t.Values) > 0 && !slices.Contains(t.Values, value)
		}) {
			return notSelected
		}
		how = byTag
	}
	if e.VpcMatch != nil {
		name := ""
		if network != nil {
			name = network.Name
		}
		if !matches(*e.VpcMatch, n.NetworkID, name) || how == notSelected && len(e.InterfaceMatch) == 0 && n.VMID != "" {
			return notSelected
		}
		how = byVPC
	}
	if len(e.InterfaceMatch) > 0 {
		if !slices.ContainsFunc(e.InterfaceMatch, func(m v1alpha1.EntityMatch) bool { return matches(m, n.ID, n.Name()) }) {
			return notSelected
		}
		how = byName
	}
	return how
}

// port is a network interface with what belongs to it.
type port struct {
	*cloud.Interface
	network *cloud.Network
	region  string
	tags    map[string]string
	owner   *v1alpha1.NetworkInterfaceOwner
	// fixed is why policies cannot apply to it; empty if they can.
	fixed string
}

// SelectsInterface reports whether a selector names an interface of a snapshot.
func (v View) SelectsInterface(snap *cloud.Snapshot, n *cloud.Interface) bool {
	p := port{Interface: n, network: snap.Network(n.NetworkID)}
	return slices.ContainsFunc(v.Selectors, func(s v1alpha1.CloudEntitySelector) bool { return p.how(&s) != notSelected })
}

// how is how much a selector means the interface.
func (n port) how(s *v1alpha1.CloudEntitySelector) specificity {
	best := notSelected
	for _, e := range s.Spec.InterfaceSelector {
		best = max(best, selectInterface(e, n.Interface, n.network))
	}
	return best
}

// SelectsInterfaces reports whether any selector asks for interfaces.
func (v View) SelectsInterfaces() bool {
	return slices.ContainsFunc(v.Selectors, func(s v1alpha1.CloudEntitySelector) bool { return len(s.Spec.InterfaceSelector) > 0 })
}

// addInterfaces adds the objects of the interfaces of a snapshot that selectors select. The VMs are
// added already.
func (d *Desired) addInterfaces(v View, snap *cloud.Snapshot) {
	if !v.SelectsInterfaces() {
		return
	}
	guarded := map[string]bool{}
	for _, ref := range d.VMRefs {
		if ref.Region == snap.Region {
			guarded[ref.VMID] = true
		}
	}
	services := map[string]*cloud.Service{}
	for i := range snap.Services {
		for _, id := range snap.Services[i].Interfaces {
			services[id] = &snap.Services[i]
		}
	}
	d.count(snap.Region, func(c *Counts) { c.Interfaces = int32(len(snap.Interfaces)) })
	for i := range snap.Interfaces {
		n := &snap.Interfaces[i]
		p := port{Interface: n, network: snap.Network(n.NetworkID), region: snap.Region,
			tags: withoutRecord(n.Tags), fixed: n.Unsettable(snap.OwnerID)}
		chosen := map[string]string{}
		for k := range v.Selectors {
			s := &v.Selectors[k]
			if p.how(s) == notSelected {
				continue
			}
			d.Selected[k].Interfaces++
			if _, known := chosen[s.Namespace]; !known {
				chosen[s.Namespace] = s.Name
			}
		}
		if len(chosen) == 0 {
			continue
		}
		switch {
		case services[n.ID] != nil:
			p.owner = &v1alpha1.NetworkInterfaceOwner{Kind: v1alpha1.InterfaceOfService, CloudId: services[n.ID].ID, CloudName: services[n.ID].Name}
		case n.Managed:
			p.owner = &v1alpha1.NetworkInterfaceOwner{Kind: v1alpha1.InterfaceOfService}
		case n.VMID != "":
			p.owner = &v1alpha1.NetworkInterfaceOwner{Kind: v1alpha1.InterfaceOfVirtualMachine, CloudId: n.VMID}
			if vm := snap.VM(n.VMID); vm != nil {
				p.owner.CloudName = vm.Name
			}
			if p.fixed == "" && guarded[n.VMID] {
				p.fixed = "it is of the virtual machine " + cloud.Words(n.VMID) + ", which is selected, and has what applies to that"
			}
		}
		d.addInterface(v, p, chosen)
	}
}

// addInterface adds the objects of an interface, one set per namespace that selects it.
func (d *Desired) addInterface(v View, n port, chosen map[string]string) {
	mode := v.mode(guarded{kind: kindInterface, name: cloud.ObjectName(n.ID), id: n.ID, namespaces: slices.Collect(maps.Keys(chosen)), how: n.how})
	for _, i := range mode.unheeded {
		d.Selected[i].Unheeded++
	}
	for namespace, selector := range chosen {
		key := types.NamespacedName{Namespace: namespace, Name: cloud.ObjectName(n.ID)}
		if d.Interfaces[key] != nil {
			continue // two with one name, of which the sum of the id is a part: the first one has it
		}
		labels, left := tagLabels(n.tags, nil, false)
		n.labels(labels, key)
		object := n.object(v, key, selector)
		selectable(object.Labels, labels)
		v.say(&object.Status.ImportedStatus, imported{kindInterface, namespace, key.Name}, mode)
		object.Status.UnimportedTags = left
		d.Interfaces[key] = object
		entity := types.NamespacedName{Namespace: namespace, Name: v1alpha1.InterfaceEntityNamePrefix + key.Name}
		e := &antreav1alpha2.ExternalEntity{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: entity.Name, Labels: labels, Annotations: mark(v.Account)},
			Spec:       antreav1alpha2.ExternalEntitySpec{ExternalNode: cloud.EnforcerKey(v.Account.Namespace, v.Account.Name)},
		}
		for _, a := range n.addresses() {
			e.Spec.Endpoints = append(e.Spec.Endpoints, antreav1alpha2.Endpoint{IP: a.String()})
		}
		d.Entities[entity], d.ServiceRefs[entity] = e, ServiceRef{n.ID, n.region, mode.mode, mode.by}
	}
}

// addresses are all of the interface, the private ones first.
func (n port) addresses() []netip.Addr { return slices.Concat(n.PrivateIPs, n.PublicIPs) }

// labels adds all labels of the entity but the labels of tags.
func (n port) labels(labels map[string]string, key types.NamespacedName) {
	labels[v1alpha1.LabelKind] = v1alpha1.LabelKindNetworkInterface
	labels[v1alpha1.LabelNamespace] = key.Namespace
	setIfLegal(labels, v1alpha1.LabelOwnerInterface, key.Name)
	setIfLegal(labels, v1alpha1.LabelCloudInterfaceUID, n.ID)
	setIfLegal(labels, v1alpha1.LabelCloudInterfaceName, strings.ToLower(n.Name()))
	setIfLegal(labels, v1alpha1.LabelVPCName, cloud.ObjectName(n.NetworkID))
	setIfLegal(labels, v1alpha1.LabelCloudRegion, n.region)
	if n.network == nil {
		setIfLegal(labels, v1alpha1.LabelCloudVPCUID, n.NetworkID)
		return
	}
	setIfLegal(labels, v1alpha1.LabelCloudVPCUID, cmp.Or(n.network.UID, n.network.ID))
	setIfLegal(labels, v1alpha1.LabelCloudVPCName, n.network.Name)
}

func (n port) object(v View, key types.NamespacedName, selector string) *v1alpha1.NetworkInterface {
	shown := shownInterface(n.Interface)
	out := &v1alpha1.NetworkInterface{
		ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name, Labels: accountLabels(v.Account), Annotations: mark(v.Account)},
		Status: v1alpha1.NetworkInterfaceStatus{
			ImportedStatus: v1alpha1.ImportedStatus{
				Provider: v.Provider, CloudId: n.ID, CloudName: n.Name(), Region: n.region, CloudVpcId: n.NetworkID,
				Tags: n.tags, DNSName: n.DNSName, Addresses: inShort(n.addresses()), SecurityGroupIds: shown.SecurityGroupIds,
				FormerSecurityGroupIds: shown.FormerSecurityGroupIds, Settable: n.fixed == "", NotSettable: n.fixed,
			},
			Type: n.Type, Description: n.Description, CloudSubnetId: n.SubnetID, MAC: n.MAC, IPs: shown.IPs, AttachedTo: n.owner,
		},
	}
	setIfLegal(out.Labels, v1alpha1.LabelCESName, selector)
	setIfLegal(out.Labels, v1alpha1.LabelCESNamespace, key.Namespace)
	if n.network != nil {
		out.Status.CloudVpcName = n.network.Name
	}
	return out
}

// checkInterfaces returns what is wrong with the entries for interfaces of a selector, in words; ""
// if nothing is.
func checkInterfaces(s *v1alpha1.CloudEntitySelector) string {
	for i, e := range s.Spec.InterfaceSelector {
		at := fmt.Sprintf("spec.interfaceSelector[%d]", i)
		if e.VpcMatch == nil && len(e.InterfaceMatch) == 0 && len(e.TagMatch) == 0 {
			return at + ": one of vpcMatch, interfaceMatch and tagMatch must be set"
		}
		if e.VpcMatch != nil && *e.VpcMatch == (v1alpha1.EntityMatch{}) {
			return at + ".vpcMatch: one of matchID and matchName must be set"
		}
		for j, m := range e.InterfaceMatch {
			if m == (v1alpha1.EntityMatch{}) {
				return fmt.Sprintf("%s.interfaceMatch[%d]: one of matchID and matchName must be set", at, j)
			}
		}
	}
	return ""
}
