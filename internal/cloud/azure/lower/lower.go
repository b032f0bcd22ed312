package lower

import (
	"fmt"
	"slices"

	"github.com/nephele-io/nephele/internal/cloud"
	awslower "github.com/nephele-io/nephele/internal/cloud/aws/lower"
	"github.com/nephele-io/nephele/internal/cloud/plan"
	"github.com/nephele-io/nephele/internal/cloud/plan/flow"
)

// Azure implements plan.Lowerer for network security groups.
type Azure struct{}

var _ plan.Lowerer = Azure{}

// Unsupported implements plan.Lowerer.
func (Azure) Unsupported(s flow.Service) string {
	whole := s.From == 0 && s.To == 0xffff
	switch s.Protocol {
	case cloud.AnyProtocol, cloud.TCP, cloud.UDP:
		return ""
	case cloud.ICMP, cloud.ICMPv6:
		if whole {
			return ""
		}
		return fmt.Sprintf("network security groups match no types and codes of %s; the whole protocol would be concerned", cloud.ProtocolName(s.Protocol))
	case protocolESP, protocolAH:
		if whole {
			return ""
		}
	}
	return fmt.Sprintf("network security groups know TCP, UDP, ICMP, ESP and AH only, not %s", cloud.ProtocolName(s.Protocol))
}

// Lower implements plan.Lowerer. Of what stays open where a rule takes a part out of all protocols,
// only the protocols that Azure knows stay so.
func (Azure) Lower(t flow.Traffic) []cloud.Rule { return expressible(awslower.AWS{}.Lower(t)) }

// Fits implements plan.Lowerer.
func (Azure) Fits(rules []cloud.Rule, q plan.Quota) bool { return shortage(rules, q) == nil }

// Pack implements plan.Lowerer: an interface has one network security group, so all rules go into
// one.
func (Azure) Pack(wanted []cloud.Rule, _ [][]cloud.Rule, q plan.Quota) ([][]cloud.Rule, *plan.Shortage) {
	if short := shortage(wanted, q); short != nil {
		return nil, short
	}
	return [][]cloud.Rule{wanted}, nil
}

// shortage counts rules as they are written. Prefixes and groups have limits of their own; what is
// short is told in rules, which is all that a person can change.
func shortage(rules []cloud.Rule, q plan.Quota) *plan.Shortage {
	rules = slices.Clone(rules)
	for i := range rules {
		if p := &rules[i].Peer; p.GroupName != "" { // it will have an id
			*p = cloud.Peer{GroupID: p.GroupName}
		}
	}
	all, err := Encode(rules, func(id string) string { return id })
	if err != nil {
		return &plan.Shortage{Direction: cloud.Ingress, Family: "IPv4", Needed: q.RulesPerGroup + 1, Available: q.RulesPerGroup, RulesPerGroup: q.RulesPerGroup + 1}
	}
	size, most := SizeOf(all), 0
	for _, x := range []struct{ needed, available int }{
		{size.Rules, q.RulesPerGroup}, {size.Sources, PrefixesPerSide}, {size.Destinations, PrefixesPerSide}, {size.Groups, GroupsPerRules},
	} {
		// In proportion to the limit that is exceeded the most.
		if x.needed > x.available && x.available > 0 {
			most = max(most, (x.needed*q.RulesPerGroup+x.available-1)/x.available)
		}
	}
	if most <= q.RulesPerGroup {
		return nil
	}
	return &plan.Shortage{Direction: cloud.Ingress, Family: "IPv4", Needed: most, Available: q.RulesPerGroup, RulesPerGroup: most}
}
