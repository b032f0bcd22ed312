package selection

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
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

// ServiceRef names a native service of an account, or an interface that is an entity of its own.
type ServiceRef struct {
	ID     string
	Region string
	// Mode is how policies are enforced on it, and ModeReason the object that sets it; both are
	// empty if they are simply enforced.
	Mode, ModeReason string
}

// native is a native service with what belongs to it.
type native struct {
	*cloud.Service
	network *cloud.Network
	nics    []*cloud.Interface
	region  string
	// former are the groups that it had of its own, if it remembers them.
	former []string
	// blocks are the addresses of a service tag.
	blocks []netip.Prefix
}

// how is how much a selector means the service.
func (n native) how(s *v1alpha1.CloudEntitySelector) specificity {
	best := notSelected
	for _, e := range s.Spec.NativeSelector {
		switch {
		case !selectService(e, n.Service, n.network):
		case len(e.ServiceMatch) > 0:
			best = max(best, byName)
		case e.VpcMatch != nil:
			best = max(best, byVPC)
		default:
			best = max(best, byTag)
		}
	}
	return best
}

// withoutRecord are the tags of a service but for those in which we remember what it had, which are
// neither its owner's nor labels.
func withoutRecord(tags map[string]string) map[string]string {
	ours := func(key, _ string) bool {
		return key == cloud.TagSignature || key == cloud.TagFormer || strings.HasPrefix(key, cloud.TagFormer+".")
	}
	for k := range tags {
		if ours(k, "") {
			out := maps.Clone(tags)
			maps.DeleteFunc(out, ours)
			return out
		}
	}
	return tags
}

// selectService reports whether an entry selects a native service. network is the service's; it may
// be nil if the snapshot does not show it.
func selectService(e v1alpha1.NativeServiceSelector, s *cloud.Service, network *cloud.Network) bool {
	if e.Kind == "" && (s.Kind == cloud.ServiceTag || e.VpcMatch == nil && len(e.ServiceMatch) == 0 && len(e.TagMatch) == 0) {
		return false
	}
	if e.Kind != "" && cloud.ServiceKind(e.Kind) != s.Kind {
		return false
	}
	if e.VpcMatch != nil {
		name := ""
		if network != nil {
			name = network.Name
		}
		if !matches(*e.VpcMatch, s.NetworkID, name) {
			return false
		}
	}
	if len(e.ServiceMatch) > 0 && !slices.ContainsFunc(e.ServiceMatch, func(m v1alpha1.EntityMatch) bool { return matches(m, s.ID, s.Name) }) {
		return false
	}
	return !slices.ContainsFunc(e.TagMatch, func(t v1alpha1.TagMatch) bool {
		value, ok := s.Tags[t.Key]
		return !ok || len(t.Values) > 0 && !slices.Contains(t.Values, value)
	})
}

// chooseService returns for each namespace with a selector that selects the service the name of the
// first such selector.
func chooseService(selectors []v1alpha1.CloudEntitySelector, s *cloud.Service, network *cloud.Network, count func(selector int)) map[string]string {
	chosen := map[string]string{}
	for i := range selectors {
		selects := func(e v1alpha1.NativeServiceSelector) bool { return selectService(e, s, network) }
		if !slices.ContainsFunc(selectors[i].Spec.NativeSelector, selects) {
			continue
		}
		count(i)
		if _, known := chosen[selectors[i].Namespace]; !known {
			chosen[selectors[i].Namespace] = selectors[i].Name
		}
	}
	return chosen
}

// KindsAsked are the kinds of services that selectors ask for, in the order of cloud.ServiceKinds,
// service tags last. These are asked for by their kind only.
func KindsAsked(selectors []v1alpha1.CloudEntitySelector) []cloud.ServiceKind {
	asked := map[cloud.ServiceKind]bool{}
	for i := range selectors {
		for _, e := range selectors[i].Spec.NativeSelector {
			asked[cloud.ServiceKind(e.Kind)] = true
		}
	}
	out := slices.DeleteFunc(cloud.ServiceKinds(), func(k cloud.ServiceKind) bool { return !asked[""] && !asked[k] })
	if asked[cloud.ServiceTag] {
		out = append(out, cloud.ServiceTag)
	}
	return out
}

