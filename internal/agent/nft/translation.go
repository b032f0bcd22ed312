package nft

import (
	"maps"
	"net/netip"
	"slices"
	"strings"

	"go4.org/netipx"
)

// LinkPrefix begins the names of links that lead to Pods, where the agent makes the network.
const LinkPrefix = "nph"

// Network is what the rules do for the network of a Node besides policies.
type Network struct {
	// Own are the ranges of the Pods of the Node, sorted. What these send to others than Keep has
	// the address of the Node from there on.
	Own []netip.Prefix `json:"own,omitempty"`
	// Keep are those that see the address of a Pod: all Pods, and who was excepted. Sorted.
	Keep []netip.Prefix `json:"keep,omitempty"`
}

// Equal reports whether two are the same.
func (n *Network) Equal(o *Network) bool {
	return (n == nil) == (o == nil) && (n == nil || slices.Equal(n.Own, o.Own) && slices.Equal(n.Keep, o.Keep))
}

// networkChains begins the names of chains that are there for the network.
const networkChains = "network-"

// chains adds what the network needs to a program.
func (n *Network) chains(p *Program) {
	if n == nil {
		return
	}
	p.Chains[string(FromPods)] = &Chain{Rules: []Rule{
		{Matches: []Match{{Kind: MatchPodLink}, {Kind: MatchNoWayBack}}, Action: Drop, Origin: &Origin{Kind: OriginSpoofed}},
	}}
	var rules []Rule
	for _, f := range []Family{IPv4, IPv6} {
		own, keep := rangesOf(n.Own, f), rangesOf(n.Keep, f)
		if len(own) == 0 {
			continue
		}
		for _, m := range n.peers(p, f, keep, false) {
			rules = append(rules, Rule{Matches: m, Action: Accept})
		}
		for _, m := range n.peers(p, f, own, true) {
			rules = append(rules, Rule{Matches: m, Action: Masquerade, Origin: &Origin{Kind: OriginNetwork, Name: "what Pods send to others leaves with the address of the Node"}})
		}
	}
	p.Chains[string(ToOthers)] = &Chain{Rules: rules}
}

// peers are matches for ranges: one each for a few, or one for a set of them.
func (n *Network) peers(p *Program, f Family, ranges []Range, source bool) [][]Match {
	family := Match{Kind: MatchFamily, Lo: uint16(f)}
	if len(ranges) == 0 {
		return nil
	}
	if len(ranges) > maxRanges {
		name := rangeSet(f, ranges)
		p.Ranges[name] = ranges
		return [][]Match{{family, {Kind: MatchPeerIn, Of: &PartKey{Set: name}, Source: source}}}
	}
	var out [][]Match
	for i := range ranges {
		out = append(out, []Match{family, {Kind: MatchPeer, Peer: &ranges[i], Source: source}})
	}
	return out
}

// rangesOf are ranges of a family that do not touch, sorted.
func rangesOf(list []netip.Prefix, f Family) []Range {
	var b netipx.IPSetBuilder
	for _, p := range list {
		if p.Addr().Is4() == (f == IPv4) {
			b.AddPrefix(p)
		}
	}
	set, err := b.IPSet()
	if err != nil { // of prefixes that are valid, never
		return nil
	}
	var out []Range
	for _, r := range set.Ranges() {
		out = append(out, Range{r.From(), r.To()})
	}
	return out
}

// withNetwork adds to a program what another one has for the network: that goes on where no
// policies are enforced.
func (p *Program) withNetwork(of *Program) {
	for name, c := range of.Chains {
		if !strings.HasPrefix(name, networkChains) {
			continue
		}
		p.Chains[name] = c
		for i := range c.Rules {
			for _, m := range c.Rules[i].Matches {
				if m.Kind == MatchPeerIn {
					if p.Ranges == nil {
						p.Ranges = map[SetName][]Range{}
					}
					p.Ranges[m.Of.Set] = of.Ranges[m.Of.Set]
				}
			}
		}
	}
}

// Released is a program by which everything passes, with what another one has for the network.
func Released(of *Program) *Program {
	out := LetPass()
	out.Chains = maps.Clone(out.Chains)
	out.withNetwork(of)
	return out
}
