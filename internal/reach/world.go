package reach

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan/addrset"
	"github.com/nephele-io/nephele/internal/cloud/plan/flow"
	"github.com/nephele-io/nephele/internal/cloud/trace"
	"github.com/nephele-io/nephele/internal/platform/work"
	"github.com/nephele-io/nephele/internal/policy"
	"github.com/nephele-io/nephele/internal/policy/evaluate"
)

// Endpoint is somebody with addresses whose traffic is asked about: an entity, or an interface in a
// cloud that is none.
type Endpoint struct {
	// EntityRef is the entity that policies apply to; zero where none can. A Pod in the network of
	// its Node is that Node.
	policy.EntityRef
	// Name is what people call it. Of several endpoints with equal names the interface is reported,
	// too.
	Name      string
	Addresses []netip.Addr
	// Blocks are addresses that a cloud has delegated to the interface in whole blocks.
	Blocks    addrset.Set
	Ports     []policy.NamedPort
	Semantics evaluate.Semantics
	// Host is the Node of a Pod.
	Host string
	// Interface is the id of the interface in the cloud that the addresses belong to; empty if they
	// are of none in sight. The groups that it holds are those by which others may name it.
	Interface string
	// Region is where the interface is.
	Region string
	// Grouped tells that security groups filter its packets and enforce what policies say there: it
	// is a machine in a cloud. They decide what policies leave to it, as far as Interface is known.
	Grouped bool
	// Behind is the machine in a cloud through whose interface the packets of the endpoint pass, of
	// a Pod or the host of an agent: both have to let them through. What goes on within a Machine
	// does not pass it.
	Behind *Endpoint
	// Machine is the machine that the interface belongs to.
	Machine string
	// Public tells that these are the public addresses of a machine in a cloud, which has others
	// besides, as an Endpoint of its own. Packets between such addresses go through the internet,
	// where no one's groups are known.
	Public bool
	// Suspended says why policies are not enforced on it, in the words of the caller; empty if they
	// are.
	Suspended string
	// Openings are allowed before any rule where a policy applies: the failsafe flows of an
	// account, or of the agent of a host. Endpoints of one account share them.
	Openings *Openings
}

// All are all addresses of the endpoint.
func (e *Endpoint) All() addrset.Set { return addrset.Of(e.Addresses...).Union(e.Blocks) }

// Openings are traffic that is allowed before any rule.
type Openings struct {
	Owner
	Flows []Opening
}

// Owner says whose Openings are: an account's or a host's, each "namespace/name". The zero value is
// no one.
type Owner struct{ Account, Host string }

// Opening is one of the Openings.
type Opening struct {
	Direction policy.Direction
	// Services are any of these; nil means all traffic.
	Services []flow.Service
	Peers    addrset.Set
}

// Input is what a World is made of.
type Input struct {
	// Listing is what the policies compute to.
	Listing   *policy.Listing
	Endpoints []Endpoint
	// Delegated are the blocks of addresses that a cloud has delegated to entities.
	Delegated map[policy.EntityRef]Delegation
	// Cloud has the interfaces of endpoints, with the groups that they hold of their own; nil if
	// there are none.
	Cloud *trace.Cloud
}

// Delegation is what a cloud has delegated to the interfaces of an entity in blocks. Rules that
// security groups of the Region enforce name these addresses together with the others of the
// entity; elsewhere no one is informed of them.
type Delegation struct {
	Region string
	Blocks addrset.Set
}

// World answers questions.
type World struct {
	policies  *policies
	cloud     *trace.Cloud
	endpoints []*endpoint
	// everybody are the addresses of all endpoints.
	everybody addrset.Set
	// kinds are the classes of endpoints by direction (ingress, egress) and key.
	kinds [2]map[string]*kind
	// budget is what answers may cost.
	budget *work.Budget
}

// Within returns the world with a budget that its answers are spent from. A method ends below
// work.Within when it is used up.
func (w *World) Within(b *work.Budget) *World {
	bounded := *w
	bounded.budget = b
	return &bounded
}

// endpoint is an Endpoint and how each direction of it is treated.
type endpoint struct {
	*Endpoint
	addrs  addrset.Set
	halves [2]*kind
	// at is its place in the input.
	at int
}

// The indexes of directions.
const (
	in  = 0
	out = 1
)

func directionOf(half int) policy.Direction {
	if half == in {
		return policy.Ingress
	}
	return policy.Egress
}

