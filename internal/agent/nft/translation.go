package nft

import (
	"cmp"
	"net/netip"
	"slices"

	"go4.org/netipx"

	"github.com/nephele-io/nephele/internal/agent/nft/ruleset"
)

// Network is what the rules do for the network of a Node besides policies.
type Network struct {
	// Own are the ranges of the Pods of the Node, sorted. What these send to others than Keep has
	// the address of the Node from there on.
	Own []netip.Prefix `json:"own,omitempty"`
	// Keep are the destinations that see the address of a Pod: all Pods, and the excepted ranges.
	// Sorted.
	Keep []netip.Prefix `json:"keep,omitempty"`
	// NoSNAT tells that everybody sees the address of a Pod.
	NoSNAT bool `json:"noSNAT,omitempty"`
	// Sealed are the ranges of Pods of other Nodes to and from which nothing goes but over the link
	// SealedLink, sorted.
	Sealed []netip.Prefix `json:"sealed,omitempty"`
	// SealedLink is that by which what is between Nodes is encrypted; empty for that of WireGuard.
	SealedLink string `json:"sealedLink,omitempty"`
	// Exits are how Pods leave that an Egress applies to, here and elsewhere, sorted; Near are the
	// addresses of the cluster besides Keep, sorted.
	Exits []Exit         `json:"exits,omitempty"`
	Near  []netip.Prefix `json:"near,omitempty"`
	// Returns tells that answers to Pods of other Nodes that leave by this one have the mark
	// LeavesHere, by which they go back wrapped.
	Returns bool `json:"returns,omitempty"`
	// Port is the UDP port of what Nodes wrap; 0 for nothing. Ends are the addresses of Nodes to
	// which it is sent, sorted: Pods send nothing there, or they could forge packets of others.
	Port uint16         `json:"port,omitempty"`
	Ends []netip.Prefix `json:"ends,omitempty"`
	// Wraps tells that there is a device that wraps.
	Wraps bool `json:"wraps,omitempty"`
	// Elsewhere tells that another plugin makes the network, and only Sealed is meant.
	Elsewhere bool `json:"elsewhere,omitempty"`
}

// Equal reports whether two are the same.
func (n *Network) Equal(o *Network) bool {
	return (n == nil) == (o == nil) && (n == nil || n.NoSNAT == o.NoSNAT && n.Elsewhere == o.Elsewhere && n.Returns == o.Returns && n.Port == o.Port && n.Wraps == o.Wraps &&
		slices.Equal(n.Own, o.Own) && slices.Equal(n.Keep, o.Keep) && slices.Equal(n.Sealed, o.Sealed) && n.SealedLink == o.SealedLink &&
		slices.Equal(n.Exits, o.Exits) && slices.Equal(n.Near, o.Near) && slices.Equal(n.Ends, o.Ends))
}

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
func (n *Network) seal(p *ruleset.Program) {
	drop := func(source bool, f ruleset.Family) (rules []ruleset.Rule) {
		for _, m := range n.peers(p, f, rangesOf(n.Sealed, f), source) {
			rules = append(rules, ruleset.Rule{Matches: append(m, n.inClear(source)), Action: ruleset.Drop,
				Origin: &ruleset.Origin{Kind: ruleset.OriginNetwork, Name: "not encrypted"}})
		}
		return rules
	}
	if len(n.Sealed) == 0 {
		return
	}
	in, out := p.Chains[string(ruleset.FromPods)], []ruleset.Rule(nil)
	if n.Port != 0 {
		guard, wrapped := n.wrapped()
		in.Rules, out = append(in.Rules, guard...), append(out, wrapped)
	}
	in.Rules = slices.Concat(in.Rules, drop(true, ruleset.IPv4), drop(true, ruleset.IPv6))
	p.Chains[string(ruleset.InClear)] = &ruleset.Chain{Rules: slices.Concat(out, drop(false, ruleset.IPv4), drop(false, ruleset.IPv6))}
}

