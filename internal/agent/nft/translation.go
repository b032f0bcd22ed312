package nft

import (
	"net/netip"
	"slices"
	"strings"

	"go4.org/netipx"
)

// LinkPrefix begins the names of links that lead to Pods, where the agent makes the network.
const LinkPrefix = "nph"

// SealedLink is the name of the link by which what is between Nodes is encrypted.
const SealedLink = "nephele-wg"

// Network is what the rules do for the network of a Node besides policies.
type Network struct {
	// Own are the ranges of the Pods of the Node, sorted. What these send to others than Keep has
	// the address of the Node from there on.
	Own []netip.Prefix `json:"own,omitempty"`
	// Keep are those that see the address of a Pod: all Pods, and who was excepted. Sorted.
	Keep []netip.Prefix `json:"keep,omitempty"`
	// NoSNAT tells that everybody sees the address of a Pod.
	NoSNAT bool `json:"noSNAT,omitempty"`
	// Sealed are the ranges of Pods of other Nodes to and from which nothing goes but over
	// SealedLink, sorted.
	Sealed []netip.Prefix `json:"sealed,omitempty"`
	// Elsewhere tells that another plugin makes the network, and only Sealed is meant.
	Elsewhere bool `json:"elsewhere,omitempty"`
}

// Equal reports whether two are the same.
func (n *Network) Equal(o *Network) bool {
	return (n == nil) == (o == nil) && (n == nil || n.NoSNAT == o.NoSNAT && n.Elsewhere == o.Elsewhere &&
		slices.Equal(n.Own, o.Own) && slices.Equal(n.Keep, o.Keep) && slices.Equal(n.Sealed, o.Sealed))
}

// networkChains begins the names of chains that are there for the network.
const networkChains = "network-"

// network adds what the network needs to the program.
func (w *work) network(node *Node, services *Balanced) {
	n := node.Network
	if n == nil || n.Elsewhere {
		w.balanced = nil
		w.bind(node)
	} else {
		w.ownNetwork(n, node, services)
	}
	if n != nil {
		n.seal(w.program)
	}
}

// seal drops what is between Pods of this Node and of others and is not encrypted: what comes, and
// what goes by a way that somebody has made meanwhile.
func (n *Network) seal(p *Program) {
	drop := func(source bool, f Family) (rules []Rule) {
		for _, m := range n.peers(p, f, rangesOf(n.Sealed, f), source) {
			rules = append(rules, Rule{Matches: append(m, Match{Kind: MatchInClear, Source: source}), Action: Drop, Origin: &Origin{Kind: OriginNetwork, Name: "not encrypted"}})
		}
		return rules
	}
	if len(n.Sealed) == 0 {
		return
	}
	in := p.Chains[string(FromPods)]
	in.Rules = slices.Concat(in.Rules, drop(true, IPv4), drop(true, IPv6))
	p.Chains[string(InClear)] = &Chain{Rules: slices.Concat(drop(false, IPv4), drop(false, IPv6))}
}

// ownNetwork adds what a network needs that the agent makes.
func (w *work) ownNetwork(n *Network, node *Node, services *Balanced) {
	p := w.program
	p.Chains[string(FromPods)] = &Chain{Rules: []Rule{
		{Matches: []Match{{Kind: MatchPodLink}, {Kind: MatchNoWayBack}}, Action: Drop, Origin: &Origin{Kind: OriginSpoofed}},
	}}
	if services != nil {
		if b := w.balanced; b == nil || b.of != services || !slices.Equal(b.own, n.Own) {
			w.balanced = balance(services, n.Own, b)
		}
		n.services(p, node, w.balanced)
	}
	masquerade := Rule{Action: Masquerade, Origin: &Origin{Kind: OriginNetwork, Name: "what is sent to others leaves with the address of the Node"}}
	var rules []Rule
	for _, f := range []Family{IPv4, IPv6} {
		family := Match{Kind: MatchFamily, Lo: uint16(f)}
		pods := networkChains + "pods4"
		if f == IPv6 {
			pods = networkChains + "pods6"
		}
		own := rangesOf(n.Own, f)
		for _, m := range n.peers(p, f, own, true) {
			rules = append(rules, Rule{Matches: m, Action: Goto, Target: pods})
		}
		translated := []Match{family, {Kind: MatchTranslated}}
		if len(own) > 0 {
			c := &Chain{}
			if services != nil { // a Pod that reaches itself must not answer itself
				c.Rules = append(c.Rules, Rule{Matches: translated, Action: Lookup, Target: string(inFamily(hairpin4, hairpin6, f))})
			}
			if !n.NoSNAT {
				for _, m := range n.peers(p, f, rangesOf(n.Keep, f), false) {
					c.Rules = append(c.Rules, Rule{Matches: m, Action: Accept})
				}
				c.Rules = append(c.Rules, masquerade)
			}
			p.Chains[pods] = c
		}
		if services != nil { // answers must come back by this Node
			for _, name := range []SetName{inFamily(keeps4, keeps6, f), inFamily(keepPorts4, keepPorts6, f)} {
				rules = append(rules, Rule{Matches: translated, Action: Lookup, Target: string(name)})
			}
			out := masquerade
			out.Matches = translated
			rules = append(rules, out)
		}
	}
	p.Chains[string(ToOthers)] = &Chain{Rules: rules}
}

// bind drops what comes over the links of another plugin to Pods with an address that the Node
// would reach elsewhere: that of a Pod behind another link, of another Node, of a resolver. Who is
// on one bridge with others can take their addresses all the same.
func (w *work) bind(node *Node) {
	drop := func(link Match) Rule {
		return Rule{Matches: []Match{link, {Kind: MatchNoWayBack}}, Action: Drop, Origin: &Origin{Kind: OriginSpoofed}}
	}
	rules := []Rule{drop(Match{Kind: MatchFromPeer})}
	for _, name := range node.Bridges {
		rules = append(rules, drop(Match{Kind: MatchLink, Of: &PartKey{Set: SetName(name)}}))
	}
	w.program.Chains[string(FromPods)] = &Chain{Rules: rules}
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
			r := &c.Rules[i]
			if r.Action == Lookup {
				p.Dispatch[SetName(r.Target)] = of.Dispatch[SetName(r.Target)]
			}
			for _, m := range r.Matches {
				if m.Kind == MatchPeerIn {
					p.Ranges[m.Of.Set] = of.Ranges[m.Of.Set]
				}
			}
		}
	}
	for _, name := range ofServices() {
		if d, there := of.Dispatch[name]; there {
			p.Dispatch[name] = d
		}
	}
	p.led = of.led
}

// Released is a program by which everything passes, with what another one has for the network.
func Released(of *Program) *Program {
	out := LetPass()
	out.Ranges, out.Dispatch, out.Leaves = map[SetName][]Range{}, map[SetName]map[string]string{}, of.Leaves
	out.withNetwork(of)
	return out
}