// kind is a direction of endpoints that are treated alike.
type kind struct {
	class
	// selected tells that a policy applies to the endpoints, in either direction.
	selected       bool
	implicitAllows []Opening
	owner          Owner // of the openings
	suspended      string
	public         bool
	// groups holds the groups of the interface, nil if it is not in sight; grouped tells that they
	// filter.
	groups  *trace.Membership
	grouped bool
	// behind is the kind that also decides.
	behind   *kind
	services []flow.Service
}

// within is the kind as it counts for what goes on within a machine.
func (k *kind) within() *kind {
	if k.behind == nil {
		return outside()
	}
	own := *k
	own.behind = nil
	return &own
}

// New indexes the input.
func New(i Input) *World {
	w := &World{policies: newPolicies(i.Listing, i.Delegated), cloud: i.Cloud, kinds: [2]map[string]*kind{{}, {}}}
	sets := make([]addrset.Set, 0, len(i.Endpoints))
	for k := range i.Endpoints {
		e := &endpoint{Endpoint: &i.Endpoints[k], addrs: i.Endpoints[k].All(), at: k}
		for half := range e.halves {
			e.halves[half] = w.kind(half, e.Endpoint)
		}
		w.endpoints = append(w.endpoints, e)
		sets = append(sets, e.addrs)
	}
	w.everybody = addrset.Union(sets...)
	w.policies.outside = addrset.All().Minus(w.everybody)
	return w
}

// kind returns the kind of an endpoint in a direction, and remembers it.
func (w *World) kind(half int, e *Endpoint) *kind {
	k := w.newKind(half, e)
	key := fmt.Sprintf("%s %t %t %t %q %q %s %p", k.class.key(), k.selected, k.public, k.grouped, k.suspended, k.owner, k.groups.Key(), k.behind)
	if known := w.kinds[half][key]; known != nil {
		return known
	}
	w.kinds[half][key] = k
	k.index = w.policies.indexOf(&k.class)
	k.services = w.policies.services(&k.class)
	for _, o := range k.implicitAllows {
		k.services = append(k.services, o.Services...)
	}
	if k.grouped && !k.isolated {
		k.services = append(k.services, k.groups.Services(cloudDirection(directionOf(half)))...)
	}
	if k.behind != nil {
		k.services = append(k.services, k.behind.services...)
	}
	k.services = flow.Partition(k.services)
	return k
}

func (w *World) newKind(half int, e *Endpoint) *kind {
	c := w.policies.class(directionOf(half), e)
	k := &kind{class: c, suspended: e.Suspended, public: e.Public, grouped: e.Grouped}
	if e.Interface != "" && w.cloud != nil {
		k.groups = w.cloud.Membership(e.Interface)
	}
	if e.Behind != nil {
		k.behind = w.kind(half, e.Behind)
	}
	k.selected = e.Suspended == "" && (len(c.rules) > 0 || len(w.policies.class(directionOf(1-half), e).rules) > 0)
	if e.Openings != nil && k.selected {
		k.owner = e.Openings.Owner
		for _, o := range e.Openings.Flows {
			if o.Direction == directionOf(half) {
				k.implicitAllows = append(k.implicitAllows, o)
			}
		}
	}
	return k
}

// outside is the kind of addresses that are no one's: nothing is decided there.
func outside() *kind { return &kind{services: []flow.Service{flow.Any()}} }

// Outcome is what becomes of a flow.
type Outcome string

// The outcomes.
const (
	Allow  Outcome = "Allow"
	Drop   Outcome = "Drop"
	Reject Outcome = "Reject"
	// Native: the policies leave it to the security groups of a VM, which are not known here.
	Native Outcome = "Native"
	// Unknown: a domain name, a type or group of IGMP, or a group or prefix list that cannot be
	// read decides.
	Unknown Outcome = "Unknown"
)

// Passes reports whether the flow gets through for certain.
func (o Outcome) Passes() bool { return o == Allow }

// Cause is why one end decides as it does. At most one field is set; none is where no one decides:
// an address that is no one's, or a Pod, Node or host that no policy isolates in the direction.
type Cause struct {
	// Rule is the deciding rule of a policy.
	Rule *evaluate.RuleRef
	// Isolated tells that the direction is isolated and no rule allows the flow.
	Isolated bool
	// Openings is whose Openings allow it.
	Openings Owner
	// Groups says that the machine's own security groups decide. Unread says that these groups, or
	// the members of groups that they reference, are unknown.
	Groups bool
	Unread bool
}