// inClear is that a packet goes by another link than the one that encrypts, or comes by one.
func (n *Network) inClear(source bool) ruleset.Match {
	return ruleset.Match{Kind: ruleset.MatchInClear, Source: source, Of: &ruleset.PartKey{Set: n.sealedLink()}}
}

// sealedLink is the name of the link that encrypts.
func (n *Network) sealedLink() ruleset.SetName {
	return ruleset.SetName(cmp.Or(n.SealedLink, ruleset.SealedLink))
}

// wrapped are the rules about what is wrapped inside of the link that encrypts: what comes to the
// port by another way is dropped, so that what was wrapped did come encrypted; and answers may
// leave so.
func (n *Network) wrapped() (in []ruleset.Rule, out ruleset.Rule) {
	link := &ruleset.PartKey{Set: ruleset.WrappedLink}
	for _, f := range []ruleset.Family{ruleset.IPv4, ruleset.IPv6} {
		in = append(in, ruleset.Rule{Action: ruleset.Drop, Origin: &ruleset.Origin{Kind: ruleset.OriginNetwork, Name: "wrapped, and not encrypted"}, Matches: []ruleset.Match{
			{Kind: ruleset.MatchFamily, Lo: uint16(f)}, {Kind: ruleset.MatchProtocol, Lo: uint16(ruleset.UDP)}, {Kind: ruleset.MatchPort, Lo: n.Port, Hi: n.Port},
			{Kind: ruleset.MatchToNode}, n.inClear(true),
		}})
	}
	in = append(in, ruleset.Rule{Matches: []ruleset.Match{{Kind: ruleset.MatchLink, Of: link}}, Action: ruleset.Accept})
	return in, ruleset.Rule{Matches: []ruleset.Match{{Kind: ruleset.MatchToLink, Of: link}, {Kind: ruleset.MatchExit, Lo: ruleset.LeavesHere}}, Action: ruleset.Accept}
}

// guardEnds drops what Pods send to Nodes as if it were wrapped by one, before all that is asked
// about exits.
func (n *Network) guardEnds(p *ruleset.Program) {
	sent := []ruleset.Match{{Kind: ruleset.MatchPodLink}, {Kind: ruleset.MatchProtocol, Lo: uint16(ruleset.UDP)}, {Kind: ruleset.MatchPort, Lo: n.Port, Hi: n.Port}}
	var rules []ruleset.Rule
	for _, f := range []ruleset.Family{ruleset.IPv4, ruleset.IPv6} {
		for _, m := range n.peers(p, f, rangesOf(n.Ends, f), false) {
			rules = append(rules, ruleset.Rule{Matches: append(slices.Clip(sent), m...), Action: ruleset.Drop, Origin: &ruleset.Origin{Kind: ruleset.OriginSpoofed}})
		}
	}
	if len(rules) == 0 || n.Port == 0 {
		return
	}
	if c := p.Chains[string(ruleset.ToExits)]; c != nil {
		rules = append(rules, c.Rules...)
	}
	p.Chains[string(ruleset.ToExits)] = &ruleset.Chain{Rules: rules}
}

