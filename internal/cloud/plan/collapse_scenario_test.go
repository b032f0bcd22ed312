package plan_test

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
	"github.com/nephele-io/nephele/internal/cloud"
)

// Where something is taken from the IPv4 addresses of VMs that a group admits with all protocols,
// their IPv6 addresses keep all protocols by one rule each, and not by one for each of the 256
// protocols.
func TestDropInOneFamilyOfReferences(t *testing.T) {
	for _, drop := range []serviceSpec{{Protocol: "ICMP", Type: 8, Code: -1}, {Protocol: "TCP", From: 3306, To: 3306, Type: -1}} {
		e := small()
		e.Networks[0].V6 = "2001:db8::/64"
		e.Groups[1].Rules = []cloud.Rule{{Direction: cloud.Egress, Match: cloud.NewMatch(-1, -1, -1), Peer: cloud.Peer{GroupID: "#1"}}}
		for i := range e.NICs {
			e.NICs[i].IPs, e.NICs[i].Groups = append(e.NICs[i].IPs, fmt.Sprintf("2001:db8::%d", 10+i)), []int{1}
		}
		e.History = []policySet{{Applied: [][]int{{0, 1, 2}}, Policies: []policySpec{{Tier: 250, Priority: 5, Applied: []int{0}, Rules: []ruleSpec{{
			Out: true, Action: v1beta2.RuleActionDrop, Blocks: []blockSpec{{CIDR: "0.0.0.0/0"}}, Services: []serviceSpec{drop},
		}}}}}}
		f := e.cloud()
		if res := settle(t, e, f, nil); len(res.Refusals) > 0 {
			t.Fatalf("%v: %v", drop, res.Refusals)
		}
		rules := f.prober().rules[nicID(0)]
		if len(rules) > 40 {
			t.Errorf("%v: %d rules", drop, len(rules))
		}
		for _, c := range []struct {
			to                   string
			protocol, port, want int
		}{
			{"10.0.0.11", 1, 8 << 8, b2i(drop.Type != 8)}, {"10.0.0.11", 1, 0, 1}, {"10.0.0.11", 6, 3306, b2i(drop.Type == 8)}, {"10.0.0.11", 47, 0, 1}, {"10.0.0.11", 200, 0, 0},
			{"2001:db8::11", 58, 128 << 8, 1}, {"2001:db8::11", 6, 3306, 1}, {"2001:db8::11", 200, 0, 1},
		} {
			got := f.prober().half(nicID(0), cloud.Egress, remote{netip.MustParseAddr(c.to), nicID(1)}, packet{c.protocol, c.port})
			if got != (c.want == 1) {
				t.Errorf("%v: protocol %d port %d to %s: allowed %v", drop, c.protocol, c.port, c.to, got)
			}
		}
	}
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}
