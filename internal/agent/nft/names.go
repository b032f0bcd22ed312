package nft

import "slices"

// dnsPort is where resolvers answer.
const dnsPort = 53

// asking is what the ID stands for of the addresses of Pods that rules with domain names apply to.
const asking = "asking"

// hearResolvers lets the agent see the answers of resolvers before whoever has asked: the host, or
// the Pods of a Node that have rules with names. These get their answers from Pods and others, or
// from a resolver on the Node.
func (w *work) hearResolvers(n *Node) {
	if n == nil || w.named[""] {
		w.hear(ToHost, false)
		w.hearQuestions(AskedByHost, false)
	}
	if n == nil {
		return
	}
	keys := map[SetName][]string{}
	for i := range n.Pods {
		if !w.named[w.podClass[i]] {
			continue
		}
		for _, a := range n.Pods[i].Addresses {
			set := Members4
			if a = a.Unmap(); a.Is6() {
				set = Members6
			}
			keys[set] = append(keys[set], string(a.AsSlice()))
		}
	}
	for set, list := range keys {
		w.parts.put(PartKey{set, idOf(asking)}, &Part{asking, KeysOf(list)})
	}
	if len(keys) > 0 {
		w.hear(FromHost, true)
		w.hear(PodsIn, true)
		w.hearQuestions(AskedHere, true)
		w.hearQuestions(AskedByPods, true)
		if n.IPVS && !w.named[""] { // what it leads on leaves as if it were the Node's
			w.hearQuestions(AskedByHost, true)
		}
	}
}

// hearQuestions lets the agent see what resolvers are asked by UDP, of what has passed all other
// rules: an answer without its question is not believed. By TCP nobody answers in the place of
// another.
func (w *work) hearQuestions(at Base, ofPods bool) {
	c := &Chain{}
	for _, a := range w.names.Resolvers {
		family, set := IPv4, Members4
		if a.Is6() {
			family, set = IPv6, Members6
		}
		m := []Match{{Kind: MatchFamily, Lo: uint16(family)}, {Kind: MatchProtocol, Lo: uint16(UDP)},
			{Kind: MatchPort, Lo: dnsPort, Hi: dnsPort}, {Kind: MatchPeer, Peer: &Range{a, a}}}
		if ofPods {
			m = append(m, Match{Kind: MatchMember, Of: &PartKey{set, idOf(asking)}, Source: true})
		}
		c.Rules = append(c.Rules, Rule{Action: Queue, Origin: &Origin{Kind: OriginNames}, Matches: m})
	}
	w.program.Chains[string(at)] = c
}

// hear queues the answers of resolvers that enter a chain, all or those to Pods that ask.
func (w *work) hear(at Base, toPods bool) {
	var rules []Rule
	for _, a := range w.names.Resolvers {
		family, set := IPv4, Members4
		if a.Is6() {
			family, set = IPv6, Members6
		}
		for _, protocol := range []uint8{UDP, TCP} {
			m := []Match{{Kind: MatchEstablished}, {Kind: MatchFamily, Lo: uint16(family)}, {Kind: MatchProtocol, Lo: uint16(protocol)},
				{Kind: MatchSourcePort, Lo: dnsPort, Hi: dnsPort}, {Kind: MatchPeer, Peer: &Range{a, a}, Source: true}}
			if toPods {
				m = append(m, Match{Kind: MatchMember, Of: &PartKey{set, idOf(asking)}})
			}
			rules = append(rules, Rule{Action: Queue, Origin: &Origin{Kind: OriginNames}, Matches: m})
		}
	}
	base := w.program.Chains[string(at)]
	base.Rules = slices.Insert(base.Rules, 1, rules...) // behind that for connections that were given up
}
