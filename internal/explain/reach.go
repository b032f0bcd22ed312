package explain

import (
	"net/netip"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	cloudv1alpha1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan"
	"github.com/nephele-io/nephele/internal/cloud/plan/addrset"
	"github.com/nephele-io/nephele/internal/policy"
	"github.com/nephele-io/nephele/internal/reach"
)

// RuleOf is a rule as answers show it.
func RuleOf(r policy.RuleRef) Rule { return explainRule(r) }

// Clouds is what was read of clouds.
type Clouds struct {
	Snapshots []*cloud.Snapshot
	// VMs are those that entities stand for.
	VMs map[types.NamespacedName]CloudVM
}

// CloudVM is a VM in a snapshot.
type CloudVM struct {
	ID string
	// Suspended says in which mode policies are not enforced on it, and who says so; empty if they
	// are.
	Suspended string
}

// World is who reaches whom according to a Computation.
type World struct {
	*reach.World
	Endpoints   []reach.Endpoint
	computation *Computation
	clouds      Clouds
}

// World makes the computation ready for questions about everybody. With asEnforced, modes and
// break-glass do not count.
func (c *Computation) World(clouds Clouds, asEnforced bool) *World {
	b := worldBuilder{Computation: c, clouds: clouds, asEnforced: asEnforced, openings: map[string]*reach.Openings{}, vms: map[string][]*cloud.Interface{}}
	for _, s := range clouds.Snapshots {
		for i := range s.Interfaces {
			if n := &s.Interfaces[i]; n.VMID != "" {
				b.vms[n.VMID] = append(b.vms[n.VMID], n)
			}
		}
	}
	refs := make([]policy.EntityRef, 0, len(c.Ends))
	for ref := range c.Ends {
		refs = append(refs, ref)
	}
	slices.SortFunc(refs, compareRefs)
	taken := map[string]bool{}
	for _, ref := range refs {
		b.entity(c.Ends[ref], taken)
	}
	b.strangers(taken)
	b.tellApart()
	w := &World{Endpoints: b.endpoints, computation: c, clouds: clouds}
	w.World = reach.New(reach.Input{Listing: c.Listing, Endpoints: w.Endpoints, Snapshots: clouds.Snapshots})
	return w
}

func compareRefs(a, b policy.EntityRef) int {
	if a.Kind != b.Kind {
		return int(a.Kind) - int(b.Kind)
	}
	if d := strings.Compare(a.Namespace, b.Namespace); d != 0 {
		return d
	}
	return strings.Compare(a.Name, b.Name)
}

// worldBuilder makes the endpoints.
type worldBuilder struct {
	*Computation
	clouds     Clouds
	asEnforced bool
	openings   map[string]*reach.Openings
	// vms are the interfaces of VMs in the snapshots.
	vms       map[string][]*cloud.Interface
	endpoints []reach.Endpoint
}

// entity adds the endpoints of an entity. A Pod in the network of its Node has none of its own: it
// is that Node.
func (b *worldBuilder) entity(e policy.Entity, taken map[string]bool) {
	if e.Terminated || e.HostNetwork {
		return
	}
	if !b.sees(e.EntityRef) {
		for _, n := range b.vms[b.clouds.VMs[types.NamespacedName{Namespace: e.Namespace, Name: e.Name}].ID] {
			taken[n.ID] = true
		}
		b.split(reach.Endpoint{Addresses: e.Addresses, Semantics: policy.PodSemantics})
		return
	}
	at := b.endOf(e)
	p := reach.Endpoint{EntityRef: e.EntityRef, Name: nameOfEntity(e), Addresses: e.Addresses, Ports: withProtocol(e.Ports), Host: e.Host}
	p.Semantics = at.semantics()
	if at.agent == AgentOurs {
		p.Openings = b.openingsOfHost(at.enforcer)
	}
	if !at.isCloudVM() {
		b.endpoints = append(b.endpoints, p)
		return
	}
	if name, plain := strings.CutPrefix(p.Name, "ee/"); plain {
		p.Name = "vm/" + name
	}
	account, _ := strings.CutPrefix(e.Host, cloud.EnforcerPrefix)
	p.Openings = b.openingsOf(account)
	vm, seen := b.clouds.VMs[types.NamespacedName{Namespace: e.Namespace, Name: e.Name}]
	if !b.asEnforced {
		if p.Suspended = vm.Suspended; p.Suspended == "" {
			p.Suspended = b.suspended(e.EntityRef, account)
		}
	}
	if nics := b.vms[vm.ID]; seen && len(nics) > 0 {
		for _, n := range nics {
			taken[n.ID] = true
			b.nic(p, n)
		}
		return
	}
	b.split(p)
}

// nic adds the endpoints of an interface of a machine.
func (b *worldBuilder) nic(p reach.Endpoint, n *cloud.Interface) {
	p.Interface = n.ID
	p.Addresses = n.PrivateIPs
	b.endpoints = append(b.endpoints, p)
	if len(n.PublicIPs) > 0 {
		p.Addresses, p.Public = n.PublicIPs, true
		b.endpoints = append(b.endpoints, p)
	}
}

