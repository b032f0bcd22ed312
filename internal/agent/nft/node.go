package nft

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
	"github.com/nephele-io/nephele/internal/agent/nft/ruleset"
)

// Node is what is known of a Node besides what was computed for it.
type Node struct {
	// Pods are those that have addresses of their own. If two have the same one it is that of the
	// later in the list.
	Pods []Pod `json:"pods,omitempty"`
	// Ranges are the addresses that are given to Pods of this Node, as far as that is known.
	// Packets of an address in them that belongs to no known Pod are dropped.
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
	id := ruleset.Sum(words...)
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
	for _, name := range []ruleset.SetName{ruleset.PodsIn4, ruleset.PodsIn6, ruleset.PodsOut4, ruleset.PodsOut6, ruleset.Self4, ruleset.Self6} {
		w.program.Dispatch[name] = ruleset.NewLayered[string, string](nil)
	}
	w.program.Chains[openChain] = &ruleset.Chain{Rules: []ruleset.Rule{{Action: ruleset.Accept, Origin: &ruleset.Origin{Kind: ruleset.OriginNative}}}}
	w.program.Chains[selfChain] = &ruleset.Chain{Rules: []ruleset.Rule{{Action: ruleset.Accept, Origin: &ruleset.Origin{Kind: ruleset.OriginItself}}}}
	made := map[string]*guarded{}
	waiting := &guarded{entries: [2][2]string{{closedChain, closedChain}, {closedChain, closedChain}}}
	for i := range n.Pods {
		pod := &n.Pods[i]
		if pod.Waiting {
			w.program.Chains[closedChain] = &ruleset.Chain{Rules: []ruleset.Rule{{Action: ruleset.Drop, Origin: &ruleset.Origin{Kind: ruleset.OriginUnknown}}}}
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
	for _, d := range []ruleset.Direction{ruleset.Ingress, ruleset.Egress} {
		entries, _ := w.lanes(c, d, parts)
		out.entries[d] = [2]string{openChain, openChain}
		copy(out.entries[d][:], entries)
	}
	return out
}

// point leads packets of a Pod to the chains of its class.
func (g *guarded) point(dispatch map[ruleset.SetName]*ruleset.Elements, pod *Pod) {
	for _, a := range pod.Addresses {
		names := [...]ruleset.SetName{ruleset.PodsIn4, ruleset.PodsOut4, ruleset.Self4}
		family := 0
		if a = a.Unmap(); a.Is6() {
			names, family = [...]ruleset.SetName{ruleset.PodsIn6, ruleset.PodsOut6, ruleset.Self6}, 1
		}
		for i, target := range []string{g.entries[ruleset.Ingress][family], g.entries[ruleset.Egress][family], selfChain} {
			dispatch[names[i]].Set(names[i].DispatchKey(a, a), target)
		}
	}
}

// bases makes the chains that packets of Pods enter.
func (w *work) bases(n *Node) {
	list := []ruleset.Base{ruleset.PodsToNode, ruleset.PodsOut, ruleset.PodsIn}
	if n.IPVS {
		list = append(list, ruleset.ServicesOut, ruleset.ServicesIn)
		// What comes from elsewhere is not the Node's, though it leaves as if it were.
		host := w.program.Chains[string(ruleset.FromHost)]
		host.Rules = slices.Insert(host.Rules, 2, ruleset.Rule{Matches: []ruleset.Match{{Kind: ruleset.MatchRouted}}, Action: ruleset.Accept})
	}
	for _, b := range list {
		in := b == ruleset.PodsIn || b == ruleset.ServicesIn
		c := &ruleset.Chain{Rules: []ruleset.Rule{
			{Matches: []ruleset.Match{{Kind: ruleset.MatchDead}}, Action: ruleset.Drop},
			{Matches: []ruleset.Match{{Kind: ruleset.MatchEstablished}}, Action: ruleset.Accept},
		}}
		d := ruleset.Egress
		if in {
			d = ruleset.Ingress
		}
		switch b {
		case ruleset.PodsToNode:
			c.Rules = append(c.Rules, ruleset.Rule{Matches: []ruleset.Match{{Kind: ruleset.MatchLoopback, Source: true}}, Action: ruleset.Accept})
		case ruleset.ServicesOut, ruleset.ServicesIn: // probes are the Node's own
			c.Rules = append(c.Rules, ruleset.Rule{Matches: []ruleset.Match{{Kind: ruleset.MatchProcess}}, Action: ruleset.Accept})
		}
		// IPv4 comes first, as a whole: new connections are mostly of it, and pass no rule of IPv6.
		for _, f := range []ruleset.Family{ruleset.IPv4, ruleset.IPv6} {
			family := ruleset.Match{Kind: ruleset.MatchFamily, Lo: uint16(f)}
			c.Rules = append(c.Rules, keepsLink(f, d, !w.igmp)...)
			lookups := []ruleset.SetName{ruleset.InFamily(ruleset.PodsOut4, ruleset.PodsOut6, f)}
			if in {
				lookups = []ruleset.SetName{ruleset.InFamily(ruleset.Self4, ruleset.Self6, f), ruleset.InFamily(ruleset.PodsIn4, ruleset.PodsIn6, f)}
			}
			for _, name := range lookups {
				c.Rules = append(c.Rules, ruleset.Rule{Matches: []ruleset.Match{family}, Action: ruleset.Lookup, Target: string(name)})
			}
			for _, r := range rangesOf(n.Ranges, f) {
				c.Rules = append(c.Rules, ruleset.Rule{Action: ruleset.Drop, Origin: &ruleset.Origin{Kind: ruleset.OriginUnknown},
					Matches: []ruleset.Match{family, {Kind: ruleset.MatchPeer, Peer: &r, Source: !in}}})
			}
		}
		w.program.Chains[string(b)] = c
	}
}
