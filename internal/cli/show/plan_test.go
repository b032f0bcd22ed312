package show

import (
	"strings"
	"testing"

	analysis "github.com/nephele-io/nephele/api/analysis/v1alpha1"
)

// TestPlanOfAgents: a plan lists the VMs that are handed to agents, with what the agent has of each
// policy.
func TestPlanOfAgents(t *testing.T) {
	answer := analysis.PlanAnswer{Accounts: []analysis.AccountPlan{{Account: "vms/a", Agents: []analysis.PlannedAgent{{
		VM: "r/i-1", VMName: "web-1", ExternalNode: "vms/en", Message: "the agent enforces",
		Policies: []analysis.AgentPolicy{{Policy: "vms/ssh", Ingress: 1, Egress: 2}, {Policy: "vms/http", Refused: "layer 7"}},
	}}}}}
	var b strings.Builder
	if err := Plans(&b, answer, false); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"Handed to agents:\n", "web-1 (ExternalNode vms/en): the agent enforces\n", "vms/ssh: 1 rule for ingress and 2 for egress on the host\n", "! vms/http: the agent refuses it: layer 7\n",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
}
