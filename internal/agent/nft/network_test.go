package nft_test

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
	"github.com/nephele-io/nephele/internal/agent/nft"
	"github.com/nephele-io/nephele/internal/agent/nft/ruleset"
	"github.com/nephele-io/nephele/internal/enforcer"
)

// TestIsolationKeepsTheLink: of what a host and routers say of groups on their link nothing is
// dropped by isolation, and nothing passes that comes from elsewhere or only looks like it.
func TestIsolationKeepsTheLink(t *testing.T) {
	drop, allow := v1beta2.RuleActionDrop, v1beta2.RuleActionAllow
	tier, priority := int32(250), 5.0
	everywhere := v1beta2.NetworkPolicyPeer{IPBlocks: []v1beta2.IPBlock{{CIDR: v1beta2.IPNet{IP: make([]byte, 4)}}, {CIDR: v1beta2.IPNet{IP: make([]byte, 16)}}}}
	isolated := func(services ...v1beta2.Service) *ruleset.Program {
		p := &v1beta2.NetworkPolicy{AppliedToGroups: []string{"a"}, TierPriority: &tier, Priority: &priority, Rules: []v1beta2.NetworkPolicyRule{
			{Direction: v1beta2.DirectionIn, Action: &drop, From: everywhere}, {Direction: v1beta2.DirectionOut, Action: &drop, Priority: 1, To: everywhere}}}
		if len(services) > 0 {
			p.Rules = append([]v1beta2.NetworkPolicyRule{{Direction: v1beta2.DirectionOut, Action: &allow, Services: services, To: everywhere, Priority: -1}}, p.Rules...)
		}
		p.Name = "p"
		group := &v1beta2.AppliedToGroup{GroupMembers: []v1beta2.GroupMember{{ExternalEntity: &v1beta2.ExternalEntityReference{Namespace: "n", Name: "e"}}}}
		group.Name = "a"
		r := new(nft.Compiler).Compile(nft.Input{Computed: enforcer.Computed{Policies: []*v1beta2.NetworkPolicy{p}, AppliedToGroups: []*v1beta2.AppliedToGroup{group}}})
		if len(r.Refusals) > 0 {
			t.Fatal(r.Refusals)
		}
		return r.Program
	}
	igmp, reports := v1beta2.ProtocolIGMP, int32(0x16)
	plain, about := isolated(), isolated(v1beta2.Service{Protocol: &igmp, IGMPType: &reports})
	a := netip.MustParseAddr
	for _, c := range []struct {
		name         string
		p            ruleset.Packet
		plain, about bool
	}{
		{"a report by MLDv2", ruleset.Packet{Direction: ruleset.Egress, Source: a("::"), Destination: a("ff02::16"), Protocol: ruleset.ICMPv6, Type: 143, HopLimit: 1}, true, true},
		{"a report by MLDv1", ruleset.Packet{Direction: ruleset.Egress, Source: a("fe80::1"), Destination: a("ff02::1:ff00:1"), Protocol: ruleset.ICMPv6, Type: 131, HopLimit: 1}, true, true},
		{"leaving by MLDv1", ruleset.Packet{Direction: ruleset.Egress, Source: a("fe80::1"), Destination: a("ff02::2"), Protocol: ruleset.ICMPv6, Type: 132, HopLimit: 1}, true, true},
		{"a query", ruleset.Packet{Direction: ruleset.Ingress, Source: a("fe80::9"), Destination: a("ff02::1"), Protocol: ruleset.ICMPv6, Type: 130, HopLimit: 1}, true, true},
		{"a query from elsewhere", ruleset.Packet{Direction: ruleset.Ingress, Source: a("2001:db8::9"), Destination: a("ff02::1"), Protocol: ruleset.ICMPv6, Type: 130, HopLimit: 1}, false, false},
		{"a query from afar", ruleset.Packet{Direction: ruleset.Ingress, Source: a("fe80::9"), Destination: a("ff02::1"), Protocol: ruleset.ICMPv6, Type: 130, HopLimit: 64}, false, false},
		{"an advertisement of a multicast router", ruleset.Packet{Direction: ruleset.Ingress, Source: a("fe80::9"), Destination: a("ff02::6a"), Protocol: ruleset.ICMPv6, Type: 151, HopLimit: 1}, true, true},
		{"a solicitation", ruleset.Packet{Direction: ruleset.Ingress, Source: a("fe80::9"), Destination: a("ff02::1:ff00:1"), Protocol: ruleset.ICMPv6, Type: 135, HopLimit: 255}, true, true},
		{"a ping", ruleset.Packet{Direction: ruleset.Egress, Source: a("fe80::1"), Destination: a("ff02::1"), Protocol: ruleset.ICMPv6, Type: 128, HopLimit: 1}, false, false},
		{"a report by IGMPv3", ruleset.Packet{Direction: ruleset.Egress, Source: a("10.0.0.1"), Destination: a("224.0.0.22"), Protocol: ruleset.IGMP, Type: 0x22, HopLimit: 1}, true, false},
		{"a report by IGMPv2", ruleset.Packet{Direction: ruleset.Egress, Source: a("10.0.0.1"), Destination: a("239.1.2.3"), Protocol: ruleset.IGMP, Type: 0x16, HopLimit: 1}, true, true},
		{"a query by IGMP", ruleset.Packet{Direction: ruleset.Ingress, Source: a("10.0.0.9"), Destination: a("224.0.0.1"), Protocol: ruleset.IGMP, Type: 0x11, HopLimit: 1}, true, false},
		{"IGMP from afar", ruleset.Packet{Direction: ruleset.Ingress, Source: a("10.0.0.9"), Destination: a("10.0.0.1"), Protocol: ruleset.IGMP, Type: 0x11, HopLimit: 64}, false, false},
	} {
		if got := plain.Judge(c.p).Allows(); got != c.plain {
			t.Errorf("%s passes: %t", c.name, got)
		}
		if got := about.Judge(c.p).Allows(); got != c.about {
			t.Errorf("with a policy about IGMP %s passes: %t", c.name, got)
		}
	}
}

