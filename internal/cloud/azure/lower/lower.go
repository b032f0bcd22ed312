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

// Fits implements plan.Lowerer: no limit of one network security group may be exceeded (see
// shortage).
func (Azure) Fits(rules []cloud.Rule, q plan.Quota) bool { return shortage(rules, q) == nil }

// Pack implements plan.Lowerer: an interface has one network security group, so all rules go into
// one.
func (Azure) Pack(wanted []cloud.Rule, _ [][]cloud.Rule, q plan.Quota) ([][]cloud.Rule, *plan.Shortage) {
	if short := shortage(wanted, q); short != nil {
		return nil, short
	}
	return [][]cloud.Rule{wanted}, nil
}

// Bound implements plan.Lowerer: a rule takes any number of blocks and ranges of ports.
func (Azure) Bound(plan.Quota) plan.Bound {
	return plan.Bound{
		Blocks: PrefixesPerSide, Groups: GroupsPerRules,
		BlocksOf: [2]string{plan.LimitSources, plan.LimitDestinations}, GroupsOf: plan.LimitApplicationGroups,
	}
}

// Uses implements plan.Lowerer.
func (Azure) Uses(rules []cloud.Rule, q plan.Quota) (out []plan.Use) {
	uses, err := usesOf(rules, q)
	if err != nil {
		return nil
	}
	for _, u := range uses {
		if u.Used > 0 {
			out = append(out, u.Use)
		}
	}
	return out
}

// use is one of a limit that has a name.
type use struct {
	plan.Use
	limit     string
	direction cloud.Direction
}

// usesOf counts rules as they are written.
func usesOf(rules []cloud.Rule, q plan.Quota) ([4]use, error) {
	rules = slices.Clone(rules)
	for i := range rules {
		if p := &rules[i].Peer; p.GroupName != "" { // it will have an id
			*p = cloud.Peer{GroupID: p.GroupName}
		}
	}
	all, err := Encode(rules, func(id string) string { return id })
	if err != nil {
		return [4]use{}, err
	}
	size := SizeOf(all)
	return [4]use{
		{plan.Use{Name: "rules of a network security group", Used: size.Rules, Limit: q.RulesPerGroup}, plan.LimitSecurityRules, cloud.Ingress},
		{plan.Use{Name: "source prefixes of a group", Used: size.Sources, Limit: PrefixesPerSide}, plan.LimitSources, cloud.Ingress},
		{plan.Use{Name: "destination prefixes of a group", Used: size.Destinations, Limit: PrefixesPerSide}, plan.LimitDestinations, cloud.Egress},
		{plan.Use{Name: "groups that the rules of a group name", Used: size.Groups, Limit: GroupsPerRules}, plan.LimitApplicationGroups, cloud.Ingress},
	}, nil
}

// shortage finds the limit that rules exceed the most, in proportion to it.
func shortage(rules []cloud.Rule, q plan.Quota) *plan.Shortage {
	uses, err := usesOf(rules, q)
	if err != nil { // no order of priorities, or more rules than there are of these
		return &plan.Shortage{Quota: plan.LimitSecurityRules, Direction: cloud.Ingress, Needed: q.RulesPerGroup + 1, Available: q.RulesPerGroup, AtLeast: true}
	}
	var worst *use
	for i := range uses {
		u := &uses[i]
		if u.Used > u.Limit && (worst == nil || u.Used*worst.Limit > worst.Used*u.Limit) {
			worst = u
		}
	}
	if worst == nil {
		return nil
	}
	return &plan.Shortage{Quota: worst.limit, Direction: worst.direction, Needed: worst.Used, Available: worst.Limit}
}
