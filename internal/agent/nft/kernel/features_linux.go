package kernel

import (
	"errors"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/nephele-io/nephele/internal/agent/nft/kernel/netfilter"
	"github.com/nephele-io/nephele/internal/agent/nft/ruleset"
)

// Lacks are the features that the kernel was found to lack, in the order of Features. It is found
// out when writing fails.
func (t *Table) Lacks() []Feature {
	t.mu.Lock()
	defer t.mu.Unlock()
	var out []Feature
	for _, f := range Features() {
		if t.lacks[f] {
			out = append(out, f)
		}
	}
	return out
}

// lackError says that the kernel lacks a feature that is required.
type lackError struct{ feature Feature }

func (e lackError) Error() string { return e.feature.String() }

// mayLack reports whether an error may mean that the kernel lacks something.
func mayLack(err error) bool {
	for _, e := range []error{unix.ENOENT, unix.EOPNOTSUPP, unix.EINVAL, unix.ENOSYS, unix.EPROTONOSUPPORT, unix.EAFNOSUPPORT} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// probe finds out which features the kernel lacks, each by a table of its own that is gone at once.
// A missing feature that is required is an error. If there cannot be a table at all, nothing is
// found.
func (t *Table) probe() (lacks, error) {
	if t.try(nil) != nil {
		return nil, nil
	}
	found := lacks{}
	for _, f := range Features() {
		if t.try(sample(f)) == nil {
			continue
		}
		if f.Required() {
			return nil, lackError{f}
		}
		found[f] = true
	}
	return found, nil
}

// try makes a table with a chain of rules, and the sets that these refer to, which is gone when it
// returns.
func (t *Table) try(rules []ruleset.Rule) error {
	name := t.name + "-probe"
	table := netfilter.Text(nil, unix.NFTA_TABLE_NAME, name)
	messages := []netfilter.Message{{Kind: unix.NFT_MSG_NEWTABLE, Flags: unix.NLM_F_CREATE, Attrs: table}}
	chain := "in4"
	if slices.ContainsFunc(rules, func(r ruleset.Rule) bool { return r.Action == ruleset.Masquerade }) {
		chain = string(ruleset.ToOthers) // the kernel translates on some of the ways only
	}
	if len(rules) > 0 {
		for _, set := range []ruleset.SetName{ruleset.Members4, ruleset.Ports4, "ranges4", "pods-in4", ruleset.Endpoints4, ruleset.Sticky4} {
			if uses(rules, set) {
				t.setID++
				messages = append(messages, setMessage(name, set, t.setID))
			}
		}
		messages = append(messages, lacks(nil).chainMessage(name, chain))
		for i := range rules {
			m, err := lacks(nil).ruleMessage(name, chain, &rules[i])
			if err != nil {
				return err
			}
			messages = append(messages, m)
		}
	}
	return t.commit(append(messages, netfilter.Message{Kind: unix.NFT_MSG_DELTABLE, Attrs: table}))
}

func uses(rules []ruleset.Rule, set ruleset.SetName) bool {
	for i := range rules {
		if rules[i].Action == ruleset.Lookup && ruleset.SetName(rules[i].Target) == set {
			return true
		}
		if rules[i].Action == ruleset.BalanceBackends && set.HoldsBackends() {
			return true
		}
		for _, m := range rules[i].Matches {
			if m.Of != nil && m.Of.Set == set {
				return true
			}
		}
	}
	return false
}

// sample are rules that need a feature, and no other one that is not required.
func sample(f Feature) []ruleset.Rule {
	one := func(action ruleset.Action, matches ...ruleset.Match) []ruleset.Rule {
		return []ruleset.Rule{{Action: action, Matches: matches}}
	}
	switch f {
	case FeatureConnections:
		return one(ruleset.Accept, ruleset.Match{Kind: ruleset.MatchEstablished})
	case FeatureSets:
		return []ruleset.Rule{
			{Action: ruleset.Drop, Matches: []ruleset.Match{{Kind: ruleset.MatchMember, Of: &ruleset.PartKey{Set: ruleset.Members4}, Source: true}}},
			{Action: ruleset.Drop, Matches: []ruleset.Match{{Kind: ruleset.MatchNamedPort, Of: &ruleset.PartKey{Set: ruleset.Ports4}, Source: true}}},
			{Action: ruleset.Drop, Matches: []ruleset.Match{{Kind: ruleset.MatchPeerIn, Of: &ruleset.PartKey{Set: "ranges4"}, Source: true}}},
			{Action: ruleset.Lookup, Target: "pods-in4"},
		}
	case FeatureLabels:
		return one(ruleset.Drop, ruleset.Match{Kind: ruleset.MatchDead})
	case FeatureReject:
		return append(one(ruleset.RejectReset, ruleset.Match{Kind: ruleset.MatchProtocol, Lo: uint16(ruleset.TCP)}), one(ruleset.RejectICMP)...)
	case FeatureLog:
		return one(ruleset.Log)
	case FeatureQueue:
		return one(ruleset.Queue)
	case FeatureCounters:
		return []ruleset.Rule{{Action: ruleset.Accept, Origin: &ruleset.Origin{Kind: ruleset.OriginPolicy}}}
	case FeatureRoutes:
		return append(one(ruleset.Accept, ruleset.Match{Kind: ruleset.MatchRouted}), one(ruleset.Drop, ruleset.Match{Kind: ruleset.MatchNoWayBack})...)
	case FeatureMasquerade:
		return one(ruleset.Masquerade)
	case FeatureServices:
		known, other := ruleset.BalanceTo{Family: ruleset.IPv4, Backends: 1, Sticky: 1, Known: true}, ruleset.BalanceTo{Family: ruleset.IPv4, Backends: 1, Sticky: 1}
		return []ruleset.Rule{{Action: ruleset.BalanceBackends, Balance: &known}, {Action: ruleset.BalanceBackends, Balance: &other}}
	case FeatureSegments:
		return one(ruleset.ClampSegments, ruleset.Match{Kind: ruleset.MatchProtocol, Lo: uint16(ruleset.TCP)})
	case FeatureKinds:
		return one(ruleset.Accept, ruleset.Match{Kind: ruleset.MatchToBridge})
	}
	return nil
}
