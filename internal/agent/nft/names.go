package nft

import (
	"slices"

	"github.com/nephele-io/nephele/internal/agent/nft/ruleset"
)

// dnsPort is where resolvers answer.
const dnsPort = 53

// asking is what the ID stands for of the addresses of Pods that rules with domain names apply to.
const asking = "asking"

// hearResolvers lets the agent see the answers of resolvers before the clients that asked: the
// host, or the Pods of a Node that have rules with names. These get their answers from Pods and
// others, or from a resolver on the Node.
func (w *work) hearResolvers(n *Node) {
	if n == nil || w.named[""] {
		w.hear(ruleset.ToHost, false)
		w.hearQuestions(ruleset.AskedByHost, false)
	}
	if n == nil {
		return
	}
	keys := map[ruleset.SetName][]string{}
	for i := range n.Pods {
		if !w.named[w.podClass[i]] {
			continue
		}
		for _, a := range n.Pods[i].Addresses {
			set := ruleset.Members4
			if a = a.Unmap(); a.Is6() {
				set = ruleset.Members6
			}
			keys[set] = append(keys[set], string(a.AsSlice()))
		}
	}
	for set, list := range keys {
		w.parts.Put(ruleset.PartKey{Set: set, ID: ruleset.IDOf(asking)}, &ruleset.Part{Of: asking, Keys: ruleset.KeysOf(list)})
	}
	if len(keys) > 0 {
		w.hear(ruleset.FromHost, true)
		w.hear(ruleset.PodsIn, true)
		w.hearQuestions(ruleset.AskedHere, true)
		w.hearQuestions(ruleset.AskedByPods, true)
		if n.IPVS && !w.named[""] { // what it leads on leaves as if it were the Node's
			w.hearQuestions(ruleset.AskedByHost, true)
		}
	}
}

// hearQuestions lets the agent see what resolvers are asked by UDP, of what has passed all other
// rules: an answer without its question is not believed. By TCP nobody answers in the place of
// another.
func (w *work) hearQuestions(at ruleset.Base, ofPods bool) {
	c := &ruleset.Chain{}
	for _, a := range w.names.Resolvers {
		family, set := ruleset.IPv4, ruleset.Members4
		if a.Is6() {
			family, set = ruleset.IPv6, ruleset.Members6
		}
		m := []ruleset.Match{{Kind: ruleset.MatchFamily, Lo: uint16(family)}, {Kind: ruleset.MatchProtocol, Lo: uint16(ruleset.UDP)},
			{Kind: ruleset.MatchPort, Lo: dnsPort, Hi: dnsPort}, {Kind: ruleset.MatchPeer, Peer: &ruleset.Range{From: a, To: a}}}
		if ofPods {
			m = append(m, ruleset.Match{Kind: ruleset.MatchMember, Of: &ruleset.PartKey{Set: set, ID: ruleset.IDOf(asking)}, Source: true})
		}
		c.Rules = append(c.Rules, ruleset.Rule{Action: ruleset.Queue, Origin: &ruleset.Origin{Kind: ruleset.OriginNames}, Matches: m})
	}
	w.program.Chains[string(at)] = c
}

// hear queues the answers of resolvers that enter a chain, all or those to Pods that ask.
func (w *work) hear(at ruleset.Base, toPods bool) {
	var rules []ruleset.Rule
	for _, a := range w.names.Resolvers {
		family, set := ruleset.IPv4, ruleset.Members4
		if a.Is6() {
			family, set = ruleset.IPv6, ruleset.Members6
		}
		for _, protocol := range []uint8{ruleset.UDP, ruleset.TCP} {
			m := []ruleset.Match{{Kind: ruleset.MatchEstablished}, {Kind: ruleset.MatchFamily, Lo: uint16(family)}, {Kind: ruleset.MatchProtocol, Lo: uint16(protocol)},
				{Kind: ruleset.MatchSourcePort, Lo: dnsPort, Hi: dnsPort}, {Kind: ruleset.MatchPeer, Peer: &ruleset.Range{From: a, To: a}, Source: true}}
			if toPods {
				m = append(m, ruleset.Match{Kind: ruleset.MatchMember, Of: &ruleset.PartKey{Set: set, ID: ruleset.IDOf(asking)}})
			}
			rules = append(rules, ruleset.Rule{Action: ruleset.Queue, Origin: &ruleset.Origin{Kind: ruleset.OriginNames}, Matches: m})
		}
	}
	base := w.program.Chains[string(at)]
	base.Rules = slices.Insert(base.Rules, 1, rules...) // behind that for connections that were given up
}
