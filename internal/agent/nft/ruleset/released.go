package ruleset

import "strings"

// withNetwork adds to a program what another one has for the network: that goes on where no
// policies are enforced.
func (p *Program) withNetwork(of *Program) {
	for name, c := range of.Chains {
		if !strings.HasPrefix(name, NetworkChains) {
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
	for _, name := range OfServices() {
		if d, there := of.Dispatch[name]; there {
			p.Dispatch[name] = d
		}
	}
	p.Lineage = of.Lineage
}

// Released is a program by which everything passes, with what another one has for the network.
func Released(of *Program) *Program {
	out := LetPass()
	out.Ranges, out.Dispatch, out.Leaves = map[SetName][]Range{}, map[SetName]*Elements{}, of.Leaves
	out.withNetwork(of)
	return out
}