// Showing returns a provider whose snapshots show the native services that selectors ask for, and
// those that hold something of ours; the provider itself if it cannot.
func Showing(provider cloud.Provider, selectors []v1alpha1.CloudEntitySelector) cloud.Provider {
	if shower, can := provider.(cloud.ServiceShower); can {
		return shower.Show(KindsAsked(selectors))
	}
	return provider
}

// checkNative returns what is wrong with the entries for native services of a selector, in words;
// "" if nothing is.
func checkNative(s *v1alpha1.CloudEntitySelector) string {
	for i, e := range s.Spec.NativeSelector {
		at := fmt.Sprintf("spec.nativeSelector[%d]", i)
		if e.Kind == "" && e.VpcMatch == nil && len(e.ServiceMatch) == 0 && len(e.TagMatch) == 0 {
			return at + ": one of kind, vpcMatch, serviceMatch and tagMatch must be set"
		}
		if e.VpcMatch != nil && *e.VpcMatch == (v1alpha1.EntityMatch{}) {
			return at + ".vpcMatch: one of matchID and matchName must be set"
		}
		if cloud.ServiceKind(e.Kind) == cloud.ServiceTag && (len(e.ServiceMatch) == 0 || e.VpcMatch != nil || len(e.TagMatch) > 0) {
			return at + ": want serviceMatch with the names of service tags, and neither vpcMatch nor tagMatch: a service tag is in no network, and Azure has thousands"
		}
		for j, m := range e.ServiceMatch {
			if m == (v1alpha1.EntityMatch{}) {
				return fmt.Sprintf("%s.serviceMatch[%d]: one of matchID and matchName must be set", at, j)
			}
		}
	}
	return ""
}

// addServices adds the objects of the native services of a snapshot, and of those that are kept.
func (d *Desired) addServices(v View, snap *cloud.Snapshot) {
	kept := map[string]bool{}
	for _, n := range v.keptServices(snap) {
		for _, id := range n.Interfaces {
			kept[id] = true
		}
		d.addService(v, n)
	}
	for i := range snap.Services {
		if s := &snap.Services[i]; !kept[s.ID] { // what is known by an interface only is known better
			d.addService(v, nativeOf(snap, *s))
		}
	}
}

// nativeOf is a service of a snapshot with what belongs to it.
func nativeOf(snap *cloud.Snapshot, s cloud.Service) native {
	former := cloud.FormerGroups(s.Tags)
	s.Tags = withoutRecord(s.Tags)
	n := native{Service: &s, former: former, network: snap.Network(s.NetworkID), region: snap.Region}
	for _, id := range s.Interfaces {
		if nic := snap.Interface(id); nic != nil {
			n.nics = append(n.nics, nic)
		}
	}
	return n
}

// addService adds the objects of a service, one set per namespace that selects it.
func (d *Desired) addService(v View, n native) {
	d.count(n.region, func(c *Counts) { c.Services++ })
	chosen := chooseService(v.Selectors, n.Service, n.network, func(i int) { d.Selected[i].Services++ })
	mode := v.mode(guarded{kind: kindService, name: n.objectName(), id: n.ID, namespaces: slices.Collect(maps.Keys(chosen)), how: n.how})
	for _, i := range mode.unheeded {
		d.Selected[i].Unheeded++
	}
	for namespace, selector := range chosen {
		key := types.NamespacedName{Namespace: namespace, Name: n.objectName()}
		if d.Services[key] != nil {
			continue // two with one name, of which the sum of the id is a part: the first one has it
		}
		labels, left := tagLabels(n.Tags, nil, false)
		n.labels(labels, key)
		object := n.object(v, key, selector)
		selectable(object.Labels, labels)
		v.say(&object.Status.ImportedStatus, imported{kindService, namespace, key.Name}, mode)
		object.Status.UnimportedTags = left
		d.Services[key] = object
		entity := types.NamespacedName{Namespace: namespace, Name: v1alpha1.ServiceEntityNamePrefix + key.Name}
		d.Entities[entity] = n.entity(metav1.ObjectMeta{
			Namespace: namespace, Name: entity.Name, Labels: labels, Annotations: mark(v.Account),
		}, cloud.EnforcerKey(v.Account.Namespace, v.Account.Name))
		d.ServiceRefs[entity] = ServiceRef{n.ID, n.region, mode.mode, mode.by}
	}
}

