package kernel

import (
	"errors"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/nephele-io/nephele/internal/agent/nft"
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
func (t *Table) try(rules []nft.Rule) error {
	name := t.name + "-probe"
	table := attrText(nil, unix.NFTA_TABLE_NAME, name)
	messages := []message{{unix.NFT_MSG_NEWTABLE, unix.NLM_F_CREATE, table}}
	chain := "in4"
	if slices.ContainsFunc(rules, func(r nft.Rule) bool { return r.Action == nft.Masquerade }) {
		chain = string(nft.ToOthers) // the kernel translates on some of the ways only
	}
	if len(rules) > 0 {
		for _, set := range []nft.SetName{nft.Members4, nft.Ports4, "ranges4", "pods-in4", nft.Endpoints4, nft.Sticky4} {
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
	return t.commit(append(messages, message{unix.NFT_MSG_DELTABLE, 0, table}))
}

func uses(rules []nft.Rule, set nft.SetName) bool {
	for i := range rules {
		if rules[i].Action == nft.Lookup && nft.SetName(rules[i].Target) == set {
			return true
		}
		if rules[i].Action == nft.BalanceBackends && set.HoldsBackends() {
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
func sample(f Feature) []nft.Rule {
	one := func(action nft.Action, matches ...nft.Match) []nft.Rule {
		return []nft.Rule{{Action: action, Matches: matches}}
	}
	switch f {
	case FeatureConnections:
		return one(nft.Accept, nft.Match{Kind: nft.MatchEstablished})
	case FeatureSets:
		return []nft.Rule{
			{Action: nft.Drop, Matches: []nft.Match{{Kind: nft.MatchMember, Of: &nft.PartKey{Set: nft.Members4}, Source: true}}},
			{Action: nft.Drop, Matches: []nft.Match{{Kind: nft.MatchNamedPort, Of: &nft.PartKey{Set: nft.Ports4}, Source: true}}},
			{Action: nft.Drop, Matches: []nft.Match{{Kind: nft.MatchPeerIn, Of: &nft.PartKey{Set: "ranges4"}, Source: true}}},
			{Action: nft.Lookup, Target: "pods-in4"},
		}
	case FeatureLabels:
		return one(nft.Drop, nft.Match{Kind: nft.MatchDead})
	case FeatureReject:
		return append(one(nft.RejectReset, nft.Match{Kind: nft.MatchProtocol, Lo: uint16(nft.TCP)}), one(nft.RejectICMP)...)
	case FeatureLog:
		return one(nft.Log)
	case FeatureQueue:
		return one(nft.Queue)
	case FeatureCounters:
		return []nft.Rule{{Action: nft.Accept, Origin: &nft.Origin{Kind: nft.OriginPolicy}}}
	case FeatureRoutes:
		return append(one(nft.Accept, nft.Match{Kind: nft.MatchRouted}), one(nft.Drop, nft.Match{Kind: nft.MatchNoWayBack})...)
	case FeatureMasquerade:
		return one(nft.Masquerade)
	case FeatureServices:
		known, other := nft.BalanceTo{Family: nft.IPv4, Backends: 1, Sticky: 1, Known: true}, nft.BalanceTo{Family: nft.IPv4, Backends: 1, Sticky: 1}
		return []nft.Rule{{Action: nft.BalanceBackends, Balance: &known}, {Action: nft.BalanceBackends, Balance: &other}}
	case FeatureKinds:
		return one(nft.Accept, nft.Match{Kind: nft.MatchToBridge})
	}
	return nil
}