// split tells the public IPv4 addresses of a machine from its private ones, where only the entity
// is known.
func (b *worldBuilder) split(p reach.Endpoint) {
	var private, public []netip.Addr
	for _, a := range p.Addresses {
		if a.Is4() && !a.IsPrivate() && !sharedSpace().Contains(a) {
			public = append(public, a)
		} else {
			private = append(private, a)
		}
	}
	if len(private) > 0 && len(public) > 0 {
		p.Addresses = private
		b.endpoints = append(b.endpoints, p)
		p.Addresses, p.Public = public, true
	}
	b.endpoints = append(b.endpoints, p)
}

// sharedSpace are addresses that are not private, but not reachable from everywhere either (RFC
// 6598).
func sharedSpace() netip.Prefix { return netip.PrefixFrom(netip.AddrFrom4([4]byte{100, 64}), 10) }

// strangers adds the interfaces of the snapshots that no entity has: no policy applies to them.
func (b *worldBuilder) strangers(taken map[string]bool) {
	for _, s := range b.clouds.Snapshots {
		names := map[string]string{}
		for i := range s.VMs {
			names[s.VMs[i].ID] = s.VMs[i].Name
		}
		for i := range s.Interfaces {
			n := &s.Interfaces[i]
			if taken[n.ID] {
				continue
			}
			taken[n.ID] = true
			if b.view != nil && !b.view.Cluster {
				b.split(reach.Endpoint{Addresses: slices.Concat(n.PrivateIPs, n.PublicIPs), Semantics: policy.PodSemantics})
				continue
			}
			name := n.ID
			switch vm := names[n.VMID]; {
			case vm != "":
				name = "cloud/" + vm
			case n.VMID != "":
				name = "cloud/" + n.VMID
			case n.Description != "":
				name = "cloud/" + n.ID + " (" + n.Description + ")"
			}
			b.nic(reach.Endpoint{Name: name, Semantics: policy.VMSemantics}, n)
		}
	}
}

// tellApart adds what is unique to names that several have: whoever may name a machine in the cloud
// could take that of another.
func (b *worldBuilder) tellApart() {
	type owner struct {
		policy.EntityRef
		networkInterface string
	}
	owners := map[string]map[owner]bool{}
	of := func(e *reach.Endpoint) owner {
		if e.Kind != 0 {
			return owner{EntityRef: e.EntityRef}
		}
		return owner{networkInterface: e.Interface}
	}
	for i := range b.endpoints {
		e := &b.endpoints[i]
		if Hidden(e) {
			continue
		}
		if owners[e.Name] == nil {
			owners[e.Name] = map[owner]bool{}
		}
		owners[e.Name][of(e)] = true
	}
	for i := range b.endpoints {
		e := &b.endpoints[i]
		if len(owners[e.Name]) < 2 {
			continue
		}
		if e.Kind != 0 {
			e.Name += " (" + e.EntityRef.Name + ")"
		} else {
			e.Name += " (" + e.Interface + ")"
		}
	}
}

// openingsOf are the failsafe flows of an account, "namespace/name".
func (b *worldBuilder) openingsOf(account string) *reach.Openings {
	if o, known := b.openings[account]; known {
		return o
	}
	var out *reach.Openings
	for _, a := range b.Accounts {
		if cloud.AccountKey(a.Namespace, a.Name) != account || len(a.Spec.Failsafe) == 0 {
			continue
		}
		out = &reach.Openings{Owner: reach.Owner{Account: account}, Flows: openings(plan.ParseFailsafe(a.Spec.Failsafe))}
	}
	b.openings[account] = out
	return out
}

// openingsOfHost are the failsafe flows that our agent on a host tells of; nil if it tells none.
func (b *worldBuilder) openingsOfHost(host string) *reach.Openings {
	told := b.hostInfos[host].failsafe
	if len(told) == 0 {
		return nil
	}
	return &reach.Openings{Owner: reach.Owner{Host: host}, Flows: openings(told)}
}

func openings(flows []plan.FailsafeFlow) []reach.Opening {
	out := make([]reach.Opening, 0, len(flows))
	for _, f := range flows {
		o := reach.Opening{Direction: policy.Ingress, Services: f.Services, Peers: addrset.OfPrefixes(f.Peers...)}
		if f.Direction == cloud.Egress {
			o.Direction = policy.Egress
		}
		out = append(out, o)
	}
	return out
}

// withProtocol completes named ports.
func withProtocol(ports []policy.NamedPort) []policy.NamedPort {
	ports = slices.Clone(ports)
	for i := range ports {
		if ports[i].Protocol == "" {
			ports[i].Protocol = policy.TCP
		}
	}
	return ports
}

