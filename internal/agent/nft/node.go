package nft

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
)

// Node is what is known of a Node besides what was computed for it.
type Node struct {
	// Pods are those that have addresses of their own. If two have the same one it is that of the
	// later in the list.
	Pods []Pod `json:"pods,omitempty"`
	// Ranges are the addresses that are given to Pods of this Node, as far as that is known. Who
	// has one of them and is no Pod that is known is cut off.
	Ranges []netip.Prefix `json:"ranges,omitempty"`
	// IPVS tells that kube-proxy leads packets to Services by IPVS: the kernel then sends them on
	// as its own.
	IPVS bool `json:"ipvs,omitempty"`
	// Network is the network of the Node, where the agent makes it; nil where somebody else does.
	Network *Network `json:"network,omitempty"`
	// Bridges are the bridges by which Pods are reached, sorted.
	Bridges []string `json:"bridges,omitempty"`
}

// Pod is a Pod with addresses of its own.
type Pod struct {
	Namespace string       `json:"namespace"`
	Name      string       `json:"name"`
	Addresses []netip.Addr `json:"addresses"`
	// Bypass says why packets of the Pod do not come by; empty if they do.
	Bypass string `json:"bypass,omitempty"`
	// Waiting tells that it is not known yet which policies apply to the Pod. It is cut off until
	// then.
	Waiting bool `json:"waiting,omitempty"`
}

// Base is a chain that packets enter.
type Base string

// The chains that packets enter, each in one place on their way.
const (
	// ToHost and FromHost are named as the directions of the host itself.
	ToHost   Base = "ingress"
	FromHost Base = "egress"
	// PodsToNode is what Pods send to their Node.
	PodsToNode Base = "pods-to-node"
	// PodsOut and PodsIn are what Pods send to others, and receive from others than their Node.
	PodsOut Base = "pods-egress"
	PodsIn  Base = "pods-ingress"
	// ServicesOut and ServicesIn are the same of what IPVS has led to where it is to go.
	ServicesOut Base = "services-egress"
	ServicesIn  Base = "services-ingress"
	// AskedByHost, AskedByPods and AskedHere are what has passed and asks resolvers for names: of
	// the host, of Pods, and of Pods that ask a resolver on the Node.
	AskedByHost Base = "names-asked"
	AskedByPods Base = "names-asked-pods"
	AskedHere   Base = "names-asked-here"
	// ForwardedOut and ForwardedIn are what only passes through a host that is no Node, where that
	// is judged.
	ForwardedOut Base = "forwarded-egress"
	ForwardedIn  Base = "forwarded-ingress"
	// FromPods is what comes to the Node over links to Pods, before anything else is decided about
	// it, and ToOthers what leaves, after that.
	FromPods Base = "network-from-pods"
	ToOthers Base = "network-to-others"
	// InClear is what leaves, where some of it must be encrypted.
	InClear Base = "network-in-clear"
	// ToServices and HostToServices are where it is chosen where connections to Services go: of
	// what comes to the Node, and of what it makes itself.
	ToServices     Base = "network-services"
	HostToServices Base = "network-services-host"
)

// Bases lists those that policies are asked in, those of one way in the order in which packets meet
// them.
func Bases() []Base {
	return []Base{PodsToNode, ToHost, AskedHere, FromHost, AskedByHost, PodsOut, PodsIn, AskedByPods, ServicesOut, ServicesIn, ForwardedOut, ForwardedIn}
}

// Way is where a packet goes.
type Way uint8

// The ways.
const (
	// Arriving is what ends on the host, Leaving what begins there, Passing what goes through, and
	// Redirected what IPVS sends on.
	Arriving Way = iota
	Leaving
	Passing
	Redirected
)

// Way is the way of the packets that enter the chain.
func (b Base) Way() Way {
	switch b {
	case PodsOut, PodsIn, AskedByPods, ForwardedOut, ForwardedIn:
		return Passing
	case ServicesOut, ServicesIn:
		return Redirected
	case FromHost, AskedByHost:
		return Leaving
	}
	return Arriving
}

// Direction is that of the rules that are asked in the chain.
func (b Base) Direction() Direction {
	switch b {
	case PodsToNode, FromHost, AskedByHost, PodsOut, ServicesOut, ForwardedOut:
		return Egress
	}
	return Ingress
}

