package reach

import (
	"fmt"
	"net/netip"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan/addrset"
	"github.com/nephele-io/nephele/internal/cloud/plan/flow"
	"github.com/nephele-io/nephele/internal/policy"
)

// Endpoint is somebody with addresses whose traffic is asked about: an entity, or an interface in a
// cloud that is none.
type Endpoint struct {
	// EntityRef is whom policies apply to; zero where none can. A Pod in the network of its Node is
	// that Node.
	policy.EntityRef
	// Name is what people call it. Of several endpoints with equal names the interface is told,
	// too.
	Name      string
	Addresses []netip.Addr
	Ports     []policy.NamedPort
	Semantics policy.Semantics
	// Host is the Node of a Pod.
	Host string
	// Interface is the id of the interface in the snapshots that the addresses belong to; empty if
	// they are in none.
	Interface string
	// Public tells that these are the public addresses of a machine in a cloud, which has others
	// besides, as an Endpoint of its own. Packets between such addresses go through the internet,
	// where nobody's groups are known.
	Public bool
	// Suspended says why policies are not enforced on it, in the words of whoever asks; empty if
	// they are.
	Suspended string
	// Openings are allowed before any rule where a policy applies: the failsafe flows of an
	// account, or of the agent of a host. Endpoints of one account share them.
	Openings *Openings
}

// Openings are traffic that is allowed before any rule.
type Openings struct {
	Owner
	Flows []Opening
}

// Owner says whose Openings are: an account's or a host's, each "namespace/name". The zero value is
// nobody.
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
	// Snapshots are the clouds that endpoints with an Interface are in. Where they hold groups of
	// ours (tagged as such), what the machine's own groups would decide is not known.
	Snapshots []*cloud.Snapshot
}

// World answers questions.
type World struct {
	policies  *policies
	clouds    *clouds
	endpoints []*endpoint
	// everybody are the addresses of all endpoints.
	everybody addrset.Set
	// kinds are the classes of endpoints by direction (ingress, egress) and key.
	kinds [2]map[string]*kind
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
	selected  bool
	openings  []Opening
	owner     Owner // of the openings
	suspended string
	public    bool
	groups    *holding
	services  []flow.Service
}

// New indexes the input.
func New(i Input) *World {
	w := &World{policies: newPolicies(i.Listing), clouds: newClouds(i.Snapshots), kinds: [2]map[string]*kind{{}, {}}}
	sets := make([]addrset.Set, 0, len(i.Endpoints))
	for k := range i.Endpoints {
		e := &endpoint{Endpoint: &i.Endpoints[k], addrs: addrset.Of(i.Endpoints[k].Addresses...), at: k}
		for half := range e.halves {
			e.halves[half] = w.kind(half, e.Endpoint)
		}
		w.endpoints = append(w.endpoints, e)
		sets = append(sets, e.addrs)
	}
	w.everybody = addrset.Union(sets...)
	return w
}

// kind returns the kind of an endpoint in a direction, and remembers it.
func (w *World) kind(half int, e *Endpoint) *kind {
	k := w.newKind(half, e)
	key := fmt.Sprintf("%s %t %t %q %q %s", k.class.key(), k.selected, k.public, k.suspended, k.owner, k.groups.key())
	if known := w.kinds[half][key]; known != nil {
		return known
	}
	w.kinds[half][key] = k
	k.services = w.policies.services(&k.class)
	for _, o := range k.openings {
		k.services = append(k.services, o.Services...)
	}
	if !k.isolated {
		k.services = append(k.services, k.groups.services(directionOf(half))...)
	}
	k.services = flow.Partition(k.services)
	return k
}

func (w *World) newKind(half int, e *Endpoint) *kind {
	c := w.policies.class(directionOf(half), e)
	k := &kind{class: c, suspended: e.Suspended, public: e.Public, groups: w.clouds.holding(e.Interface)}
	k.selected = e.Suspended == "" && (len(c.rules) > 0 || len(w.policies.class(directionOf(1-half), e).rules) > 0)
	if e.Openings != nil && k.selected {
		k.owner = e.Openings.Owner
		for _, o := range e.Openings.Flows {
			if o.Direction == directionOf(half) {
				k.openings = append(k.openings, o)
			}
		}
	}
	return k
}

// outside is the kind of addresses that are nobody's: nothing is decided there.
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
	// Unknown: a domain name, or a type or group of IGMP, decides.
	Unknown Outcome = "Unknown"
)

// Passes reports whether the flow gets through for certain.
func (o Outcome) Passes() bool { return o == Allow }

// Cause is why one end decides as it does. At most one field is set; none is where nobody decides:
// an address that is nobody's, or a Pod or Node that no policy isolates in the direction.
type Cause struct {
	// Rule is the deciding rule of a policy.
	Rule *policy.RuleRef
	// Isolated tells that the direction is isolated and no rule allows the flow.
	Isolated bool
	// Openings is whose Openings allow it.
	Openings Owner
	// Groups tells that the machine's own security groups decide, and Unread that they are not
	// known.
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
	peers = peers.Intersect(flow.Family(s.Protocol))
	var halves []half
	for _, o := range k.openings {
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
	blocksOnly := other.public && k.groups != nil && k.groups.near(other.groups)
	for _, p := range w.policies.decide(&k.class, s, peers, blocksOnly, nil) {
		h := half{peers: p.peers, possible: p.possible, by: p.by, passed: p.passed, cause: Cause{Isolated: p.by == noRule && p.possible == drop}}
		if p.possible&native == 0 {
			halves = append(halves, h)
			continue
		}
		halves = append(halves, w.natively(k, direction, s, h, other)...)
	}
	return halves
}

// natively replaces what is left to the endpoint itself. A Pod or Node lets it through.
func (w *World) natively(k *kind, direction policy.Direction, s flow.Service, h half, other *kind) []half {
	become := func(o outcomes, peers addrset.Set, c Cause) half {
		n := h
		n.peers, n.possible = peers, h.possible&^native|o
		if h.possible == native {
			n.cause = c
		}
		return n
	}
	switch {
	case k.semantics == policy.PodSemantics && k.groups == nil:
		return []half{become(allow, h.peers, Cause{})}
	case k.groups == nil || k.groups.ours:
		return []half{become(native, h.peers, Cause{Unread: true})}
	}
	yes, maybe := k.groups.allowed(direction, s, other.groups, k.public)
	var halves []half
	add := func(o outcomes, peers addrset.Set, c Cause) {
		if !peers.Empty() {
			halves = append(halves, become(o, peers, c))
		}
	}
	add(allow, h.peers.Intersect(yes), Cause{Groups: true})
	rest := h.peers.Minus(yes)
	if maybe {
		add(native, rest, Cause{Unread: true})
	} else {
		add(drop, rest, Cause{Groups: true})
	}
	return halves
}

// together is what the sender sees: see policy.Verdict.Together. Here a Native that a Pod lets
// through is Allow already.
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