// The name of an object is made of the kind, the name and the sum of the id, of which these many
// characters are taken.
const (
	nameOfName = 63
	nameOfSum  = 10
)

// objectName is the name of the CloudNativeService object. Names of services are unique in a region
// and kind only, and ids are long; so it is for people, with a part of the sum of the id.
func (n native) objectName() string {
	sum := sha256.Sum256([]byte(n.ID))
	name := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '-' {
			return r
		}
		return '-'
	}, strings.ToLower(cmp.Or(n.Name, n.ID[strings.LastIndexAny(n.ID, ":/")+1:])))
	name = strings.Trim(name[:min(len(name), nameOfName)], "-")
	return strings.ToLower(string(n.Kind)) + "-" + strings.TrimPrefix(name+"-"+hex.EncodeToString(sum[:])[:nameOfSum], "-")
}

// labels adds all labels of the entity but the labels of tags.
func (n native) labels(labels map[string]string, key types.NamespacedName) {
	labels[v1alpha1.LabelKind] = v1alpha1.LabelKindNativeService
	labels[v1alpha1.LabelNamespace] = key.Namespace
	labels[v1alpha1.LabelCloudServiceKind] = string(n.Kind)
	setIfLegal(labels, v1alpha1.LabelOwnerService, key.Name)
	setIfLegal(labels, v1alpha1.LabelCloudServiceName, strings.ToLower(n.Name))
	setIfLegal(labels, v1alpha1.LabelVPCName, cloud.ObjectName(n.NetworkID))
	setIfLegal(labels, v1alpha1.LabelCloudRegion, n.region)
	if n.network == nil {
		setIfLegal(labels, v1alpha1.LabelCloudVPCUID, n.NetworkID)
		return
	}
	setIfLegal(labels, v1alpha1.LabelCloudVPCUID, cmp.Or(n.network.UID, n.network.ID))
	setIfLegal(labels, v1alpha1.LabelCloudVPCName, n.network.Name)
}

// addresses are all of the service, the private ones first.
func (n native) addresses() []netip.Addr { return slices.Concat(n.Private, n.Public) }

func (n native) object(v View, key types.NamespacedName, selector string) *v1alpha1.CloudNativeService {
	out := &v1alpha1.CloudNativeService{
		ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name, Labels: accountLabels(v.Account), Annotations: mark(v.Account)},
		Status: v1alpha1.CloudNativeServiceStatus{
			ImportedStatus: v1alpha1.ImportedStatus{
				Provider: v.Provider, CloudId: n.ID, CloudName: n.Name, Region: n.region, CloudVpcId: n.NetworkID,
				Tags: n.Tags, DNSName: n.DNSName, Addresses: inShort(n.addresses()), SecurityGroupIds: cloud.GroupObjects(n.GroupIDs),
				FormerSecurityGroupIds: n.former, Settable: n.Fixed == "", NotSettable: n.Fixed, Conditions: []metav1.Condition{n.addressed()},
			},
			Kind: v1alpha1.NativeServiceKind(n.Kind),
		},
	}
	setIfLegal(out.Labels, v1alpha1.LabelCESName, selector)
	setIfLegal(out.Labels, v1alpha1.LabelCESNamespace, key.Namespace)
	if n.network != nil {
		out.Status.CloudVpcName = n.network.Name
	}
	for _, nic := range n.nics {
		out.Status.NetworkInterfaces = append(out.Status.NetworkInterfaces, shownInterface(nic))
	}
	for _, p := range n.Ports {
		out.Status.Ports = append(out.Status.Ports, v1alpha1.NativeServicePort{Name: p.Name, Protocol: strings.ToUpper(cloud.ProtocolName(p.Protocol)), Port: int32(p.Port)})
	}
	return out
}

// addressed says whether the addresses of a service are known.
func (n native) addressed() metav1.Condition {
	c := metav1.Condition{Type: v1alpha1.ConditionAddressed, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonOK, Message: "its interfaces are known"}
	switch {
	case n.Ambiguous != "":
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, v1alpha1.ReasonAmbiguous, "no rule names it: "+n.Ambiguous
	case n.Kind == cloud.ServiceTag:
		c = n.tagAddressed()
	case len(n.Private)+len(n.Public) == 0:
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, v1alpha1.ReasonNoInterface, "no rule names it: no interface of it is shown"
	}
	return c
}

