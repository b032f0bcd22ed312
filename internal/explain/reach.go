package explain

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/labels"

	analysis "github.com/nephele-io/nephele/api/analysis/v1alpha1"
	cloudv1alpha1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan"
	"github.com/nephele-io/nephele/internal/cloud/plan/addrset"
	"github.com/nephele-io/nephele/internal/cloud/trace"
	"github.com/nephele-io/nephele/internal/explain/imported"
	"github.com/nephele-io/nephele/internal/explain/placement"
	"github.com/nephele-io/nephele/internal/platform/work"
	"github.com/nephele-io/nephele/internal/policy"
	"github.com/nephele-io/nephele/internal/policy/evaluate"
	"github.com/nephele-io/nephele/internal/reach"
)

// RuleOf is a rule as answers show it.
func RuleOf(r evaluate.RuleRef) analysis.Rule { return explainRule(r) }

// World is who reaches whom according to a Computation.
type World struct {
	*reach.World
	Endpoints   []reach.Endpoint
	computation *Computation
}

// Within returns the world with a budget that its answers are spent from. They end below
// work.Within when it is used up.
func (w *World) Within(b *work.Budget) *World {
	bounded := *w
	bounded.World = w.World.Within(b)
	return &bounded
}

// World makes the computation ready for questions about everybody. With asEnforced, modes and
// break-glass do not count.
func (c *Computation) World(asEnforced bool) *World {
	b := worldBuilder{
		c: c, asEnforced: asEnforced, openings: map[string]*reach.Openings{}, owners: map[string]owner{}, others: map[string]map[netip.Addr]bool{},
	}
	refs := make([]policy.EntityRef, 0, len(c.Ends))
	for ref := range c.Ends {
		refs = append(refs, ref)
	}
	slices.SortFunc(refs, placement.Compare)
	for _, ref := range refs {
		b.beside(c.Ends[ref])
	}
	for _, ref := range refs { // before the endpoints behind them
		if e := c.Ends[ref]; b.inCloud(e) {
			b.entity(e)
		}
	}
	b.strangers()
	for _, ref := range refs {
		if e := c.Ends[ref]; !b.inCloud(e) {
			b.entity(e)
		}
	}
	b.tellApart()
	w := &World{Endpoints: b.endpoints, computation: c}
	in := reach.Input{Listing: c.Listing, Endpoints: w.Endpoints}
	if c.clouds != nil {
		in.Cloud, in.Delegated = c.clouds.Native, c.clouds.Delegated
	}
	w.World = reach.New(in)
	return w
}

// worldBuilder makes the endpoints.
type worldBuilder struct {
	c          *Computation
	asEnforced bool
	openings   map[string]*reach.Openings
	// owners are the endpoints that interfaces have, by their IDs.
	owners map[string]owner
	// others are the addresses of interfaces that Pods have, by the IDs of the interfaces.
	others    map[string]map[netip.Addr]bool
	endpoints []reach.Endpoint
}

// owner is the machine that an interface belongs to, by its private addresses and its public ones.
type owner struct{ private, public *reach.Endpoint }

// inCloud reports whether an entity is a machine in a cloud.
func (b *worldBuilder) inCloud(e policy.Entity) bool { return b.c.endOf(e).isCloudVM() }

// beside notes which addresses of interfaces belong to Pods.
func (b *worldBuilder) beside(e policy.Entity) {
	if b.c.clouds == nil || e.Terminated || e.HostNetwork || e.Kind != policy.KindPod {
		return
	}
	for _, p := range b.c.clouds.PointsOf(e.EntityRef) {
		if b.others[p.Interface.ID] == nil {
			b.others[p.Interface.ID] = map[netip.Addr]bool{}
		}
		b.others[p.Interface.ID][p.Addr] = true
	}
}

// entity adds the endpoints of an entity. A Pod in the network of its Node has none of its own: it
// is that Node.
func (b *worldBuilder) entity(e policy.Entity) {
	if e.Terminated || e.HostNetwork {
		return
	}
	at := b.c.endOf(e)
	p := reach.Endpoint{EntityRef: e.EntityRef, Name: nameOfEntity(e), Addresses: e.Addresses, Ports: withProtocol(e.Ports), Host: e.Host}
	p.Semantics, p.Grouped = at.semantics(), at.isCloudVM()
	switch {
	case at.agent == AgentOurs:
		p.Openings = b.openingsOfHost(at.enforcer)
	case p.Grouped:
		if name, plain := strings.CutPrefix(p.Name, "ee/"); plain {
			p.Name = "vm/" + name
		}
		account, _ := strings.CutPrefix(e.Host, cloud.EnforcerPrefix)
		p.Openings = b.openingsOf(account)
		if !b.asEnforced {
			p.Suspended = b.c.accountView().suspended(e.EntityRef, account)
		}
	}
	seats := b.c.clouds.PointsOf(e.EntityRef)
	if at.isCloudVM() && len(seats) > 0 {
		var seen []string
		for _, s := range seats {
			if n := s.Interface; !slices.Contains(seen, n.ID) {
				seen = append(seen, n.ID)
				b.nic(p, n, s.Region())
			}
		}
		return
	}
	if at.isCloudVM() {
		b.split(p)
		return
	}
	b.behind(p, seats)
}

