package preview_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	analysis "github.com/nephele-io/nephele/api/analysis/v1alpha1"
	"github.com/nephele-io/nephele/internal/preview/previewtest"
)

// agentedManifests hand a VM of the real account to the agent in it. VERDICT is what the controller
// has told of that.
const agentedManifests = `---
apiVersion: crd.antrea.io/v1alpha1
kind: ExternalNode
metadata:
  name: virtualmachine-i-075dc46a9bc347264
  namespace: vms
  labels: {nephe.antrea.io/cloud-vm-uid: i-075dc46a9bc347264}
spec: {interfaces: [{name: eth0, ips: [192.168.1.25]}]}
---
apiVersion: crd.cloud.antrea.io/v1alpha1
kind: VirtualMachine
metadata: {name: i-075dc46a9bc347264, namespace: vms}
status:
  provider: AWS
  agented: true
  conditions: VERDICT
`

// planAgented plans for the real account with a VM that a selector hands over.
func planAgented(t *testing.T, status, reason, message, policy string) *analysis.AccountPlan {
	t.Helper()
	verdict := "[]"
	if status != "" {
		verdict = fmt.Sprintf("[{type: Agented, status: %q, reason: %s, message: %q, lastTransitionTime: '2026-01-02T03:04:05Z'}]", status, reason, message)
	}
	manifests := strings.Replace(previewtest.HybridManifests, "{matchID: i-0837c877110427f2b}]", "{matchID: i-0837c877110427f2b}]\n    agented: true", 1) +
		strings.Replace(agentedManifests, "VERDICT", verdict, 1) + "---" + policy
	p := previewtest.Planner(t, previewtest.AWS(t, previewtest.Simulated(t, previewtest.Loaded(t, previewtest.HybridCloud), 0), "us-west-2"), manifests)
	planned, err := p.Plan(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	answer := p.Answer(planned)
	if len(answer.Accounts) != 1 {
		t.Fatal(previewtest.JSON(answer))
	}
	return &answer.Accounts[0]
}

// TestPlanOfAgentedVMs: a VM whose agent enforces is planned as one that lets in what the agent
// decides, with what the agent has of each policy; one whose agent is not heard of, or could not
// enforce what is planned, as one that the cloud guards.
func TestPlanOfAgentedVMs(t *testing.T) {
	const vm = "us-west-2/i-075dc46a9bc347264"
	layer7 := strings.Replace(previewtest.SSHPolicy, "ports: [{port: 22}]", "l7Protocols: [{http: {}}]", 1)
	for name, c := range map[string]struct {
		status, reason, message, policy string
		enforces                        bool
		told                            string
		rule                            string
	}{
		"never heard of": {policy: previewtest.SSHPolicy, told: "the cloud guards the VM: no agent has told about itself", rule: "ingress tcp 22 from 10.0.0.0/8"},
		"silent": {status: "False", reason: "AgentSilent", message: "the cloud guards the VM: its agent has told nothing for long", policy: previewtest.SSHPolicy,
			told: "its agent has told nothing for long", rule: "ingress tcp 22 from 10.0.0.0/8"},
		"enforces": {status: "True", reason: "AgentEnforces", message: "the agent enforces", policy: previewtest.SSHPolicy, enforces: true,
			told: "the agent enforces; the cloud lets in all ingress", rule: "ingress all from 0.0.0.0/0"},
		"could not": {status: "True", reason: "AgentEnforces", message: "the agent enforces", policy: layer7,
			told: "its agent does not enforce AntreaNetworkPolicy vms/ssh: rule ssh: layer 7 protocols cannot be enforced by the agent"},
		"could not, and will": {status: "False", reason: "PolicyFailed", message: "its agent does not enforce it", policy: previewtest.SSHPolicy, enforces: true,
			told: "the agent enforces; the cloud lets in all ingress", rule: "ingress all from 0.0.0.0/0"},
	} {
		account := planAgented(t, c.status, c.reason, c.message, c.policy)
		i := slices.IndexFunc(account.Agents, func(a analysis.PlannedAgent) bool { return a.VM == vm })
		if i < 0 || len(account.Agents) != 2 {
			t.Fatalf("%s: %+v", name, account.Agents)
		}
		a := account.Agents[i]
		if a.Enforces != c.enforces || !strings.Contains(a.Message, c.told) || len(a.LetsIn) > 0 != c.enforces || a.ExternalNode != "vms/virtualmachine-i-075dc46a9bc347264" {
			t.Errorf("%s: %+v", name, a)
		}
		if len(a.Policies) != 1 || a.Policies[0].Ingress != 1 || a.Policies[0].Egress != 0 || a.Policies[0].Refused != "" != (c.policy == layer7) {
			t.Errorf("%s: %+v", name, a.Policies)
		}
		if j := slices.IndexFunc(account.Policies, func(p analysis.PlannedPolicy) bool { return p.Agents == 1 }); j >= 0 != c.enforces {
			t.Errorf("%s: %+v", name, account.Policies)
		}
		if groups := previewtest.JSON(account.Plan); !strings.Contains(groups, c.rule) {
			t.Errorf("%s: no %q in\n%s", name, c.rule, groups)
		}
	}
}
