package cli

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	cloudv1alpha1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/policy"
)

// end is one end of the flow that a user asks about: an entity with its addresses, or an address alone.
type end struct {
	ref       policy.EntityRef
	addresses []netip.Addr
	ports     []policy.NamedPort
	// enforcer is the key of who enforces policies there; empty if nobody does.
	enforcer string
}

// endOf is the end at an entity.
func endOf(e policy.Entity) end {
	out := end{ref: e.EntityRef, addresses: e.Addresses, ports: e.Ports, enforcer: e.Host}
	switch {
	case e.Kind == policy.KindNode:
		out.enforcer = e.Name
	case e.HostNetwork || e.Terminated: // no policy selects such Pods
		out.enforcer = ""
	}
	return out
}

// isCloudVM reports whether a cloud enforces policies there, and not an agent, whose key is that of its ExternalNode.
func (e end) isCloudVM() bool {
	node, ofNamespace := strings.CutPrefix(e.enforcer, e.ref.Namespace+"/")
	isAgent := ofNamespace && !strings.Contains(node, "/")
	return e.ref.Kind == policy.KindExternalEntity && e.enforcer != "" && !isAgent
}

// String names the end for people.
func (e end) String() string {
	if e.ref.Kind == 0 {
		return e.addresses[0].String()
	}
	return refText(e.ref)
}

func refText(r policy.EntityRef) string {
	if r.Namespace == "" {
		return fmt.Sprintf("%s %s", r.Kind, r.Name)
	}
	return fmt.Sprintf("%s %s/%s", r.Kind, r.Namespace, r.Name)
}

// endpoint is the end as the evaluator wants it, with one of its addresses.
func (e end) endpoint(a netip.Addr) policy.Endpoint {
	p := policy.Endpoint{EntityRef: e.ref, Addr: a}
	if e.isCloudVM() {
		p.Semantics = policy.VMSemantics
	}
	return p
}

// kindWords are the words with which a user may say which kind is meant.
func kindWords() map[string]policy.EntityKind {
	return map[string]policy.EntityKind{
		"pod": policy.KindPod, "po": policy.KindPod,
		"externalentity": policy.KindExternalEntity, "ee": policy.KindExternalEntity,
		"virtualmachine": policy.KindExternalEntity, "vm": policy.KindExternalEntity,
		"node": policy.KindNode, "no": policy.KindNode,
	}
}

// findEnd finds what a user calls NS/NAME, KIND/NS/NAME, node/NAME, or an address. A virtual machine is found by the name
// of its entity, of its VirtualMachine object, and by its id and name in the cloud. An address that exactly one entity has
// is that entity.
func (c *computation) findEnd(flag, text string) (end, error) {
	if a, err := netip.ParseAddr(text); err == nil {
		return c.findAddress(flag, a.Unmap())
	}
	words := strings.Split(text, "/")
	kind, known := kindWords()[strings.ToLower(words[0])]
	var found []policy.EntityRef
	switch {
	case len(words) == 2 && known && kind == policy.KindNode:
		found = c.named(kind, "", words[1])
	case len(words) == 2:
		found = append(c.named(policy.KindPod, words[0], words[1]), c.named(policy.KindExternalEntity, words[0], words[1])...)
	case len(words) == 3 && known && kind != policy.KindNode:
		found = c.named(kind, words[1], words[2])
	default:
		return end{}, fmt.Errorf("--%s %q: want NAMESPACE/NAME (of a Pod, ExternalEntity or VM), the same after pod/, ee/ or vm/, node/NAME, or an IP address", flag, text)
	}
	switch len(found) {
	case 0:
		return end{}, fmt.Errorf("--%s %q: there is no Pod, ExternalEntity or VirtualMachine of this name", flag, text)
	case 1:
		return endOf(c.ends[found[0]]), nil
	}
	return end{}, fmt.Errorf("--%s %q: could be %s; say pod/%[2]s or ee/NAMESPACE/NAME", flag, text, refTexts(found))
}

func refTexts(refs []policy.EntityRef) string {
	texts := make([]string, len(refs))
	for i, r := range refs {
		texts[i] = refText(r)
	}
	slices.Sort(texts)
	return strings.Join(texts, " or ")
}

func (c *computation) findAddress(flag string, a netip.Addr) (end, error) {
	var owners []policy.EntityRef
	for ref, e := range c.ends {
		// A Pod in the network of its Node has the Node's address, which says nothing about the Pod.
		if ref.Kind != policy.KindNode && !e.HostNetwork && !e.Terminated && slices.Contains(e.Addresses, a) {
			owners = append(owners, ref)
		}
	}
	switch len(owners) {
	case 0:
		return end{addresses: []netip.Addr{a}}, nil
	case 1:
		e := endOf(c.ends[owners[0]])
		e.addresses = []netip.Addr{a}
		return e, nil
	}
	return end{}, fmt.Errorf("--%s %s: this is the address of %s; name the one you mean", flag, a, refTexts(owners))
}

// named finds entities by their names, of which those of virtual machines have several.
func (c *computation) named(kind policy.EntityKind, namespace, name string) []policy.EntityRef {
	exact := policy.EntityRef{Kind: kind, Namespace: namespace, Name: name}
	if _, ok := c.ends[exact]; ok || kind != policy.KindExternalEntity {
		if ok {
			return []policy.EntityRef{exact}
		}
		return nil
	}
	objects := map[string]bool{strings.ToLower(name): true}
	for _, vm := range c.vms {
		if vm.Namespace == namespace && (vm.Status.CloudName == name || vm.Status.CloudId == name) {
			objects[strings.ToLower(vm.Name)] = true
		}
	}
	var out []policy.EntityRef
	for ref, e := range c.ends {
		if ref.Kind != kind || ref.Namespace != namespace {
			continue
		}
		l := e.Labels
		owner := l[cloudv1alpha1.LabelOwnerVM]
		if objects[strings.TrimPrefix(ref.Name, cloudv1alpha1.EntityNamePrefix)] || (owner != "" && objects[owner]) ||
			l[cloudv1alpha1.LabelCloudVMUID] == name || strings.EqualFold(l[cloudv1alpha1.LabelCloudVMName], name) {
			out = append(out, ref)
		}
	}
	return out
}