// nic adds the endpoints of an interface of a machine, without the addresses of Pods that it has.
func (b *worldBuilder) nic(p reach.Endpoint, n *cloud.Interface, region string) {
	p.Interface, p.Region, p.Machine = n.ID, region, cmp.Or(n.VMID, n.ID)
	var o owner
	add := func(addresses []netip.Addr, public bool) *reach.Endpoint {
		one := p
		one.Addresses, one.Public = addresses, public
		if !public {
			one.Blocks = addrset.OfPrefixes(n.Prefixes...).Minus(addrset.Of(slices.Collect(maps.Keys(b.others[n.ID]))...))
		}
		b.endpoints = append(b.endpoints, one)
		return &one
	}
	private := n.PrivateIPs
	if others := b.others[n.ID]; others != nil {
		private = slices.DeleteFunc(slices.Clone(private), func(a netip.Addr) bool { return others[a] })
	}
	o.private = add(private, false)
	if o.public = o.private; len(n.PublicIPs) > 0 {
		o.public = add(n.PublicIPs, true)
	}
	if _, known := b.owners[n.ID]; !known {
		b.owners[n.ID] = o
	}
}

// behind adds the endpoints of a Pod, a Node or a host: one for each interface in a cloud that has
// some of its addresses, and one for the others.
func (b *worldBuilder) behind(p reach.Endpoint, seats []trace.Point) {
	type place struct {
		id     string
		public bool
	}
	var order []place
	at, elsewhere := map[place]*reach.Endpoint{}, p
	elsewhere.Addresses = nil
	for _, a := range p.Addresses {
		i := slices.IndexFunc(seats, func(s trace.Point) bool { return s.Addr == a || s.Public == a })
		if i < 0 {
			elsewhere.Addresses = append(elsewhere.Addresses, a)
			continue
		}
		n := seats[i].Interface
		key := place{n.ID, seats[i].Public == a && seats[i].Addr != a}
		if at[key] == nil {
			one := p
			one.Addresses, one.Interface, one.Machine, one.Public = nil, n.ID, cmp.Or(n.VMID, n.ID), key.public
			one.Behind = b.owners[n.ID].private
			if key.public {
				one.Behind = b.owners[n.ID].public
			}
			at[key] = &one
			order = append(order, key)
		}
		at[key].Addresses = append(at[key].Addresses, a)
	}
	if len(elsewhere.Addresses) > 0 || len(order) == 0 {
		b.endpoints = append(b.endpoints, elsewhere)
	}
	for _, key := range order {
		b.endpoints = append(b.endpoints, *at[key])
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

// strangers adds the interfaces in sight that no entity has: no policy applies to them.
func (b *worldBuilder) strangers() {
	for _, s := range b.c.Objects.Snapshots() {
		names := map[string]string{}
		for i := range s.VMs {
			names[s.VMs[i].ID] = s.VMs[i].Name
		}
		for i := range s.Interfaces {
			n := &s.Interfaces[i]
			if _, owned := b.owners[n.ID]; owned {
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
			b.nic(reach.Endpoint{Name: name, Semantics: evaluate.VMSemantics, Grouped: true}, n, s.Region)
		}
	}
}

// tellApart adds something unique to names that several machines have: a user who may name a
// machine in the cloud could give it the name of another one.
func (b *worldBuilder) tellApart() {
	type who struct {
		policy.EntityRef
		networkInterface string
	}
	owners := map[string]map[who]bool{}
	of := func(e *reach.Endpoint) who {
		if e.Kind != 0 {
			return who{EntityRef: e.EntityRef}
		}
		return who{networkInterface: e.Interface}
	}
	for i := range b.endpoints {
		e := &b.endpoints[i]
		if owners[e.Name] == nil {
			owners[e.Name] = map[who]bool{}
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
	for _, a := range b.c.Objects.Accounts {
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
	told := b.c.hostInfos[host].failsafe
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
	of := imported.KindOf(e.EntityRef)
	name := of.CloudName(e.Labels)
	if name == "" && strings.HasPrefix(e.Name, of.Prefix()) {
		name = of.ObjectName(e.EntityRef)
	}
	if name != "" {
		return string(of) + "/" + e.Namespace + "/" + name
	}
	return "ee/" + e.Namespace + "/" + e.Name
}

// Party finds the endpoints that a text means: "any"; NAMESPACE/NAME, also after a word for the
// kind, or node/NAME, as Question.From; NAMESPACE/* or */*, also after a kind; NAMESPACE/SELECTOR
// by labels of the entity, where SELECTOR has an operator (app=db); cloud/NAME or the id of a VM or
// interface in the snapshots; an address or range.
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

// addresses are a set of addresses, without regard to their holders.
func (w *World) addresses(set addrset.Set) reach.Party {
	return reach.Party{
		Chosen: func(e *reach.Endpoint) bool {
			return slices.ContainsFunc(e.Addresses, set.Contains) || e.Blocks.Overlaps(set)
		},
		Addresses: set,
	}
}

func (w *World) chosen(part, text string) (func(*reach.Endpoint) bool, error) {
	words := strings.SplitN(text, "/", 3)
	kind, known := kindWords()[strings.ToLower(words[0])]
	if len(words) == 1 || words[0] == "cloud" {
		return func(e *reach.Endpoint) bool {
			return e.Name == text || e.Interface == text && e.Behind == nil || e.Kind != 0 && w.computation.Ends[e.EntityRef].Labels[cloudv1alpha1.LabelCloudVMUID] == text
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
			(namespace == "*" || e.Namespace == namespace) && (kind.of != imported.Host || !w.computation.endOf(w.computation.Ends[e.EntityRef]).isCloudVM())
	}
	switch {
	case name == "*":
		return in, nil
	case strings.ContainsAny(name, "=!,") || isSetSelector(name):
		selector, err := labels.Parse(name)
		if err != nil {
			return nil, wrong(part, " %q: the part after the Namespace: want a label selector such as app=db,tier!=test: %v", text, err)
		}
		return func(e *reach.Endpoint) bool {
			return in(e) && selector.Matches(labels.Set(w.computation.Ends[e.EntityRef].Labels))
		}, nil
	}
	refs := w.computation.finder().anybodyNamed(namespace, name)
	if known {
		refs = w.computation.finder().named(kind, namespace, name)
	}
	if len(refs) == 0 {
		return nil, w.computation.finder().nobody(part, text)
	}
	var found []policy.EntityRef
	for _, ref := range refs {
		found = append(found, w.computation.endOf(w.computation.Ends[ref]).at)
	}
	return func(e *reach.Endpoint) bool { return slices.Contains(found, e.EntityRef) }, nil
}

// isSetSelector reports whether a text is a label selector with an operator in words, as in app in
// (a, b). Names in clouds have blanks, too.
func isSetSelector(text string) bool {
	key, rest, _ := strings.Cut(text, " ")
	operator, _, _ := strings.Cut(strings.TrimSpace(rest), " ")
	operator, _, _ = strings.Cut(operator, "(")
	return key != "" && strings.HasSuffix(text, ")") && (operator == "in" || operator == "notin") && strings.Contains(rest, "(")
}

// Rule and Policy return a rule and a policy as they may be seen, and Sees reports whether the
// policy of a rule may be. SeesAll reports whether everything may.
func (w *World) Rule(r analysis.Rule) analysis.Rule { return w.computation.Rule(r) }

// Policy is told at Rule.
func (w *World) Policy(p analysis.Policy) analysis.Policy { return w.computation.Policy(p) }

// Sees is told at Rule.
func (w *World) Sees(r evaluate.RuleRef) bool { return w.computation.Visible(r) }

// SeesAll is told at Rule.
func (w *World) SeesAll() bool { return w.computation.view == nil }

// Label is the value of a label of an endpoint; empty if it has none.
func (w *World) Label(e *reach.Endpoint, key string) string { return w.Labels(e)[key] }

// Labels returns the labels of an endpoint, which must not be changed.
func (w *World) Labels(e *reach.Endpoint) map[string]string {
	return w.computation.Ends[e.EntityRef].Labels
}

// Snapshots are what was read of clouds, as far as it may be seen.
func (w *World) Snapshots() []*cloud.Snapshot { return w.computation.Objects.Snapshots() }

// PolicyOf is a policy as answers show it.
func PolicyOf(p policy.PolicyRef) analysis.Policy { return explainPolicy(p) }