// The dispatches of a Node: by the destination, by the source, and by both.
const (
	podsIn4  SetName = "pods-in4"
	podsIn6  SetName = "pods-in6"
	podsOut4 SetName = "pods-out4"
	podsOut6 SetName = "pods-out6"
	self4    SetName = "pods-self4"
	self6    SetName = "pods-self6"
)

// DispatchFamily is the family of the addresses in a dispatch.
func (n SetName) DispatchFamily() Family {
	if strings.HasSuffix(string(n), "6") {
		return IPv6
	}
	return IPv4
}

// DispatchBy reports which addresses of a packet a dispatch looks at.
func (n SetName) DispatchBy() (source, destination bool) {
	both := strings.HasPrefix(string(n), "pods-self")
	both = both || n == hairpin4 || n == hairpin6
	return both || strings.HasPrefix(string(n), "pods-out"), both || strings.HasPrefix(string(n), "pods-in") || n == clusterIP4 || n == clusterIP6
}

// IsDispatch reports whether a name is that of a dispatch.
func (n SetName) IsDispatch() bool {
	return strings.HasPrefix(string(n), "pods-") || n == hairpin4 || n == hairpin6 || n.IsOfServices()
}

func (n SetName) dispatchKey(source, destination netip.Addr) string {
	var key []byte
	bySource, byDestination := n.DispatchBy()
	if bySource {
		key = append(key, source.AsSlice()...)
	}
	if byDestination {
		key = append(key, destination.AsSlice()...)
	}
	return string(key)
}

// chains of Pods that no rule decides about, of those that reach themselves, and of those that
// wait.
const (
	openChain   = "pods-open"
	selfChain   = "pods-self"
	closedChain = "pods-closed"
)

// key tells classes of Pods apart.
func (h *host) key() string {
	words := slices.Clone(h.applied)
	for _, p := range h.ports {
		words = append(words, fmt.Sprintf("%s/%s/%d", p.Protocol, p.Name, p.Port))
	}
	id := sum(words...)
	return string(id[:])
}

// node makes the chains of the Pods of a Node.
func (w *work) node(n *Node, members *membership, policies []*v1beta2.NetworkPolicy, out *Result) {
	byGroup := map[string][]*v1beta2.NetworkPolicy{}
	for _, p := range policies {
		for _, g := range AppliedTo(p) {
			byGroup[g] = append(byGroup[g], p)
		}
	}
	for _, name := range []SetName{podsIn4, podsIn6, podsOut4, podsOut6, self4, self6} {
		w.program.Dispatch[name] = map[string]string{}
	}
	w.program.Chains[openChain] = &Chain{Rules: []Rule{{Action: Accept, Origin: &Origin{Kind: OriginNative}}}}
	w.program.Chains[selfChain] = &Chain{Rules: []Rule{{Action: Accept, Origin: &Origin{Kind: OriginItself}}}}
	made := map[string]*guarded{}
	waiting := &guarded{entries: [2][2]string{{closedChain, closedChain}, {closedChain, closedChain}}}
	for i := range n.Pods {
		pod := &n.Pods[i]
		if pod.Waiting {
			w.program.Chains[closedChain] = &Chain{Rules: []Rule{{Action: Drop, Origin: &Origin{Kind: OriginUnknown}}}}
			waiting.point(w.program.Dispatch, pod)
			w.podClass = append(w.podClass, closedChain)
			continue
		}
		out.Pods++
		at := members.pods[pod.Namespace+"/"+pod.Name]
		if at == nil {
			at = &host{}
		}
		key := at.key()
		if made[key] == nil {
			made[key] = w.guard(key, *at, byGroup)
		}
		made[key].point(w.program.Dispatch, pod)
		w.podClass = append(w.podClass, key)
		if pod.Bypass != "" {
			for _, p := range made[key].policies {
				out.Bypassed = append(out.Bypassed, Refusal{Policy: p, Reason: ReasonBypass, Value: "Pod " + pod.Namespace + "/" + pod.Name + ": " + pod.Bypass})
			}
		}
	}
	slices.SortStableFunc(out.Bypassed, func(a, b Refusal) int { return cmp.Compare(a.Policy, b.Policy) })
	out.Classes = len(made)
	w.bases(n)
}

