package azure_test

import (
	"testing"
	"time"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/azure"
	"github.com/nephele-io/nephele/internal/cloud/azure/resources"
	"github.com/nephele-io/nephele/internal/cloud/cloudtest"
	simazure "github.com/nephele-io/nephele/internal/sim/azure"
	"github.com/nephele-io/nephele/internal/sim/azure/document"
	"github.com/nephele-io/nephele/internal/sim/calls"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	cloudtest.Run(t, func(t *testing.T) cloudtest.World { return newLab(t, nil).conforming() })
}

// conforming is the lab as the conformance suite wants it.
func (l *lab) conforming() cloudtest.World {
	a := l.account(func(c *azure.Config) {
		c.MaxAttempts, c.FirstRetry, c.Cluster = 3, time.Millisecond, "test"
	})
	s := l.observe(a)
	w := cloudtest.World{
		Provider: a, Scope: inRegion, Network: s.Networks[0].ID, Other: s.Networks[1].ID,
		Reads: []string{graphRead},
		Writes: map[cloud.OpKind][]string{
			cloud.OpCreateGroup:        {"Microsoft.Network/applicationSecurityGroups/write", "Microsoft.Network/networkSecurityGroups/write"},
			cloud.OpAddRules:           {"Microsoft.Network/networkSecurityGroups/write"},
			cloud.OpRemoveRules:        {"Microsoft.Network/networkSecurityGroups/write"},
			cloud.OpReplaceRules:       {"Microsoft.Network/networkSecurityGroups/write"},
			cloud.OpSetInterfaceGroups: {"Microsoft.Network/networkInterfaces/write"},
			cloud.OpTag:                {"Microsoft.Resources/tags/write"},
			cloud.OpUntag:              {"Microsoft.Resources/tags/write"},
			cloud.OpDeleteGroup:        {"Microsoft.Network/applicationSecurityGroups/delete", "Microsoft.Network/networkSecurityGroups/delete"},
		},
		Disturb: l.disturb, Calm: l.faults.Clear,
		ListOfPrefixes: "Storage.WestEurope",
		Holds: func(m cloud.Match) bool {
			switch m.Protocol {
			case cloud.AnyProtocol, cloud.TCP, cloud.UDP, 50, 51:
				return true
			case cloud.ICMP, cloud.ICMPv6:
				return m.From < 0
			}
			return false
		},
	}
	w.CreateForeign = func(name string) string {
		id := "/subscriptions/" + subscription + "/resourceGroups/shop/providers/Microsoft.Network/networkSecurityGroups/" + resources.NameIn(w.Network, name)
		l.change(func(c *simazure.Cloud) {
			at, _ := document.ParseID(id)
			p := c.Principals()[0]
			if _, err := c.Put(simazure.Write{By: &p, Now: l.now}, at, map[string]any{"location": region, "tags": map[string]any{
				"nephele.io_cluster": "somebody else", "nephele.io_kind": "class"}, "properties": map[string]any{}}); err != nil {
				l.t.Fatal(err)
			}
		})
		return lower(id)[0]
	}
	return w
}

func (l *lab) disturb(call string, d cloudtest.Disturbance, times int) {
	f := calls.Fault{Action: call, Times: times}
	switch d {
	case cloudtest.LostAnswer:
		f.LoseAnswer = true
	case cloudtest.NoConnection:
		f.Drop = true
	case cloudtest.Throttle:
		f.Code, f.Status = "TooManyRequests", 429
	case cloudtest.Broken:
		f.Code = "InternalServerError"
	case cloudtest.Refused:
		f.Code, f.Status = "AuthorizationFailed", 403
	default:
		l.t.Fatalf("no such disturbance: %s", d)
	}
	l.faults.Add(f)
}
