package plan_test

import (
	"maps"
	"net/netip"
	"testing"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/aws/lower"
	"github.com/nephele-io/nephele/internal/cloud/forecast"
	"github.com/nephele-io/nephele/internal/cloud/plan"
	"github.com/nephele-io/nephele/internal/cloud/plan/render"
)

// TestOutlookOfHeldGroups: what would become of a planned VM that is under control counts the rules
// of the groups that it holds.
func TestOutlookOfHeldGroups(t *testing.T) {
	e := small()
	f := e.cloud()
	outlook := func() string {
		in := e.input(e.History[0], f.clone())
		modes(plan.Planned, 0, 1)(&in)
		f, err := forecast.Run(in.WithoutPlanned(), lower.AWS{})
		if err != nil {
			t.Fatal(err)
		}
		return render.Sum(maps.Values(render.Outlooks(f.Rounds))).String()
	}
	check := func(when, want string) {
		t.Helper()
		if got := outlook(); got != want {
			t.Errorf("%s: %s\nwant %s", when, got, want)
		}
	}
	check("at first", "interfaces to take over or to change: 1; interfaces that become peers only: 1; in new groups: 1 ingress and 1 egress rules; policies to enforce: 1")
	settle(t, e, f, nil)
	check("under control", "neither an interface nor a rule would change; policies to enforce: 1")
	service := &e.History[0].Policies[0].Rules[0].Services[0]
	service.From, service.To = 1, 1
	check("edited", "in groups that exist, rules to add: 1; in groups that exist, rules to remove: 1; policies to enforce: 1")
	service.From, service.To = 80, 80
	held := f.group(f.nic(nicID(0)).GroupIDs[0])
	held.Rules = append(held.Rules, cloud.Rule{Direction: cloud.Ingress, Match: cloud.NewMatch(cloud.TCP, 2222, 2222), Peer: cloud.Peer{CIDR: netip.MustParsePrefix("0.0.0.0/0")}})
	check("drift", "in groups that exist, rules to remove: 1; policies to enforce: 1")
}
