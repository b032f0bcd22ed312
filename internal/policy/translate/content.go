package translate

import (
	"slices"

	"github.com/nephele-io/nephele/internal/policy"
)

// contents are contents of rules that were made lately, each at the place that its hash gives it:
// most policies say what many others say, of other groups, and they come one after the other.
type contents [64]*policy.RuleContent

// share returns a content equal to this one, which later rules may have too.
func (x *contents) share(c *policy.RuleContent) *policy.RuleContent {
	at := &x[hashOf(c)%uint32(len(x))]
	if *at == nil || !sameContent(*at, c) {
		made := *c
		*at = &made
	}
	return *at
}

// hashOf is the same for equal contents.
func hashOf(c *policy.RuleContent) uint32 {
	h := uint32(c.Priority)
	mix := func(n int) { h = h*31 + uint32(n) }
	mix(len(c.Direction))
	mix(len(c.Action))
	mix(len(c.Name))
	mix(len(c.IPBlocks) + len(c.FQDNs)<<4 + len(c.ToServices)<<8)
	mix(len(c.Services))
	for i := range c.Services {
		if p := c.Services[i].Port; p != nil {
			mix(int(p.Number))
		}
	}
	return h ^ h>>6
}

// sameContent reports whether two contents say the same. Contents with L7 protocols are never taken
// for equal.
func sameContent(c, d *policy.RuleContent) bool {
	return c.Direction == d.Direction && c.Action == d.Action && c.Priority == d.Priority && c.EnableLogging == d.EnableLogging &&
		c.Name == d.Name && c.LogLabel == d.LogLabel && len(c.L7Protocols)+len(d.L7Protocols) == 0 &&
		slices.EqualFunc(c.Services, d.Services, sameService) && slices.EqualFunc(c.IPBlocks, d.IPBlocks, sameBlock) &&
		slices.Equal(c.FQDNs, d.FQDNs) && slices.Equal(c.ToServices, d.ToServices)
}

func sameService(s, t policy.ServiceMatch) bool {
	return s.Protocol == t.Protocol && s.GroupAddress == t.GroupAddress && same(s.Port, t.Port) && same(s.EndPort, t.EndPort) &&
		same(s.SrcPort, t.SrcPort) && same(s.SrcEndPort, t.SrcEndPort) &&
		same(s.ICMPType, t.ICMPType) && same(s.ICMPCode, t.ICMPCode) && same(s.IGMPType, t.IGMPType)
}

func sameBlock(b, c policy.CIDRBlock) bool {
	return b.CIDR == c.CIDR && slices.Equal(b.Except, c.Except)
}

// same reports whether two values that may be missing are the same.
func same[T comparable](a, b *T) bool {
	return a == b || a != nil && b != nil && *a == *b
}

// rule returns a rule with a content, without the parts of the peer, and the peer.
func (t *translation) rule(c policy.RuleContent, peer policy.ComputedPeer, appliedTo []string) policy.ComputedRule {
	c.IPBlocks, c.FQDNs, c.ToServices = peer.IPBlocks, peer.FQDNs, peer.ToServices
	return policy.ComputedRule{RuleContent: t.contents.share(&c), AddressGroups: peer.AddressGroups, AppliedToGroups: appliedTo}
}

// addRule adds such a rule to the policy.
func (t *translation) addRule(c policy.RuleContent, peer policy.ComputedPeer, appliedTo []string) {
	t.out.Rules = append(t.out.Rules, t.rule(c, peer, appliedTo))
}
