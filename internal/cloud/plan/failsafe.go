package plan

import (
	"net/netip"

	"github.com/nephele-io/nephele/internal/cloud"
)

// FailsafeFlow is traffic that VMs with policies are always allowed, before any rule. It does not isolate a direction.
type FailsafeFlow struct {
	Direction cloud.Direction
	// Services are any of these; nil means any traffic.
	Services []Service
	// Peers are the address ranges of the other end.
	Peers []netip.Prefix
}

// withFailsafe puts the failsafe flows before the rules of a VM. A VM without rules is none of their business.
func (s *regionState) withFailsafe(rules []*bound, profile string) ([]*bound, string) {
	if len(rules) == 0 || len(s.in.Failsafe) == 0 {
		return rules, profile
	}
	out := make([]*bound, 0, len(s.in.Failsafe)+len(rules))
	owner := &policy{stage: stageAntrea}
	for _, f := range s.in.Failsafe {
		r := &rule{policy: owner, direction: f.Direction, verdict: grant, services: f.Services, blocks: SetOfPrefixes(f.Peers...)}
		out = append(out, &bound{rule: r, services: r.services, any: r.matchesAny()})
	}
	return append(out, rules...), "failsafe " + profile
}
