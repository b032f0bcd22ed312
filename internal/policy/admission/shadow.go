package admission

import (
	"fmt"
	"net/netip"
	"reflect"
	"slices"

	"github.com/nephele-io/nephele/internal/policy"
)

// mostCompared is how many rules of a direction are compared with one another: each with each,
// while somebody waits for an answer. Of their peers and ports so many pairs are looked at in all.
const mostCompared, mostPairs = 200, 50_000

// comparison is how many pairs of peers or ports may still be looked at. What it leaves out is not
// told: nobody is warned of what may not be so.
type comparison struct{ left int }

func (c *comparison) more() bool {
	c.left--
	return c.left >= 0
}

// NeverMatches returns the rules of a policy that can never match, because one rule of the same
// policy before them matches all that they do. It compares what is written: that several rules
// together leave a rule nothing, or rules of other policies, only shows with what there is.
func NeverMatches(p *policy.Policy) []policy.FieldError {
	c := &checker{}
	for side, rules := range map[string][]policy.Rule{"spec.ingress": p.Ingress, "spec.egress": p.Egress} {
		rules = rules[:min(len(rules), mostCompared)]
		pairs := &comparison{mostPairs}
		for i := range rules {
			before := slices.IndexFunc(rules[:i], func(r policy.Rule) bool { return pairs.takesAll(&r, &rules[i]) })
			if before >= 0 {
				c.given(at(side, i), "a rule that never matches", fmt.Sprintf("it before %s (%q), which matches all that it matches", at(side, before), rules[before].Name))
			}
		}
	}
	slices.SortFunc(c.errs, func(a, b policy.FieldError) int { return slices.Compare([]byte(a.Field), []byte(b.Field)) })
	return c.errs
}

// takesAll reports whether a rule certainly matches all that a later one of the same direction
// does.
func (c *comparison) takesAll(a, b *policy.Rule) bool {
	return c.more() && reflect.DeepEqual(a.AppliedTo, b.AppliedTo) && !a.NoPeers && len(a.L7Protocols) == 0 && c.peersTakeAll(a, b) && c.trafficTakesAll(a, b)
}

func (c *comparison) peersTakeAll(a, b *policy.Rule) bool {
	if len(a.ToServices)+len(b.ToServices) > 0 {
		return reflect.DeepEqual(a.ToServices, b.ToServices)
	}
	if len(a.Peers) == 0 {
		return true
	}
	if len(b.Peers) == 0 {
		return false
	}
	for i := range b.Peers {
		if !slices.ContainsFunc(a.Peers, func(p policy.Peer) bool { return c.more() && peerTakesAll(p, b.Peers[i]) }) {
			return false
		}
	}
	return true
}

func peerTakesAll(a, b policy.Peer) bool {
	if reflect.DeepEqual(a, b) {
		return true
	}
	if a.IPBlock == nil || b.IPBlock == nil || len(a.IPBlock.Except) > 0 {
		return false
	}
	wide, err := netip.ParsePrefix(a.IPBlock.CIDR)
	narrow, err2 := netip.ParsePrefix(b.IPBlock.CIDR)
	return err == nil && err2 == nil && wide.Bits() <= narrow.Bits() && wide.Contains(narrow.Addr())
}

func (c *comparison) trafficTakesAll(a, b *policy.Rule) bool {
	if len(a.Ports)+len(a.Protocols) == 0 {
		return true
	}
	if len(b.Ports)+len(b.Protocols) == 0 {
		return false
	}
	for i := range b.Ports {
		if !slices.ContainsFunc(a.Ports, func(p policy.Port) bool { return c.more() && portTakesAll(p, b.Ports[i]) }) {
			return false
		}
	}
	for i := range b.Protocols {
		if !slices.ContainsFunc(a.Protocols, func(p policy.RuleProtocol) bool { return c.more() && reflect.DeepEqual(p, b.Protocols[i]) }) {
			return false
		}
	}
	return true
}

func portTakesAll(a, b policy.Port) bool {
	if reflect.DeepEqual(a, b) {
		return true
	}
	if a.Protocol != b.Protocol || a.AnyProtocol != b.AnyProtocol || a.SourcePort != nil {
		return false
	}
	if a.Port == nil {
		return true
	}
	if b.Port == nil || a.Port.Name != "" || b.Port.Name != "" {
		return false
	}
	last := func(p policy.Port) int32 {
		if p.EndPort != nil {
			return *p.EndPort
		}
		return p.Port.Number
	}
	return a.Port.Number <= b.Port.Number && last(b) <= last(a)
}