// ownNetwork adds what a network needs that the agent makes.
func (w *work) ownNetwork(n *Network, node *Node, services *Balanced) {
	p := w.program
	p.Chains[string(ruleset.FromPods)] = &ruleset.Chain{Rules: []ruleset.Rule{
		{Matches: []ruleset.Match{{Kind: ruleset.MatchPodLink}, {Kind: ruleset.MatchNoWayBack}}, Action: ruleset.Drop, Origin: &ruleset.Origin{Kind: ruleset.OriginSpoofed}},
	}}
	if services != nil {
		// Conntrack does not translate a segment outside of the window of its connection. With the
		// address of the backend as its source the client would reset the connection.
		out := p.Chains[string(ruleset.PodsOut)]
		out.Rules = slices.Insert(out.Rules, 2, ruleset.Rule{Matches: []ruleset.Match{{Kind: ruleset.MatchInvalid}}, Action: ruleset.Drop,
			Origin: &ruleset.Origin{Kind: ruleset.OriginNetwork, Name: "part of no connection"}})
		if b := w.balanced; b == nil || b.of != services || !slices.Equal(b.own, n.Own) {
			w.balanced = balance(services, n.Own, b)
		}
		n.services(p, node, w.balanced)
	}
	masquerade := ruleset.Rule{Action: ruleset.Masquerade, Origin: &ruleset.Origin{Kind: ruleset.OriginNetwork, Name: "what is sent to others leaves with the address of the Node"}}
	rules := n.exits(p)
	n.guardEnds(p)
	n.segments(p)
	n.untracked(p)
	for _, f := range []ruleset.Family{ruleset.IPv4, ruleset.IPv6} {
		family := ruleset.Match{Kind: ruleset.MatchFamily, Lo: uint16(f)}
		pods := ruleset.NetworkChains + "pods4"
		if f == ruleset.IPv6 {
			pods = ruleset.NetworkChains + "pods6"
		}
		own := rangesOf(n.Own, f)
		for _, m := range n.peers(p, f, own, true) {
			rules = append(rules, ruleset.Rule{Matches: m, Action: ruleset.Goto, Target: pods})
		}
		translated := []ruleset.Match{family, {Kind: ruleset.MatchTranslated}}
		if len(own) > 0 {
			c := &ruleset.Chain{}
			if services != nil { // a Pod that reaches itself must not answer itself
				c.Rules = append(c.Rules, ruleset.Rule{Matches: translated, Action: ruleset.Lookup, Target: string(ruleset.InFamily(ruleset.Hairpin4, ruleset.Hairpin6, f))})
			}
			if !n.NoSNAT {
				for _, m := range n.peers(p, f, rangesOf(n.Keep, f), false) {
					c.Rules = append(c.Rules, ruleset.Rule{Matches: m, Action: ruleset.Accept})
				}
				c.Rules = append(c.Rules, masquerade)
			}
			p.Chains[pods] = c
		}
		if services != nil { // answers must come back by this Node
			for _, name := range []ruleset.SetName{ruleset.InFamily(ruleset.Keeps4, ruleset.Keeps6, f), ruleset.InFamily(ruleset.KeepPorts4, ruleset.KeepPorts6, f)} {
				rules = append(rules, ruleset.Rule{Matches: translated, Action: ruleset.Lookup, Target: string(name)})
			}
			out := masquerade
			out.Matches = translated
			rules = append(rules, out)
		}
	}
	p.Chains[string(ruleset.ToOthers)] = &ruleset.Chain{Rules: rules}
}

// segments clamp the MSS of TCP connections over the links between Nodes to what fits there. A
// client outside the cluster may reach a Pod through another Node, or answer a Pod that left
// through one, and never receive the ICMP message that a packet was too big. A Pod also keeps the
// MTU that it was created with.
func (n *Network) segments(p *ruleset.Program) {
	var links []ruleset.SetName
	if n.Wraps {
		links = append(links, ruleset.WrappedLink)
	}
	if len(n.Sealed) > 0 {
		links = append(links, n.sealedLink())
	}
	var rules []ruleset.Rule
	for _, kind := range []ruleset.MatchKind{ruleset.MatchLink, ruleset.MatchToLink} {
		for _, link := range links {
			rules = append(rules, ruleset.Rule{Action: ruleset.ClampSegments, Origin: &ruleset.Origin{Kind: ruleset.OriginNetwork, Name: "what fits between Nodes"},
				Matches: []ruleset.Match{{Kind: kind, Of: &ruleset.PartKey{Set: link}}, {Kind: ruleset.MatchProtocol, Lo: uint16(ruleset.TCP)}}})
		}
	}
	if len(rules) > 0 {
		p.Chains[string(ruleset.Segments)] = &ruleset.Chain{Rules: rules}
	}
}