// half is what one end decides about a set of peers.
type half struct {
	peers    addrset.Set
	possible outcomes
	by       int
	cause    Cause
	passed   []int
}

// decide cuts peers by what one end decides about them, for a service that lies in one piece of the
// kind's partition.
func (w *World) decide(k *kind, direction policy.Direction, s flow.Service, peers addrset.Set, other *kind) []half {
	own := w.decideOwn(k, direction, s, peers, other)
	if k.behind == nil {
		return own
	}
	var both []half
	for _, h := range own {
		if h.possible&allow == 0 {
			both = append(both, h)
			continue
		}
		for _, m := range w.decide(k.behind, direction, s, h.peers, other) {
			both = append(both, h.and(m))
		}
	}
	return both
}

// and is what an end and the machine that it is behind decide together, of the peers of the latter.
func (h half) and(machine half) half {
	switch {
	case h.possible != allow:
		h.possible, h.by, h.cause = h.possible&^allow|machine.possible, noRule, Cause{}
	case machine.possible != allow || h.by == noRule && h.cause == Cause{}:
		h.possible, h.by, h.cause = machine.possible, machine.by, machine.cause
	}
	h.peers, h.passed = machine.peers, slices.Concat(h.passed, machine.passed)
	return h
}

// decideOwn is decide without the machine that the end is behind.
func (w *World) decideOwn(k *kind, direction policy.Direction, s flow.Service, peers addrset.Set, other *kind) []half {
	peers = peers.Intersect(flow.Family(s.Protocol))
	var halves []half
	for _, o := range k.implicitAllows {
		if len(o.Services) > 0 && !covers(o.Services, s) {
			continue
		}
		if open := peers.Intersect(o.Peers); !open.Empty() {
			halves = append(halves, half{peers: open, possible: allow, by: noRule, cause: Cause{Openings: k.owner}})
			peers = peers.Minus(open)
		}
	}
	// Machines in sight are named by reference to a group, which means their private addresses
	// only.
	blocksOnly := other.public && k.grouped && k.groups != nil && k.groups.Near(other.groups)
	for _, p := range w.policies.decide(w.budget, &k.class, s, peers, blocksOnly, nil) {
		h := half{peers: p.peers, possible: p.possible, by: p.by, passed: p.passed, cause: Cause{Isolated: p.by == noRule && p.possible == drop}}
		if p.possible&native == 0 {
			halves = append(halves, h)
			continue
		}
		halves = append(halves, natively(k, direction, s, h, other)...)
	}
	return halves
}

// natively replaces what is left to the endpoint itself. An endpoint that is no machine in a cloud
// lets it through.
func natively(k *kind, direction policy.Direction, s flow.Service, h half, other *kind) []half {
	become := func(o outcomes, peers addrset.Set, c Cause) half {
		n := h
		n.peers, n.possible = peers, h.possible&^native|o
		if h.possible == native {
			n.cause = c
		}
		return n
	}
	switch {
	case !k.grouped:
		return []half{become(allow, h.peers, Cause{})}
	case k.groups == nil:
		return []half{become(native, h.peers, Cause{Unread: true})}
	}
	certain, perhaps := k.groups.Allowed(cloudDirection(direction), s, other.groups, k.public)
	var halves []half
	add := func(o outcomes, peers addrset.Set, c Cause) {
		if !peers.Empty() {
			halves = append(halves, become(o, peers, c))
		}
	}
	add(allow, h.peers.Intersect(certain), Cause{Groups: true})
	add(allow|drop, h.peers.Intersect(perhaps), Cause{Groups: true, Unread: true})
	add(drop, h.peers.Minus(certain).Minus(perhaps), Cause{Groups: true})
	return halves
}

func cloudDirection(d policy.Direction) cloud.Direction {
	if d == policy.Egress {
		return cloud.Egress
	}
	return cloud.Ingress
}

// together is what the sender sees: see evaluate.Verdict.Together. Here a Native that no one
// filters is Allow already.
func together(egress, ingress outcomes) Outcome {
	var ends outcomes
	passing := egress & (allow | native)
	ends |= egress & (drop | reject)
	if passing != 0 {
		ends |= ingress & (drop | reject)
		if ingress&allow != 0 {
			ends |= passing
		}
		if ingress&native != 0 {
			ends |= native
		}
	}
	return Outcome(ends.outcome())
}
