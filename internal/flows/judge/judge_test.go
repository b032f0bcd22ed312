package judge

import (
	"testing"

	analysis "github.com/nephele-io/nephele/api/analysis/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/explain"
	"github.com/nephele-io/nephele/internal/flows"
)

// TestDiffers: what the interface of a machine with an agent lets pass may be dropped on the
// machine; what it drops though policies allow it is cut there as anywhere.
func TestDiffers(t *testing.T) {
	agent, none := analysis.End{Agent: explain.AgentOurs}, analysis.End{}
	for what, c := range map[string]struct {
		row      flows.Key
		from, to analysis.End
		verdict  Verdict
		want     Disagreement
	}{
		"leaks":                      {flows.Key{Direction: cloud.Ingress, Accepted: true}, none, none, Drop, Leaks},
		"to an agent":                {flows.Key{Direction: cloud.Ingress, Accepted: true}, none, agent, Drop, Agrees},
		"to an agent, midway":        {flows.Key{Direction: cloud.Ingress, Accepted: true, Midway: true}, none, agent, Drop, Agrees},
		"from an agent":              {flows.Key{Direction: cloud.Egress, Accepted: true}, agent, none, Drop, Agrees},
		"from an agent, at the peer": {flows.Key{Direction: cloud.Ingress, Accepted: true}, agent, none, Drop, Leaks},
		"midway":                     {flows.Key{Direction: cloud.Ingress, Accepted: true, Midway: true}, none, none, Drop, MayBeOld},
		"cut before an agent":        {flows.Key{Direction: cloud.Ingress}, none, agent, Allow, Cut},
		"refused":                    {flows.Key{Direction: cloud.Ingress, Refused: "BPA"}, none, none, Allow, RefusedByCloud},
		"agrees":                     {flows.Key{Direction: cloud.Ingress}, none, none, Drop, Agrees},
		"unknown":                    {flows.Key{Direction: cloud.Ingress, Accepted: true}, none, none, Unknown, Agrees},
	} {
		got := differs(&flows.Row{Key: c.row}, &Judgement{Verdict: c.verdict, From: c.from, To: c.to})
		if got != c.want {
			t.Errorf("%s: %q, want %q", what, got, c.want)
		}
	}
}
