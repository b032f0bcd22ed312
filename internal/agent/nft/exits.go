package nft

import (
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/nephele-io/nephele/internal/agent/nft/ruleset"
)

// Exit is how what a Pod sends to others than the cluster leaves.
type Exit struct {
	Pod netip.Addr `json:"pod"`
	// From is the address of this Node that it leaves with. If that is not valid it leaves by
	// another Node, the number of which is By; 0 for none, and then it is dropped.
	From netip.Addr `json:"from,omitzero"`
	By   uint8      `json:"by,omitempty"`
}

// exitChains begins the names of the chains that dispatches of exits lead to.
const exitChains = ruleset.NetworkChains + "exit-"

// localRanges are what no packet leaves the cluster for: links, and groups of receivers.
func localRanges() []netip.Prefix {
	return []netip.Prefix{
		netip.MustParsePrefix("169.254.0.0/16"), netip.MustParsePrefix("224.0.0.0/4"), netip.MustParsePrefix("255.255.255.255/32"),
		netip.MustParsePrefix("fe80::/10"), netip.MustParsePrefix("ff00::/8"),
	}
}

// exits marks what Pods send to others than the cluster with the number of its exit, and returns
// the rules, before all others about sources, that give it its address. A connection that was made
// with another address goes no further: nothing leaves from a wrong one.
func (n *Network) exits(p *ruleset.Program) (sources []ruleset.Rule) {
	if len(n.Exits) == 0 {
		return nil
	}
	var rules []ruleset.Rule
	origin := func(name string) *ruleset.Origin { return &ruleset.Origin{Kind: ruleset.OriginNetwork, Name: name} }
	other := origin("the connection was made before an Egress applied")
	near := slices.Concat(n.Keep, n.Near, localRanges())
	for _, f := range []ruleset.Family{ruleset.IPv4, ruleset.IPv6} {
		family := ruleset.Match{Kind: ruleset.MatchFamily, Lo: uint16(f)}
		name, as := ruleset.InFamily(ruleset.Exits4, ruleset.Exits6, f), ruleset.InFamily(ruleset.ExitsAs4, ruleset.ExitsAs6, f)
		dispatch, sourced := map[string]string{}, map[string]string{}
		var stays []ruleset.Rule
		for _, m := range n.peers(p, f, rangesOf(near, f), false) {
			stays = append(stays, ruleset.Rule{Matches: m, Action: ruleset.Accept})
		}
		stays = append(stays, ruleset.Rule{Matches: []ruleset.Match{{Kind: ruleset.MatchToNode}}, Action: ruleset.Accept})
		for _, e := range n.Exits {
			if e.Pod.Is4() != (f == ruleset.IPv4) {
				continue
			}
			key := name.DispatchKey(e.Pod, e.Pod)
			chain, end := exitChains+"none"+strconv.Itoa(int(f)), []ruleset.Rule{{Action: ruleset.Drop, Origin: origin("no address of the Egress is in use")}}
			switch {
			case e.From.IsValid():
				text := strings.ReplaceAll(e.From.StringExpanded(), ":", "-")
				chain = exitChains + text
				source := exitChains + "as-" + text
				sourced[key] = source
				p.Chains[source] = &ruleset.Chain{Rules: []ruleset.Rule{{Action: ruleset.SourceNAT, Target: e.From.String(), Origin: origin("what an Egress applies to leaves with its address")}}}
				end = []ruleset.Rule{
					{Matches: []ruleset.Match{{Kind: ruleset.MatchEstablished}, {Kind: ruleset.MatchAnsweredElsewhere, Peer: &ruleset.Range{From: e.From, To: e.From}}},
						Action: ruleset.Drop, Origin: other},
					{Action: ruleset.SetExit, Target: strconv.Itoa(ruleset.LeavesHere)},
				}
			case e.By != 0:
				chain = exitChains + "by" + strconv.Itoa(int(e.By)) + "-" + strconv.Itoa(int(f))
				end = []ruleset.Rule{{Matches: []ruleset.Match{{Kind: ruleset.MatchSourceTranslated}}, Action: ruleset.Drop, Origin: other},
					{Action: ruleset.SetExit, Target: strconv.Itoa(int(e.By))}}
			}
			dispatch[key] = chain
			if p.Chains[chain] == nil {
				p.Chains[chain] = &ruleset.Chain{Rules: slices.Concat(stays, end)}
			}
		}
		if len(dispatch) == 0 {
			continue
		}
		p.Dispatch[name], p.Dispatch[as] = ruleset.NewLayered(dispatch), ruleset.NewLayered(sourced)
		rules = append(rules, ruleset.Rule{Matches: []ruleset.Match{family, {Kind: ruleset.MatchAsked}}, Action: ruleset.Lookup, Target: string(name)})
		sources = append(sources, ruleset.Rule{Matches: []ruleset.Match{family, {Kind: ruleset.MatchExit, Lo: ruleset.LeavesHere}}, Action: ruleset.Lookup, Target: string(as)})
	}
	if n.Returns {
		rules = append(rules, n.returns(p)...)
	}
	p.Chains[string(ruleset.ToExits)] = &ruleset.Chain{Rules: rules}
	return append(sources, ruleset.Rule{Matches: []ruleset.Match{{Kind: ruleset.MatchExit}}, Action: ruleset.Accept})
}

// returns marks the answers to Pods of other Nodes that leave by this one.
func (n *Network) returns(p *ruleset.Program) (rules []ruleset.Rule) {
	pods := map[netip.Addr][]netip.Prefix{}
	for _, e := range n.Exits {
		if e.From.IsValid() && !slices.ContainsFunc(n.Own, func(own netip.Prefix) bool { return own.Contains(e.Pod) }) {
			pods[e.From] = append(pods[e.From], netip.PrefixFrom(e.Pod, e.Pod.BitLen()))
		}
	}
	for _, from := range slices.SortedFunc(maps.Keys(pods), netip.Addr.Compare) {
		f := ruleset.IPv4
		if from.Is6() {
			f = ruleset.IPv6
		}
		answered := ruleset.Match{Kind: ruleset.MatchAnsweredAt, Peer: &ruleset.Range{From: from, To: from}}
		for _, m := range n.peers(p, f, rangesOf(pods[from], f), false) {
			rules = append(rules, ruleset.Rule{Matches: append(m, answered), Action: ruleset.SetExit, Target: strconv.Itoa(ruleset.LeavesHere)})
		}
	}
	return rules
}