// nameOfEntity is a name by which it can be asked about. What is in a cloud is called by its name
// there if it has one.
func nameOfEntity(e policy.Entity) string {
	switch e.Kind {
	case policy.KindNode:
		return "node/" + e.Name
	case policy.KindPod:
		return "pod/" + e.Namespace + "/" + e.Name
	}
	of := standsFor(e.EntityRef)
	name := of.cloudName(e.Labels)
	if name == "" && strings.HasPrefix(e.Name, of.prefix()) {
		name = of.objectName(e.EntityRef)
	}
	if name != "" {
		return string(of) + "/" + e.Namespace + "/" + name
	}
	return "ee/" + e.Namespace + "/" + e.Name
}

// Party finds who is meant by a text: "any"; NAMESPACE/NAME, also after a word for the kind, or
// node/NAME, as Question.From; NAMESPACE/* or */*, also after a kind; NAMESPACE/SELECTOR by labels
// of the entity, where SELECTOR has an operator (app=db); cloud/NAME or the id of a VM or interface
// in the snapshots; an address or range.
func (w *World) Party(part, text string) (reach.Party, error) {
	if text == "any" {
		return reach.Everybody(), nil
	}
	if a, err := netip.ParseAddr(text); err == nil {
		return w.addresses(addrset.Of(a)), nil
	}
	if p, err := netip.ParsePrefix(text); err == nil {
		return w.addresses(addrset.OfPrefixes(p)), nil
	}
	chosen, err := w.chosen(part, text)
	if err != nil {
		return reach.Party{}, err
	}
	for i := range w.Endpoints {
		if chosen(&w.Endpoints[i]) {
			return reach.Party{Chosen: chosen}, nil
		}
	}
	return reach.Party{}, wrong(part, " %q: nobody with an address is meant by this", text)
}

// addresses are a set of addresses, whoever has them.
func (w *World) addresses(set addrset.Set) reach.Party {
	return reach.Party{
		Chosen:    func(e *reach.Endpoint) bool { return slices.ContainsFunc(e.Addresses, set.Contains) },
		Addresses: set,
	}
}

func (w *World) chosen(part, text string) (func(*reach.Endpoint) bool, error) {
	words := strings.SplitN(text, "/", 3)
	kind, known := kindWords()[strings.ToLower(words[0])]
	if len(words) == 1 || words[0] == "cloud" {
		return func(e *reach.Endpoint) bool {
			return e.Name == text || e.Interface == text || e.Kind != 0 && w.computation.Ends[e.EntityRef].Labels[cloudv1alpha1.LabelCloudVMUID] == text
		}, nil
	}
	if known && kind.EntityKind == policy.KindService {
		return nil, wrong(part, " %q: ask explain about a Service; here its Pods are meant", text)
	}
	if known && len(words) == 2 && kind.EntityKind == policy.KindNode {
		words = []string{words[0], "", words[1]}
	}
	if !known || len(words) == 2 {
		words, kind = []string{"", words[0], strings.Join(words[1:], "/")}, meantKind{}
	}
	namespace, name := words[1], words[2]
	in := func(e *reach.Endpoint) bool {
		return e.Kind != 0 && (kind.EntityKind == 0 && e.Kind != policy.KindNode || e.Kind == kind.EntityKind) && kind.means(e.EntityRef) &&
			(namespace == "*" || e.Namespace == namespace)
	}
	switch {
	case name == "*":
		return in, nil
	case strings.ContainsAny(name, "=!, "):
		selector, err := labels.Parse(name)
		if err != nil {
			return nil, wrong(part, " %q: the part after the Namespace: want a label selector such as app=db,tier!=test: %v", text, err)
		}
		return func(e *reach.Endpoint) bool {
			return in(e) && selector.Matches(labels.Set(w.computation.Ends[e.EntityRef].Labels))
		}, nil
	}
	refs := w.computation.anybodyNamed(namespace, name)
	if known {
		refs = w.computation.named(kind, namespace, name)
	}
	if len(refs) == 0 {
		return nil, wrong(part, nobodyNamed, text)
	}
	var found []policy.EntityRef
	for _, ref := range refs {
		found = append(found, w.computation.endOf(w.computation.Ends[ref]).at)
	}
	return func(e *reach.Endpoint) bool { return slices.Contains(found, e.EntityRef) }, nil
}

// Rule and Policy return a rule and a policy as they may be seen, and Sees reports whether the
// policy of a rule may be. SeesAll reports whether everything may.
func (w *World) Rule(r Rule) Rule { return w.computation.Rule(r) }

// Policy is told at Rule.
func (w *World) Policy(p Policy) Policy { return w.computation.Policy(p) }

// Sees is told at Rule.
func (w *World) Sees(r policy.RuleRef) bool { return w.computation.Visible(r) }

// SeesAll is told at Rule.
func (w *World) SeesAll() bool { return w.computation.view == nil }

// PolicyOf is a policy as answers show it.
func PolicyOf(p policy.PolicyRef) Policy { return explainPolicy(p) }