// AppliedTo are the applied-to groups that a policy and its rules name.
func AppliedTo(p *v1beta2.NetworkPolicy) []string {
	out := slices.Clone(p.AppliedToGroups)
	for i := range p.Rules {
		out = append(out, p.Rules[i].AppliedToGroups...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// guarded is a class of Pods as it is in the program.
type guarded struct {
	// entries are the chains that packets enter, by direction and family.
	entries [2][2]string
	// policies are the names of those that apply.
	policies []string
}

// guard makes the chains of a class of Pods.
func (w *work) guard(key string, at host, byGroup map[string][]*v1beta2.NetworkPolicy) *guarded {
	c := w.class(key, at, false, true)
	applied := map[string]*v1beta2.NetworkPolicy{}
	for _, g := range at.applied {
		for _, p := range byGroup[g] {
			applied[p.Name] = p
		}
	}
	out := &guarded{policies: slices.Sorted(maps.Keys(applied))}
	var parts []*policyParts
	for _, name := range out.policies {
		part := w.policy(c, applied[name])
		parts = append(parts, part)
		w.named[key] = w.named[key] || part.names()
	}
	for _, d := range []Direction{Ingress, Egress} {
		entries, _ := w.lanes(c, d, parts)
		out.entries[d] = [2]string{openChain, openChain}
		copy(out.entries[d][:], entries)
	}
	return out
}

// point leads packets of a Pod to the chains of its class.
func (g *guarded) point(dispatch map[SetName]map[string]string, pod *Pod) {
	for _, a := range pod.Addresses {
		names := [...]SetName{podsIn4, podsOut4, self4}
		family := 0
		if a = a.Unmap(); a.Is6() {
			names, family = [...]SetName{podsIn6, podsOut6, self6}, 1
		}
		for i, target := range []string{g.entries[Ingress][family], g.entries[Egress][family], selfChain} {
			dispatch[names[i]][names[i].dispatchKey(a, a)] = target
		}
	}
}

// bases makes the chains that packets of Pods enter.
func (w *work) bases(n *Node) {
	list := []Base{PodsToNode, PodsOut, PodsIn}
	if n.IPVS {
		list = append(list, ServicesOut, ServicesIn)
		// What comes from elsewhere is not the Node's, though it leaves as if it were.
		host := w.program.Chains[string(FromHost)]
		host.Rules = slices.Insert(host.Rules, 2, Rule{Matches: []Match{{Kind: MatchRouted}}, Action: Accept})
	}
	for _, b := range list {
		in := b == PodsIn || b == ServicesIn
		c := &Chain{Rules: []Rule{
			{Matches: []Match{{Kind: MatchDead}}, Action: Drop},
			{Matches: []Match{{Kind: MatchEstablished}}, Action: Accept},
		}}
		d := Egress
		if in {
			d = Ingress
		}
		c.Rules = append(c.Rules, keepsLink(d, !w.igmp)...)
		lookups := []SetName{podsOut4, podsOut6}
		switch b {
		case PodsToNode:
			c.Rules = append(c.Rules, Rule{Matches: []Match{{Kind: MatchLoopback, Source: true}}, Action: Accept})
		case ServicesOut, ServicesIn: // probes are the Node's own
			c.Rules = append(c.Rules, Rule{Matches: []Match{{Kind: MatchProcess}}, Action: Accept})
		}
		if in {
			lookups = []SetName{self4, self6, podsIn4, podsIn6}
		}
		for _, name := range lookups {
			c.Rules = append(c.Rules, Rule{Matches: []Match{{Kind: MatchFamily, Lo: uint16(name.DispatchFamily())}}, Action: Lookup, Target: string(name)})
		}
		for _, p := range n.Ranges {
			p = p.Masked()
			family := IPv4
			if p.Addr().Is6() {
				family = IPv6
			}
			r := rangeOf(p)
			c.Rules = append(c.Rules, Rule{Action: Drop, Origin: &Origin{Kind: OriginUnknown},
				Matches: []Match{{Kind: MatchFamily, Lo: uint16(family)}, {Kind: MatchPeer, Peer: &r, Source: !in}}})
		}
		w.program.Chains[string(b)] = c
	}
}
