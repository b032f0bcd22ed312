package explain

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	cloudv1alpha1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/explain/imported"
	"github.com/nephele-io/nephele/internal/policy"
	"github.com/nephele-io/nephele/internal/policy/admission"
	"github.com/nephele-io/nephele/internal/policy/evaluate"
)

// end is one end of the flow that a user asks about: an entity with its addresses, an address
// alone, or a Service.
type end struct {
	ref policy.EntityRef
	// at is what policies apply to there: the entity, or the Node in whose network it is.
	at        policy.EntityRef
	addresses []netip.Addr
	ports     []policy.NamedPort
	// enforcer is the key of the enforcer there; empty if there is none.
	enforcer string
	// byAddress tells that the user gave the address, and so the one that packets go to.
	byAddress bool
	service   *corev1.Service
	// agent is the kind of agent that enforces policies there, if one does.
	agent string
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

// semantics returns the semantics of the enforcer there. For an agent of an unknown kind they are
// Antrea's.
func (e end) semantics() evaluate.Semantics {
	if e.isCloudVM() || e.agent == AgentOurs {
		return evaluate.VMSemantics
	}
	return evaluate.PodSemantics
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
func (e end) endpoint(a netip.Addr) evaluate.Endpoint {
	return evaluate.Endpoint{EntityRef: e.at, Addr: a, Semantics: e.semantics()}
}

// meantKind is the kind that a user's word means, and of ExternalEntities what they represent: all
// of them if that is empty.
type meantKind struct {
	policy.EntityKind
	of imported.Kind
}

// means reports whether an entity is of the kind, but for Pods and Nodes.
func (k meantKind) means(ref policy.EntityRef) bool {
	return k.of == "" || k.of == imported.Host || k.of == imported.KindOf(ref)
}

// kindWords are the words with which a user may say which kind is meant.
func kindWords() map[string]meantKind {
	pod, node, service := meantKind{EntityKind: policy.KindPod}, meantKind{EntityKind: policy.KindNode}, meantKind{EntityKind: policy.KindService}
	external := func(of imported.Kind) meantKind { return meantKind{policy.KindExternalEntity, of} }
	return map[string]meantKind{
		"pod": pod, "po": pod, "node": node, "no": node, "service": service, "svc": service,
		"externalentity": external(""), "ee": external(""),
		"virtualmachine": external(imported.VM), "vm": external(imported.VM),
		"cloudnativeservice": external(imported.Service), "cns": external(imported.Service),
		"networkinterface": external(imported.Interface), "nic": external(imported.Interface),
		"externalnode": external(imported.Host), "en": external(imported.Host), "host": external(imported.Host),
	}
}

// finder finds the object that a text names.
type finder struct{ c *Computation }

func (c *Computation) finder() finder { return finder{c} }

// findEnd finds what a user calls NS/NAME, KIND/NS/NAME, svc/NS/NAME, node/NAME, or an address. A
// virtual machine is found by the name of its entity, of its VirtualMachine object, and by its id
// and name in the cloud; a native service and a network interface are found in the same way, and a
// host with an agent by that of its ExternalNode. An address that exactly one entity has is that
// entity.
func (who finder) findEnd(flag, text string) (end, error) {
	if a, err := netip.ParseAddr(text); err == nil {
		return who.findAddress(flag, a.Unmap())
	}
	words := strings.Split(text, "/")
	kind, known := kindWords()[strings.ToLower(words[0])]
	var found []policy.EntityRef
	switch {
	case len(words) == 2 && known && kind.EntityKind == policy.KindNode:
		found = who.named(kind, "", words[1])
	case len(words) == 2:
		found = who.anybodyNamed(words[0], words[1])
	case len(words) == 3 && known && kind.EntityKind == policy.KindService:
		return who.findService(flag, text, words[1], words[2])
	case len(words) == 3 && known && kind.EntityKind != policy.KindNode:
		found = who.named(kind, words[1], words[2])
	default:
		return end{}, wrong(flag, " %q: want NAMESPACE/NAME (of a Pod, VM, host, ExternalEntity, native service or interface), "+
			"the same after pod/, vm/, host/, ee/, cns/, nic/ or svc/, node/NAME, or an IP address", text)
	}
	switch len(found) {
	case 0:
		return end{}, who.nobody(flag, text)
	case 1:
		return who.c.endOf(who.c.Ends[found[0]]), nil
	}
	return end{}, wrong(flag, " %[1]q: could be %[2]s; say pod/%[1]s or ee/NAMESPACE/NAME", text, refTexts(found))
}

// nobody is the error for a name that matches nothing, with similar names that the caller may see.
func (who finder) nobody(part, text string) error {
	words := strings.Split(text, "/")
	namespace, name := "", words[len(words)-1]
	if len(words) > 1 {
		namespace = words[len(words)-2]
	}
	if kind, known := kindWords()[strings.ToLower(namespace)]; known && len(words) == 2 && kind.EntityKind == policy.KindNode {
		namespace = ""
	}
	here, elsewhere, namespaces := []string(nil), []string(nil), map[string]bool{}
	for ref, e := range who.c.Ends {
		if !who.c.view.Entity(ref) {
			continue
		}
		called := who.callName(e)
		namespaces[ref.Namespace] = true
		if ref.Namespace == namespace {
			here = append(here, called)
		} else if strings.EqualFold(called, name) {
			elsewhere = append(elsewhere, strings.TrimPrefix(ref.Namespace+"/"+called, "/"))
		}
	}
	slices.Sort(elsewhere)
	hint := admission.Meant(name, slices.Compact(here))
	switch {
	case len(elsewhere) > 0:
		hint = "; did you mean " + elsewhere[0] + "?"
	case len(here) == 0 && namespace != "":
		delete(namespaces, "")
		hint = "; there is nobody in namespace " + namespace + admission.Meant(namespace, slices.Collect(maps.Keys(namespaces)))
	}
	return wrong(part, " %q: there is no Pod, VM, host, native service, interface or Node of this name%s", text, hint)
}

// callName is what people call an entity, without its namespace.
func (who finder) callName(e policy.Entity) string {
	if e.Kind == policy.KindExternalEntity && !who.c.endOf(e).isCloudVM() {
		if _, host, is := strings.Cut(e.Host, "/"); is {
			return host
		}
	}
	_, name, _ := strings.Cut(nameOfEntity(e), "/")
	if at := strings.LastIndex(name, "/"); at >= 0 {
		name = name[at+1:]
	}
	return name
}

func refTexts(refs []policy.EntityRef) string {
	texts := make([]string, len(refs))
	for i, r := range refs {
		texts[i] = refText(r)
	}
	slices.Sort(texts)
	return strings.Join(texts, " or ")
}

// findAddress finds the holder of an address. The address of a Pod in its Node's network belongs to
// the Node, and the address of a Pod at an interface of a machine to the Pod.
func (who finder) findAddress(flag string, a netip.Addr) (end, error) {
	var owners []policy.EntityRef
	for _, e := range who.c.Ends {
		if e.Terminated || !slices.Contains(e.Addresses, a) {
			continue
		}
		if at := who.c.endOf(e).at; !slices.Contains(owners, at) {
			owners = append(owners, at)
		}
	}
	if who.c.clouds != nil && len(owners) > 1 {
		owners = who.c.clouds.PodAmong(owners, a)
	}
	if len(owners) == 0 {
		owners = who.c.clouds.DelegatedTo(policy.EntityRef{}, a)
	}
	switch len(owners) {
	case 0:
		return end{addresses: []netip.Addr{a}, byAddress: true}, nil
	case 1:
		e, known := who.c.Ends[owners[0]]
		if !known { // a Node that nothing is known of but a Pod in its network
			e.EntityRef = owners[0]
		}
		out := who.c.endOf(e)
		out.addresses, out.byAddress = []netip.Addr{a}, true
		return out, nil
	}
	if slices.ContainsFunc(owners, func(r policy.EntityRef) bool { return !who.c.view.Entity(r) }) {
		return end{}, wrong(flag, " %s: several have this address, and not all of them are for you to see; name the one you mean", a)
	}
	return end{}, wrong(flag, " %s: this is the address of %s; name the one you mean", a, refTexts(owners))
}

// anybodyNamed finds Pods and ExternalEntities by their names.
func (who finder) anybodyNamed(namespace, name string) []policy.EntityRef {
	pods := who.named(meantKind{EntityKind: policy.KindPod}, namespace, name)
	return append(pods, who.named(meantKind{EntityKind: policy.KindExternalEntity}, namespace, name)...)
}

// named finds entities by their names, of which objects in a cloud have several.
func (who finder) named(kind meantKind, namespace, name string) []policy.EntityRef {
	exact := policy.EntityRef{Kind: kind.EntityKind, Namespace: namespace, Name: name}
	if !who.c.view.Entity(exact) {
		return nil
	}
	if kind.of == imported.Host {
		return who.hostNamed(namespace, name)
	}
	if _, ok := who.c.Ends[exact]; ok || kind.EntityKind != policy.KindExternalEntity {
		if ok && kind.means(exact) {
			return []policy.EntityRef{exact}
		}
		return nil
	}
	if hosts := who.hostNamed(namespace, name); len(hosts) > 0 && kind.of == "" {
		return hosts
	}
	objects := map[string]bool{strings.ToLower(name): true}
	for _, vm := range who.c.Objects.VMs {
		if vm.Namespace == namespace && (vm.Status.CloudName == name || vm.Status.CloudId == name) {
			objects[strings.ToLower(vm.Name)] = true
		}
	}
	var out []policy.EntityRef
	for ref, e := range who.c.Ends {
		if ref.Kind != kind.EntityKind || ref.Namespace != namespace || !kind.means(ref) {
			continue
		}
		of := imported.KindOf(ref)
		owner := e.Labels[cloudv1alpha1.LabelOwnerVM]
		if objects[of.ObjectName(ref)] || owner != "" && objects[owner] || of.IsCalled(e.Labels, name) {
			out = append(out, ref)
		}
	}
	return out
}

// hostNamed finds the entities of a host with an agent by the name of its ExternalNode, by which
// its agent enforces.
func (who finder) hostNamed(namespace, name string) []policy.EntityRef {
	var out []policy.EntityRef
	for ref, e := range who.c.Ends {
		if ref.Kind == policy.KindExternalEntity && ref.Namespace == namespace && e.Host == namespace+"/"+name && !who.c.endOf(e).isCloudVM() {
			out = append(out, ref)
		}
	}
	return out
}
