package intent

import (
	"fmt"
	"net/netip"
	"strings"

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
