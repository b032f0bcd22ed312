package preview

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	analysis "github.com/nephele-io/nephele/api/analysis/v1alpha1"
	cloudv1alpha1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
	"github.com/nephele-io/nephele/internal/agent/nft"
	"github.com/nephele-io/nephele/internal/agent/nft/ruleset"
	"github.com/nephele-io/nephele/internal/apiserver/watchstore"
	"github.com/nephele-io/nephele/internal/cloud/handover"
	"github.com/nephele-io/nephele/internal/cloud/plan"
	"github.com/nephele-io/nephele/internal/cloud/realize"
	"github.com/nephele-io/nephele/internal/enforcer"
)

// agented is what becomes of the VMs of an account that selectors hand to agents.
type agented struct {
	told []analysis.PlannedAgent
	// left are the VMs that agents guard, with the directions in which the cloud lets everything
	// in.
	left map[plan.VMRef][2]bool
}

// agents finds out what becomes of the VMs that selectors hand to agents. Which agents are well the
// controller has told by conditions of the VMs; what these will make of what is planned is computed
// as they do.
func (p *Planner) agents(acct realize.Account, computed *watchstore.Store) (agented, error) {
	out := agented{left: map[plan.VMRef][2]bool{}}
	for _, vm := range slices.SortedFunc(maps.Keys(acct.Agents), func(a, b plan.VMRef) int {
		return cmp.Or(strings.Compare(a.Region, b.Region), strings.Compare(a.ID, b.ID))
	}) {
		to := acct.Agents[vm]
		v, err := ViewOf(computed, to.Node)
		if err != nil {
			return agented{}, err
		}
		policies, isolates := atAgent(v)
		told := analysis.PlannedAgent{VM: vm.String(), ExternalNode: to.Node, LetsIn: []string{}, Policies: policies}
		former, agent := p.agentOf(to, isolates)
		if agent.Told.IsZero() && former.Message != "" { // the controller knows why
			told.Message = former.Message
			out.told = append(out.told, told)
			continue
		}
		asks := make([]handover.Policy, 0, len(policies))
		for _, x := range policies {
			asks = append(asks, handover.Policy{Name: x.Policy, Isolates: isolates, Reported: true, Failure: x.Refused})
		}
		s := handover.Decide(former, agent, asks, agent.Told)
		told.Enforces, told.Message = s.Handed, s.Message
		if s.Handed {
			out.left[vm] = s.Open
		}
		for i, d := range []ruleset.Direction{ruleset.Ingress, ruleset.Egress} {
			if s.Open[i] {
				told.LetsIn = append(told.LetsIn, d.String())
			}
		}
		out.told = append(out.told, told)
	}
	return out, nil
}

// agentOf is what is known of the agent of a VM, and what the controller has made of that. An agent
// that has told nothing, or is not well, has not been heard.
func (p *Planner) agentOf(to realize.VMAgent, isolates handover.Directions) (handover.State, handover.Agent) {
	agent := handover.Agent{Denied: to.Denied, Healthy: true, Connected: true, Heeds: true, Isolates: isolates}
	for _, vm := range p.In.Objects.VMs {
		if vm.Namespace+"/"+cloudv1alpha1.EntityNamePrefix+vm.Name != to.Node {
			continue
		}
		c := meta.FindStatusCondition(vm.Status.Conditions, cloudv1alpha1.ConditionAgented)
		if c == nil {
			break
		}
		switch c.Reason {
		case handover.ReasonEnforcing, handover.ReasonFailed, handover.ReasonPending: // it is well
			agent.Told = time.Unix(1, 0)
		}
		return handover.State{Handed: c.Status == "True", Open: isolates, Message: c.Message}, agent
	}
	return handover.State{}, agent
}

// atAgent compiles what is computed for an agent, as it does itself, and returns what becomes of
// each policy and which directions are isolated.
func atAgent(v View) (policies []analysis.AgentPolicy, isolates handover.Directions) {
	result := new(nft.Compiler).Compile(nft.Input{
		Computed: enforcer.Computed{Policies: v.Policies, AddressGroups: enforcer.NewAddressGroups(v.AddressGroups), AppliedToGroups: v.AppliedToGroups}, Names: &nft.Names{},
	})
	refused := map[string]string{}
	for _, r := range result.Refusals {
		refused[r.Policy] = r.String()
	}
	here := map[string]bool{}
	for _, g := range v.AppliedToGroups {
		here[g.Name] = true
	}
	policies = []analysis.AgentPolicy{}
	for _, x := range v.Policies {
		told := analysis.AgentPolicy{Policy: x.Name, Refused: refused[x.Name]}
		if x.SourceRef != nil {
			told.Policy = plan.PolicyRef{Kind: x.SourceRef.Type, Namespace: x.SourceRef.Namespace, Name: x.SourceRef.Name}.String()
		}
		for i := range x.Rules {
			r := &x.Rules[i]
			groups := r.AppliedToGroups
			if len(groups) == 0 {
				groups = x.AppliedToGroups
			}
			switch {
			case !slices.ContainsFunc(groups, func(g string) bool { return here[g] }):
			case r.Direction == v1beta2.DirectionOut:
				told.Egress++
			default:
				told.Ingress++
			}
		}
		policies = append(policies, told)
	}
	slices.SortFunc(policies, func(a, b analysis.AgentPolicy) int { return strings.Compare(a.Policy, b.Policy) })
	return policies, result.Isolated
}