// TestNodeWithoutPoliciesAsksLittle: a Node that no policy applies to passes its own packets,
// and each that it wraps is one, through no rule that decides nothing.
func TestNodeWithoutPoliciesAsksLittle(t *testing.T) {
	program := new(nft.Compiler).Compile(nft.Input{Node: &nft.Node{}}).Program
	for _, base := range []ruleset.Base{ruleset.ToHost, ruleset.FromHost} {
		if rules := program.Chains[string(base)].Rules; len(rules) != 2 || rules[0].Action != ruleset.Drop || rules[0].Matches[0].Kind != ruleset.MatchDead {
			t.Errorf("chain %s asks %d rules, want those about connections that were given up and established ones: %+v", base, len(rules), rules)
		}
	}
}

// TestWrappedIsUntrackedOverIPv4: conntrack follows no VXLAN packet that a Node sends or that comes
// to it over IPv4. Over IPv6 it does: by the entry policies admit the message that a packet was too
// big.
func TestWrappedIsUntrackedOverIPv4(t *testing.T) {
	for _, wraps := range []bool{true, false} {
		node := &nft.Node{Network: &nft.Network{Own: []netip.Prefix{netip.MustParsePrefix("10.244.0.0/24"), netip.MustParsePrefix("fd00::/64")}, Port: 4789, Wraps: wraps}}
		program := new(nft.Compiler).Compile(nft.Input{Node: node}).Program
		for _, base := range []ruleset.Base{ruleset.FromNode, ruleset.FromPods} {
			families := map[ruleset.Family]bool{ruleset.IPv4: false, ruleset.IPv6: false}
			var rules []ruleset.Rule
			if c := program.Chains[string(base)]; c != nil {
				rules = c.Rules
			}
			for i := range rules {
				if rules[i].Action != ruleset.NoTrack {
					continue
				}
				for f := range families {
					families[f] = families[f] || !slices.ContainsFunc(rules[i].Matches, func(m ruleset.Match) bool { return m.Kind == ruleset.MatchFamily && m.Lo != uint16(f) })
				}
			}
			if families[ruleset.IPv4] != wraps || families[ruleset.IPv6] {
				t.Errorf("a Node that wraps: %t; chain %s takes from conntrack %v", wraps, base, families)
			}
		}
	}
}
