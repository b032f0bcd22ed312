package plan

import (
	"net/netip"

	"github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan/flow"
	"github.com/nephele-io/nephele/internal/cloud/plan/intent"
)

// ParseFailsafe returns the flows as an account gives them. The schema has checked them; a range
// that cannot be read is left out, which can only be narrower.
func ParseFailsafe(flows []v1alpha1.FailsafeFlow) []FailsafeFlow {
	var out []FailsafeFlow
	for _, f := range flows {
		allowed := FailsafeFlow{Direction: cloud.Ingress}
		if f.Direction == "Egress" {
			allowed.Direction = cloud.Egress
		}
		switch f.Protocol {
		case "TCP":
			allowed.Services = []flow.Service{portRange(cloud.TCP, f)}
		case "UDP":
			allowed.Services = []flow.Service{portRange(cloud.UDP, f)}
		case "ICMP":
			allowed.Services = []flow.Service{flow.Whole(cloud.ICMP), flow.Whole(cloud.ICMPv6)}
		}
		for _, text := range f.CIDRs {
			if p, err := netip.ParsePrefix(text); err == nil {
				allowed.Peers = append(allowed.Peers, p.Masked())
			}
		}
		if len(allowed.Peers) > 0 {
			out = append(out, allowed)
		}
	}
	return out
}

func portRange(protocol int, f v1alpha1.FailsafeFlow) flow.Service {
	s := flow.Whole(protocol)
	if f.Port != nil {
		s.From, s.To = uint16(*f.Port), uint16(*f.Port)
	}
	if f.EndPort != nil {
		s.To = uint16(*f.EndPort)
	}
	return s
}

// ParseDependents returns the answer as an account gives it. The schema has checked it; what it
// does not know means to refuse.
func ParseDependents(all v1alpha1.Dependents, groups []v1alpha1.DependentGroup) DependentsRule {
	answers := map[v1alpha1.Dependents]intent.Dependents{v1alpha1.DependentsFollow: FollowDependents, v1alpha1.DependentsCut: CutDependents}
	out := DependentsRule{Default: answers[all]}
	for _, g := range groups {
		if out.Groups == nil {
			out.Groups = map[string]intent.Dependents{}
		}
		out.Groups[g.Group] = answers[g.Dependents]
	}
	return out
}