// untracked keeps conntrack from following packets that are wrapped. Every connection between Pods
// has a source port of its own outside, so it would take another entry on both Nodes, which is made
// anew when the connection rests. Nothing answers such a packet, so no rule misses the entry; what
// is inside is followed as ever. Over IPv6 they are followed: routers do not split packets there,
// and policies admit the message that one was too big by its entry.
func (n *Network) untracked(p *ruleset.Program) {
	if !n.Wraps {
		return
	}
	wrapped := []ruleset.Match{
		{Kind: ruleset.MatchFamily, Lo: uint16(ruleset.IPv4)}, {Kind: ruleset.MatchProtocol, Lo: uint16(ruleset.UDP)}, {Kind: ruleset.MatchPort, Lo: n.Port, Hi: n.Port},
	}
	rule := ruleset.Rule{Action: ruleset.NoTrack, Matches: wrapped, Origin: &ruleset.Origin{Kind: ruleset.OriginNetwork, Name: "what Nodes wrap is not tracked"}}
	p.Chains[string(ruleset.FromNode)] = &ruleset.Chain{Rules: []ruleset.Rule{rule}}
	// A Pod that sends to this port of somebody else gets its answers by conntrack.
	rule.Matches = append(slices.Clip(wrapped), ruleset.Match{Kind: ruleset.MatchToNode})
	in := p.Chains[string(ruleset.FromPods)]
	in.Rules = append(in.Rules, rule)
}

// bind drops what comes over the links of another plugin to Pods with an address that the Node
// would reach elsewhere: that of a Pod behind another link, of another Node, of a resolver. Pods on
// the same bridge can still take one another's addresses.
func (w *work) bind(node *Node) {
	drop := func(link ruleset.Match) ruleset.Rule {
		return ruleset.Rule{Matches: []ruleset.Match{link, {Kind: ruleset.MatchNoWayBack}}, Action: ruleset.Drop, Origin: &ruleset.Origin{Kind: ruleset.OriginSpoofed}}
	}
	rules := []ruleset.Rule{drop(ruleset.Match{Kind: ruleset.MatchFromPeer})}
	for _, name := range node.Bridges {
		rules = append(rules, drop(ruleset.Match{Kind: ruleset.MatchLink, Of: &ruleset.PartKey{Set: ruleset.SetName(name)}}))
	}
	w.program.Chains[string(ruleset.FromPods)] = &ruleset.Chain{Rules: rules}
}

// peers are matches for ranges: one each for a few, or one for a set of them.
func (n *Network) peers(p *ruleset.Program, f ruleset.Family, ranges []ruleset.Range, source bool) [][]ruleset.Match {
	family := ruleset.Match{Kind: ruleset.MatchFamily, Lo: uint16(f)}
	if len(ranges) == 0 {
		return nil
	}
	if len(ranges) > maxRanges {
		name := rangeSet(f, ranges)
		p.Ranges[name] = ranges
		return [][]ruleset.Match{{family, {Kind: ruleset.MatchPeerIn, Of: &ruleset.PartKey{Set: name}, Source: source}}}
	}
	var out [][]ruleset.Match
	for i := range ranges {
		out = append(out, []ruleset.Match{family, {Kind: ruleset.MatchPeer, Peer: &ranges[i], Source: source}})
	}
	return out
}

// rangesOf are ranges of a family that do not touch, sorted.
func rangesOf(list []netip.Prefix, f ruleset.Family) []ruleset.Range {
	var b netipx.IPSetBuilder
	for _, p := range list {
		if p.Addr().Is4() == (f == ruleset.IPv4) {
			b.AddPrefix(p)
		}
	}
	set, err := b.IPSet()
	if err != nil { // of prefixes that are valid, never
		return nil
	}
	var out []ruleset.Range
	for _, r := range set.Ranges() {
		out = append(out, ruleset.Range{From: r.From(), To: r.To()})
	}
	return out
}
