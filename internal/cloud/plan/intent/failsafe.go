package intent

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan/addrset"
	"github.com/nephele-io/nephele/internal/cloud/plan/flow"
)

// FailsafeFlow is traffic that VMs with policies are always allowed, before any rule. It does not
// isolate a direction.
type FailsafeFlow struct {
	Direction cloud.Direction
	// Services are any of these; nil means any traffic.
	Services []flow.Service
	// Peers are the address ranges of the other end.
	Peers []netip.Prefix
}

// String says it in the words of rules: "ingress tcp 22 from 192.0.2.0/24".
func (f FailsafeFlow) String() string {
	services := []string{"all protocols"}
	if len(f.Services) > 0 {
		services = nil
	}
	for _, s := range f.Services {
		name := cloud.ProtocolName(s.Protocol)
		switch {
		case s.From == 0 && s.To == 0xffff:
		case s.From == s.To:
			name += fmt.Sprintf(" %d", s.From)
		default:
			name += fmt.Sprintf(" %d-%d", s.From, s.To)
		}
		services = append(services, name)
	}
	toFrom := "from"
	if f.Direction == cloud.Egress {
		toFrom = "to"
	}
	peers := make([]string, len(f.Peers))
	for i, p := range f.Peers {
		peers[i] = p.String()
	}
	return fmt.Sprintf("%s %s %s %s", f.Direction, strings.Join(services, " and "), toFrom, strings.Join(peers, ", "))
}

// WithFailsafe puts the failsafe flows before the rules of a VM. A VM without rules is none of
// their business.
func (s *Region) WithFailsafe(rules []*Bound, profile string) ([]*Bound, string) {
	if len(rules) == 0 || len(s.Account.In.Failsafe) == 0 {
		return rules, profile
	}
	out := make([]*Bound, 0, len(s.Account.In.Failsafe)+len(rules))
	owner := &Policy{Stage: stageAntrea}
	for i, f := range s.Account.In.Failsafe {
		r := &rule{Policy: owner, number: -1 - i, Direction: f.Direction, Verdict: Grant, Services: f.Services, Blocks: addrset.OfPrefixes(f.Peers...)}
		out = append(out, r.bound())
	}
	return append(out, rules...), "failsafe " + profile
}

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
