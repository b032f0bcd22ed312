package selection

import (
	"fmt"
	"net/netip"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	antreav1beta1 "github.com/nephele-io/nephele/api/antrea/v1beta1"
	"github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud"
)

// This file imports service tags: lists of addresses that the cloud keeps under a name. A tag that
// a selector names becomes a CloudNativeService, and a Group of the same name with the blocks.
// Policies of the namespace name the Group as a peer. There is no ExternalEntity, which would have
// to name each address.

// maxBlocks is how many blocks a Group may have by its definition.
const maxBlocks = 10_000

const fixedTag = "a service tag is a list of addresses, which has no security group"

// tagID is the id of a service tag of a subscription, which Azure itself does not give it.
func tagID(owner, name string) string {
	return "/subscriptions/" + owner + "/providers/microsoft.network/servicetags/" + name
}

// addTags adds the objects of the service tags that selectors name. All regions tell the same, so
// that the first one that tells any counts. Where none does, and one says that it cannot read them,
// they are as they were.
func (d *Desired) addTags(v View) {
	for _, snap := range v.Snapshots {
		if snap.ServiceTags == nil {
			continue
		}
		for _, name := range tagNames(snap.ServiceTags) {
			d.addTag(v, snap.Region, cloud.Service{ID: tagID(snap.OwnerID, name), Kind: cloud.ServiceTag, Name: name, Fixed: fixedTag}, snap.ServiceTags[name])
		}
		return
	}
	if slices.ContainsFunc(v.Snapshots, func(s *cloud.Snapshot) bool { return faulty(s, cloud.ServiceTag) }) {
		for _, t := range v.keptTags() {
			d.addTag(v, t.region, *t.Service, t.blocks)
		}
	}
}

func tagNames(tags map[string][]netip.Prefix) []string {
	out := make([]string, 0, len(tags))
	for name := range tags {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

// addTag adds the objects of a service tag, one set per namespace that selects it.
func (d *Desired) addTag(v View, region string, s cloud.Service, blocks []netip.Prefix) {
	n := native{Service: &s, region: region, blocks: blocks}
	for namespace, selector := range chooseService(v.Selectors, &s, nil, func(i int) { d.Selected[i].Services++ }) {
		key := types.NamespacedName{Namespace: namespace, Name: n.objectName()}
		if d.Services[key] != nil {
			continue
		}
		object := n.object(v, key, selector)
		d.Services[key] = object
		labels := map[string]string{}
		n.labels(labels, key)
		selectable(object.Labels, labels)
		if len(blocks) == 0 || len(blocks) > maxBlocks {
			continue
		}
		g := &antreav1beta1.Group{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: key.Name, Labels: labels, Annotations: mark(v.Account)}}
		for _, b := range blocks {
			object.Status.Cidrs = append(object.Status.Cidrs, b.String())
			g.Spec.IPBlocks = append(g.Spec.IPBlocks, antreav1beta1.IPBlock{CIDR: b.String()})
		}
		object.Status.Group, object.Status.Addresses = g.Name, blocksInShort(blocks)
		d.Groups[key] = g
	}
}

// blocksInShort is for people.
func blocksInShort(blocks []netip.Prefix) string {
	if len(blocks) == 1 {
		return blocks[0].String()
	}
	return fmt.Sprintf("%s and %d more blocks", blocks[0], len(blocks)-1)
}

// tagAddressed is the condition Addressed of a service tag.
func (n native) tagAddressed() metav1.Condition {
	c := metav1.Condition{Type: v1alpha1.ConditionAddressed, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonOK, Message: "policies name the Group " + n.objectName()}
	switch {
	case len(n.blocks) == 0:
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, v1alpha1.ReasonNoAddress, "there is no Group: the service tag has no address"
	case len(n.blocks) > maxBlocks:
		c.Status, c.Reason = metav1.ConditionFalse, v1alpha1.ReasonTooLarge
		c.Message = fmt.Sprintf("there is no Group: the service tag has %d blocks, and a Group holds %d; name the tag of a region", len(n.blocks), maxBlocks)
	}
	return c
}

// keptTags are the service tags as their objects have them, each once.
func (v View) keptTags() []native {
	var out []native
	seen := map[string]bool{}
	for _, key := range SortedKeys(v.Services) {
		st := &v.Services[key].Status
		if cloud.ServiceKind(st.Kind) != cloud.ServiceTag || seen[st.CloudId] || len(st.Cidrs) == 0 {
			continue
		}
		n := native{region: st.Region, Service: &cloud.Service{ID: st.CloudId, Kind: cloud.ServiceTag, Name: st.CloudName, Fixed: fixedTag}}
		for _, text := range st.Cidrs {
			p, err := netip.ParsePrefix(text)
			if err != nil { // somebody has written it; it is reported anew with the next reading
				continue
			}
			n.blocks = append(n.blocks, p)
		}
		seen[st.CloudId] = true
		out = append(out, n)
	}
	return out
}
