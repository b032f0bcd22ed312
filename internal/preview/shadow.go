package preview

import (
	"fmt"
	"slices"
	"strings"

	analysis "github.com/nephele-io/nephele/api/analysis/v1alpha1"
	"github.com/nephele-io/nephele/api/antrea/v1beta1"
	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan"
	"github.com/nephele-io/nephele/internal/explain"
	"github.com/nephele-io/nephele/internal/policy"
	"github.com/nephele-io/nephele/internal/reach"
	"github.com/nephele-io/nephele/internal/review"
)

// shadowed warns of rules that can never match, because others stand before them, and of manifests
// whose rules take from others what these decide about somebody: a Pass, or a rule of an earlier
// tier.
func (p *Planner) shadowed(made plans) (out []Warning) {
	if made.computation == nil {
		return nil
	}
	world, given := made.computation.Computed.World(true), p.given
	all := len(p.In.Documents) == 0
	for _, u := range world.RuleUses() {
		rule := explain.RuleOf(u.RuleRef)
		by := make([]analysis.Rule, len(u.By))
		for i := range u.By {
			by[i] = explain.RuleOf(u.By[i])
		}
		if u.Use != reach.Shadowed && u.Use != reach.Skipped || rule.Policy.Type == string(policy.KubernetesNetworkPolicy) ||
			!all && !given(rule.Policy) && !slices.ContainsFunc(by, func(r analysis.Rule) bool { return given(r.Policy) }) {
			continue
		}
		why := "before it come "
		if len(by) == 1 {
			why = "before it comes "
		}
		if len(by) == 0 {
			why = "Kubernetes NetworkPolicies stand before it wherever it applies"
		}
		out = append(out, Warning{WarnNeverMatches, fmt.Sprintf("%s: the rule %s never matches: %s%s", policyRef(rule.Policy), quotedName(rule), why, review.RulesText(by))})
	}
	if all {
		return out // nothing is new, so that nothing is taken away
	}
	for _, o := range world.Overrides("") {
		winner, loser := explain.RuleOf(o.Winner), explain.RuleOf(o.Loser)
		inForce := !given(loser.Policy) && loser.Policy.Type != string(policy.KubernetesNetworkPolicy)
		if !given(winner.Policy) || !o.Skips && !(inForce && winner.TierPriority < loser.TierPriority) {
			continue
		}
		verb := "decides before"
		if o.Skips {
			verb = "skips"
		}
		out = append(
			out,
			Warning{WarnTakesPrecedence, fmt.Sprintf("%s: the rule %s (%s) %s the rule %s (%s) of %s on %s", policyRef(winner.Policy), quotedName(winner), winner.Action, verb,
				quotedName(loser), loser.Action, policyRef(loser.Policy), endpointsText(o.Endpoints))},
		)
	}
	return out
}

// given reports whether a policy is one of the manifests.
func (p *Planner) given(x analysis.Policy) bool {
	kind := kindOf(policy.Policy{Namespace: x.Namespace})
	return x.Type != string(policy.KubernetesNetworkPolicy) && p.In.Documents[objectKey(v1beta1.GroupName, kind, x.Namespace, x.Name)] != nil
}

// cut warns of policies, of the manifests if there are any, that keep load balancers from their
// targets.
func (p *Planner) cut(made plans) (out []Warning) {
	if made.computation == nil {
		return nil
	}
	for _, c := range made.computation.Computed.Cuts() {
		if len(p.In.Documents) > 0 && !slices.ContainsFunc(c.Policies, p.given) {
			continue
		}
		out = append(out, Warning{warnCutsBalancer, cutText(c)})
	}
	return out
}

func cutText(c explain.Cut) string {
	names, from := make([]string, len(c.Policies)), make([]string, len(c.From))
	for i, by := range c.Policies {
		names[i] = policyRef(by)
	}
	for i, a := range c.From {
		from[i] = a.String()
	}
	what, then := "the health checks of the load balancer %s are", ": it takes them for dead then, and sends them nothing as long as others of the group live"
	switch {
	case c.Health && c.Traffic:
		what, then = "what the load balancer %s hands on and its health checks are", ""
	case c.Traffic:
		what, then = "what the load balancer %s hands on is", ""
	}
	return fmt.Sprintf("%s: %s not let in to %s (target group %s), %s port %d from %s%s", strings.Join(names, ", "), fmt.Sprintf(what, c.Balancer),
		strings.TrimSpace(cloud.Listed(c.Targets, false)), c.Group, c.Protocol, c.Port, strings.TrimSpace(cloud.Listed(from, false)), then)
}

func policyRef(p analysis.Policy) string {
	return plan.PolicyRef{Kind: v1beta2.NetworkPolicyType(p.Type), Namespace: p.Namespace, Name: p.Name}.String()
}

func quotedName(r analysis.Rule) string { return `"` + review.RuleName(r) + `"` }

// endpointsText names machines and Pods, each once.
func endpointsText(all []*reach.Endpoint) string {
	var names []string
	for _, e := range all {
		names = append(names, e.Name)
	}
	names = slices.Compact(slices.Sorted(slices.Values(names)))
	return strings.TrimSpace(cloud.Listed(names, false))
}
