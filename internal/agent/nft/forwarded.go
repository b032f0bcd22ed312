package nft

import (
	"fmt"
	"slices"
	"strings"

	"github.com/nephele-io/nephele/internal/agent/nft/ruleset"
)

// forwardedSuffix is in the names of chains that judge by the port that was asked, before the
// destination was translated.
const forwardedSuffix = ".asked"

// forwarded makes the chains for what only passes through the host. What comes to a published port
// is judged as what comes to the host, by the port that was asked; what comes from a bridge of the
// host, where its containers and machines are, as what the host sends.
func (w *work) forwarded() {
	begin := []ruleset.Rule{{Matches: []ruleset.Match{{Kind: ruleset.MatchDead}}, Action: ruleset.Drop},
		{Matches: []ruleset.Match{{Kind: ruleset.MatchEstablished}}, Action: ruleset.Accept}}
	out := &ruleset.Chain{Rules: append(slices.Clone(begin), ruleset.Rule{Matches: []ruleset.Match{{Kind: ruleset.MatchToBridge}}, Action: ruleset.Accept})}
	in := &ruleset.Chain{Rules: slices.Clone(begin)}
	for _, f := range w.failsafe {
		rules := f.rules()
		if f.Direction == ruleset.Egress {
			out.Rules = append(out.Rules, rules...)
			continue
		}
		for i := range rules {
			rules[i].Matches = asked(rules[i].Matches)
		}
		in.Rules = append(in.Rules, rules...)
	}
	copies := map[*ruleset.Chain]*ruleset.Chain{}
	for _, f := range []ruleset.Family{ruleset.IPv4, ruleset.IPv6} {
		family := ruleset.Match{Kind: ruleset.MatchFamily, Lo: uint16(f)}
		if name := fmt.Sprintf("out%d", f); w.program.Chains[name] != nil {
			out.Rules = append(out.Rules, ruleset.Rule{Matches: []ruleset.Match{{Kind: ruleset.MatchFromBridge}, family}, Action: ruleset.Goto, Target: name})
		}
		if name := fmt.Sprintf("in%d", f); w.program.Chains[name] != nil {
			in.Rules = append(in.Rules, ruleset.Rule{Matches: []ruleset.Match{{Kind: ruleset.MatchTranslated}, family}, Action: ruleset.Goto, Target: w.askedChain(name, copies)})
		}
	}
	w.program.Chains[string(ruleset.ForwardedOut)], w.program.Chains[string(ruleset.ForwardedIn)] = out, in
	w.asked = copies
}

// askedChain makes a chain, and those that it leads to, that do as others do but judge by the port
// that was asked. It returns the name. What was copied in the last run is used again.
func (w *work) askedChain(name string, copies map[*ruleset.Chain]*ruleset.Chain) string {
	copied := askedName(name)
	if w.program.Chains[copied] != nil {
		return copied
	}
	of := w.program.Chains[name]
	c := w.asked[of]
	if c == nil {
		c = &ruleset.Chain{Rules: make([]ruleset.Rule, len(of.Rules))}
		for i, r := range of.Rules {
			r.Matches = asked(r.Matches)
			if r.Action == ruleset.Jump || r.Action == ruleset.Goto {
				r.Target = askedName(r.Target)
			}
			c.Rules[i] = r
		}
	}
	copies[of], w.program.Chains[copied] = c, c
	for i := range of.Rules {
		if r := &of.Rules[i]; r.Action == ruleset.Jump || r.Action == ruleset.Goto {
			w.askedChain(r.Target, copies)
		}
	}
	return copied
}

// askedName keeps the beginning of a name, which says the direction and the family.
func askedName(name string) string {
	i := strings.IndexAny(name, "46") + 1
	return name[:i] + forwardedSuffix + name[i:]
}

// asked are matches with the port that was asked in the place of the one that packets have.
func asked(matches []ruleset.Match) []ruleset.Match {
	kinds := map[ruleset.MatchKind]ruleset.MatchKind{ruleset.MatchPort: ruleset.MatchAskedPort, ruleset.MatchPortOf: ruleset.MatchAskedPortOf}
	if !slices.ContainsFunc(matches, func(m ruleset.Match) bool { return kinds[m.Kind] != 0 }) {
		return matches
	}
	out := slices.Clone(matches)
	for i := range out {
		if k := kinds[out[i].Kind]; k != 0 {
			out[i].Kind = k
		}
	}
	return out
}
