package nft

import (
	"fmt"
	"slices"
	"strings"
)

// forwardedSuffix is in the names of chains that judge by the port that was asked, before the
// destination was translated.
const forwardedSuffix = ".asked"

// forwarded makes the chains for what only passes through the host. What comes to a published port
// is judged as what comes to the host, by the port that was asked; what comes from a bridge of the
// host, where its containers and machines are, as what the host sends.
func (w *work) forwarded() {
	begin := []Rule{{Matches: []Match{{Kind: MatchDead}}, Action: Drop}, {Matches: []Match{{Kind: MatchEstablished}}, Action: Accept}}
	out := &Chain{Rules: append(slices.Clone(begin), Rule{Matches: []Match{{Kind: MatchToBridge}}, Action: Accept})}
	in := &Chain{Rules: slices.Clone(begin)}
	for _, f := range w.failsafe {
		rules := f.rules()
		if f.Direction == Egress {
			out.Rules = append(out.Rules, rules...)
			continue
		}
		for i := range rules {
			rules[i].Matches = asked(rules[i].Matches)
		}
		in.Rules = append(in.Rules, rules...)
	}
	copies := map[*Chain]*Chain{}
	for _, f := range []Family{IPv4, IPv6} {
		family := Match{Kind: MatchFamily, Lo: uint16(f)}
		if name := fmt.Sprintf("out%d", f); w.program.Chains[name] != nil {
			out.Rules = append(out.Rules, Rule{Matches: []Match{{Kind: MatchFromBridge}, family}, Action: Goto, Target: name})
		}
		if name := fmt.Sprintf("in%d", f); w.program.Chains[name] != nil {
			in.Rules = append(in.Rules, Rule{Matches: []Match{{Kind: MatchTranslated}, family}, Action: Goto, Target: w.askedChain(name, copies)})
		}
	}
	w.program.Chains[string(ForwardedOut)], w.program.Chains[string(ForwardedIn)] = out, in
	w.asked = copies
}

// askedChain makes a chain, and those that it leads to, that do as others do but judge by the port
// that was asked. It returns the name. What was copied in the last run is used again.
func (w *work) askedChain(name string, copies map[*Chain]*Chain) string {
	copied := askedName(name)
	if w.program.Chains[copied] != nil {
		return copied
	}
	of := w.program.Chains[name]
	c := w.asked[of]
	if c == nil {
		c = &Chain{Rules: make([]Rule, len(of.Rules))}
		for i, r := range of.Rules {
			r.Matches = asked(r.Matches)
			if r.Action == Jump || r.Action == Goto {
				r.Target = askedName(r.Target)
			}
			c.Rules[i] = r
		}
	}
	copies[of], w.program.Chains[copied] = c, c
	for i := range of.Rules {
		if r := &of.Rules[i]; r.Action == Jump || r.Action == Goto {
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
func asked(matches []Match) []Match {
	kinds := map[MatchKind]MatchKind{MatchPort: MatchAskedPort, MatchPortOf: MatchAskedPortOf}
	if !slices.ContainsFunc(matches, func(m Match) bool { return kinds[m.Kind] != 0 }) {
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
