package explain

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	cloudv1alpha1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/policy"
)

// end is one end of the flow that a user asks about: an entity with its addresses, an address
// alone, or a Service.
type end struct {
	ref policy.EntityRef
	// at is what policies apply to there: the entity, or the Node in whose network it is.
	at        policy.EntityRef
	addresses []netip.Addr
	ports     []policy.NamedPort
	// enforcer is the key of who enforces policies there; empty if nobody does.
	enforcer string
	// byAddress tells that the user gave the address, and so the one that packets go to.
	byAddress bool
	service   *corev1.Service
	// agent is who enforces policies there, if an agent on the host does.
	agent Agent
}

// endOf is the end at an entity.
func (c *Computation) endOf(e policy.Entity) end {
	out := end{ref: e.EntityRef, at: e.EntityRef, addresses: e.Addresses, ports: e.Ports, enforcer: e.Host}
	switch {
	case e.Kind == policy.KindNode:
		out.enforcer = e.Name
	case e.Terminated: // no policy selects such Pods
		out.enforcer = ""
	case e.HostNetwork && e.Host != "": // nor these, but what applies to the Node holds for them
		out.at = policy.EntityRef{Kind: policy.KindNode, Name: e.Host}
	}
	if out.ref.Kind == policy.KindExternalEntity && out.enforcer != "" && !out.isCloudVM() {
		out.agent = c.agents[out.enforcer]
		if out.agent == "" {
			out.agent = AgentUnknown
		}
	}
	return out
}

// semantics are those of who enforces policies there. Of an agent that has not said what it is they
// are Antrea's.
func (e end) semantics() policy.Semantics {
	if e.isCloudVM() || e.agent == AgentOurs {
		return policy.VMSemantics
	}
	return policy.PodSemantics
}

// isCloudVM reports whether a cloud enforces policies there, and not an agent, whose key is that of
// its ExternalNode.
func (e end) isCloudVM() bool {
	node, ofNamespace := strings.CutPrefix(e.enforcer, e.ref.Namespace+"/")
	isAgent := ofNamespace && !strings.Contains(node, "/")
	return e.ref.Kind == policy.KindExternalEntity && e.enforcer != "" && !isAgent
}

// String names the end for people.
func (e end) String() string {
	switch {
	case e.ref.Kind == 0:
		return e.addresses[0].String()
	case e.at != e.ref:
		return fmt.Sprintf("%s in the network of %s", refText(e.ref), refText(e.at))
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
	return policy.Endpoint{EntityRef: e.at, Addr: a, Semantics: e.semantics()}
}

// kindWords are the words with which a user may say which kind is meant.
func kindWords() map[string]policy.EntityKind {
	return map[string]policy.EntityKind{
		"pod": policy.KindPod, "po": policy.KindPod,
		"externalentity": policy.KindExternalEntity, "ee": policy.KindExternalEntity,
		"virtualmachine": policy.KindExternalEntity, "vm": policy.KindExternalEntity,
		"node": policy.KindNode, "no": policy.KindNode,
		"service": policy.KindService, "svc": policy.KindService,
	}
}

// findEnd finds what a user calls NS/NAME, KIND/NS/NAME, svc/NS/NAME, node/NAME, or an address. A
// virtual machine is found by the name of its entity, of its VirtualMachine object, and by its id
// and name in the cloud. An address that exactly one entity has is that entity.
func (c *Computation) findEnd(flag, text string) (end, error) {
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
	case len(words) == 3 && known && kind == policy.KindService:
		return c.findService(flag, text, words[1], words[2])
	case len(words) == 3 && known && kind != policy.KindNode:
		found = c.named(kind, words[1], words[2])
	default:
		return end{}, wrong(flag, " %q: want NAMESPACE/NAME (of a Pod, ExternalEntity or VM), the same after pod/, ee/, vm/ or svc/, node/NAME, or an IP address", text)
	}
	switch len(found) {
	case 0:
		return end{}, wrong(flag, " %q: there is no Pod, ExternalEntity, VirtualMachine or Node of this name", text)
	case 1:
		return c.endOf(c.Ends[found[0]]), nil
	}
	return end{}, wrong(flag, " %[1]q: could be %[2]s; say pod/%[1]s or ee/NAMESPACE/NAME", text, refTexts(found))
}

func refTexts(refs []policy.EntityRef) string {
	texts := make([]string, len(refs))
	for i, r := range refs {
		texts[i] = refText(r)
	}
	slices.Sort(texts)
	return strings.Join(texts, " or ")
}

// findAddress finds who has an address. That of a Pod in the network of its Node is the Node's.
func (c *Computation) findAddress(flag string, a netip.Addr) (end, error) {
	var owners []policy.EntityRef
	for _, e := range c.Ends {
		if e.Terminated || !slices.Contains(e.Addresses, a) {
			continue
		}
		if at := c.endOf(e).at; !slices.Contains(owners, at) {
			owners = append(owners, at)
		}
	}
	switch len(owners) {
	case 0:
		return end{addresses: []netip.Addr{a}, byAddress: true}, nil
	case 1:
		e, known := c.Ends[owners[0]]
		if !known { // a Node that nothing is known of but a Pod in its network
			e.EntityRef = owners[0]
		}
		out := c.endOf(e)
		out.addresses, out.byAddress = []netip.Addr{a}, true
		return out, nil
	}
	if slices.ContainsFunc(owners, func(r policy.EntityRef) bool { return !c.sees(r) }) {
		return end{}, wrong(flag, " %s: several have this address, and not all of them are for you to see; name the one you mean", a)
	}
	return end{}, wrong(flag, " %s: this is the address of %s; name the one you mean", a, refTexts(owners))
}

// named finds entities by their names, of which those of virtual machines have several.
func (c *Computation) named(kind policy.EntityKind, namespace, name string) []policy.EntityRef {
	exact := policy.EntityRef{Kind: kind, Namespace: namespace, Name: name}
	if !c.sees(exact) {
		return nil
	}
	if _, ok := c.Ends[exact]; ok || kind != policy.KindExternalEntity {
		if ok {
			return []policy.EntityRef{exact}
		}
		return nil
	}
	objects := map[string]bool{strings.ToLower(name): true}
	for _, vm := range c.VMs {
		if vm.Namespace == namespace && (vm.Status.CloudName == name || vm.Status.CloudId == name) {
			objects[strings.ToLower(vm.Name)] = true
		}
	}
	var out []policy.EntityRef
	for ref, e := range c.Ends {
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