// entity has all addresses of the service, the private ones first, and its ports.
func (n native) entity(meta metav1.ObjectMeta, enforcer string) *antreav1alpha2.ExternalEntity {
	e := &antreav1alpha2.ExternalEntity{ObjectMeta: meta, Spec: antreav1alpha2.ExternalEntitySpec{ExternalNode: enforcer}}
	for _, a := range n.addresses() {
		e.Spec.Endpoints = append(e.Spec.Endpoints, antreav1alpha2.Endpoint{IP: a.String()})
	}
	for _, p := range n.Ports {
		protocol := antreav1alpha2.Protocol(strings.ToUpper(cloud.ProtocolName(p.Protocol)))
		e.Spec.Ports = append(e.Spec.Ports, antreav1alpha2.NamedPort{Name: p.Name, Protocol: protocol, Port: int32(p.Port)})
	}
	return e
}

// keptServices are services that are known from their objects only, because the API that has shown
// them cannot be read now, and was not read since the start. What they have of addresses is what
// their interfaces have, as far as these are there.
func (v View) keptServices(snap *cloud.Snapshot) (out []native) {
	if len(snap.ServiceFaults) == 0 {
		return nil
	}
	seen := map[string]bool{}
	for i := range snap.Services {
		seen[snap.Services[i].ID] = true
	}
	for _, key := range SortedKeys(v.Services) {
		have := &v.Services[key].Status
		kind := cloud.ServiceKind(have.Kind)
		if have.Region != snap.Region || seen[have.CloudId] || kind == cloud.ServiceTag || !faulty(snap, kind) {
			continue
		}
		seen[have.CloudId] = true
		if kept, there := keptService(have, snap); there {
			out = append(out, kept)
		}
	}
	return out
}

// faulty reports whether the services of a kind could not all be read.
func faulty(snap *cloud.Snapshot, kind cloud.ServiceKind) bool {
	return slices.ContainsFunc(snap.ServiceFaults, func(f cloud.ServiceFault) bool { return slices.Contains(f.Kinds, kind) })
}

// keptService is the service that a status is about; false if none of its interfaces is there any
// more, or if all that is known of it are these.
func keptService(st *v1alpha1.CloudNativeServiceStatus, snap *cloud.Snapshot) (native, bool) {
	out := native{region: snap.Region, network: snap.Network(st.CloudVpcId), Service: &cloud.Service{
		ID: st.CloudId, Kind: cloud.ServiceKind(st.Kind), Name: st.CloudName, NetworkID: st.CloudVpcId, Tags: st.Tags, DNSName: st.DNSName,
		GroupIDs: st.SecurityGroupIds, Fixed: st.NotSettable,
	}}
	for i := range st.NetworkInterfaces {
		shown := &st.NetworkInterfaces[i]
		nic := snap.Interface(shown.Name)
		switch {
		case out.Kind.Fronted():
			nic = frontOf(shown, st.CloudVpcId)
		case nic == nil || !nic.Managed || nic.NetworkID != st.CloudVpcId || nic.ID == st.CloudId:
			continue
		}
		out.nics, out.Interfaces = append(out.nics, nic), append(out.Interfaces, nic.ID)
		out.Private, out.Public = append(out.Private, nic.PrivateIPs...), append(out.Public, nic.PublicIPs...)
	}
	for _, p := range st.Ports {
		number := cloud.TCP
		if strings.EqualFold(p.Protocol, cloud.ProtocolName(cloud.UDP)) {
			number = cloud.UDP
		}
		out.Ports = append(out.Ports, cloud.ServicePort{Name: p.Name, Protocol: number, Port: uint16(p.Port)})
	}
	return out, len(out.Interfaces) > 0
}

// frontOf is the interface that represents the front ends of a load balancer, as a status has it.
func frontOf(shown *v1alpha1.AttachedInterface, network string) *cloud.Interface {
	out := &cloud.Interface{ID: shown.Name, NetworkID: network, Managed: true}
	for _, a := range shown.IPs {
		addr, err := netip.ParseAddr(a.Address)
		switch {
		case err != nil: // somebody has written it; it is told anew with the next reading
		case a.AddressType == v1alpha1.AddressTypeExternalIP:
			out.PublicIPs = append(out.PublicIPs, addr)
		default:
			out.PrivateIPs = append(out.PrivateIPs, addr)
		}
	}
	return out
}
