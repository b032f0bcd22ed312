package control

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"net/netip"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
	"github.com/nephele-io/nephele/internal/policy"
	"github.com/nephele-io/nephele/internal/policy/compute"
	"github.com/nephele-io/nephele/internal/policy/evaluate"
)

// isolationRuleIndex is the index for the default of a Pod that a Kubernetes NetworkPolicy
// isolates, which is no rule.
const isolationRuleIndex = math.MaxInt32

// UnknownPodError says that a Pod that was asked about does not exist.
type UnknownPodError struct{ types.NamespacedName }

// UnknownPod returns its name.
func (e UnknownPodError) UnknownPod() types.NamespacedName { return e.NamespacedName }

// Error implements error.
func (e UnknownPodError) Error() string { return fmt.Sprintf("there is no Pod %s", e.NamespacedName) }

// EvaluatePods returns the rule that decides about traffic from one Pod to another, or nil if no
// rule does. Egress at the source and ingress at the destination are decided apart, each by the
// first rule that matches: the answer is the one that does not let the traffic pass, egress first;
// if both let it pass, that of the two that comes first in the order of rules. The default of an
// isolated Pod is a rule without action with the index 2147483647.
//
// Packets carry the first addresses of both Pods that are of one family. The question names no
// ports: rules count as if they were for all traffic. Neither does it name a domain name or a
// Service, so peers of that kind do not count. To a Pod in the network of its Node the policies of
// the Node apply. No policy is asked about what a Pod sends to itself, and at the destination about
// what comes from its own Node. An unknown Pod is an UnknownPodError.
func (c *Controller) EvaluatePods(ctx context.Context, source, destination types.NamespacedName) (*v1beta2.NetworkPolicyEvaluationResponse, error) {
	pods := [2]policy.EntityRef{
		{Kind: policy.KindPod, Namespace: source.Namespace, Name: source.Name},
		{Kind: policy.KindPod, Namespace: destination.Namespace, Name: destination.Name},
	}
	var states [2]compute.EntityState
	var known [2]bool
	ends := pods
	var part *policy.Listing
	err := c.query(ctx, func(e *compute.Engine) {
		// Address groups go by address: every object with one of the Pod's addresses counts, such
		// as its Node.
		concerned := pods[:]
		for i, ref := range pods {
			states[i], known[i] = e.Entity(ref)
			for _, a := range states[i].Addresses {
				concerned = append(concerned, c.directory.at(a)...)
			}
			if node, ok := networkOf(e, states[i]); ok {
				ends[i] = node
				concerned = append(concerned, node)
			}
		}
		part = e.AppliedTo(concerned...)
	})
	if err != nil {
		return nil, err
	}
	for i, ok := range known {
		if !ok {
			return nil, UnknownPodError{types.NamespacedName{Namespace: pods[i].Namespace, Name: pods[i].Name}}
		}
	}
	flow := evaluate.Flow{Protocol: policy.TCP}
	flow.Source.EntityRef, flow.Destination.EntityRef = ends[0], ends[1]
	flow.Source.Addr, flow.Destination.Addr = sameFamily(states[0].Addresses, states[1].Addresses)
	part = forAllTraffic(part)
	return response(evaluate.New(part).Evaluate(flow), part), nil
}

// networkOf returns the Node in whose network a Pod is: such Pods have an address of their Node.
func networkOf(e *compute.Engine, pod compute.EntityState) (policy.EntityRef, bool) {
	node := policy.EntityRef{Kind: policy.KindNode, Name: pod.Host}
	state, ok := e.Entity(node)
	shares := func(a netip.Addr) bool { return slices.Contains(state.Addresses, a) }
	return node, ok && pod.Excluded && slices.ContainsFunc(pod.Addresses, shares)
}

// sameFamily returns the first addresses of both ends that can talk to each other; invalid ones if
// there are none.
func sameFamily(a, b []netip.Addr) (netip.Addr, netip.Addr) {
	for _, x := range a {
		for _, y := range b {
			if x.Is4() == y.Is4() {
				return x, y
			}
		}
	}
	return netip.Addr{}, netip.Addr{}
}

// forAllTraffic copies a listing with rules that do not look at ports, and only at peers that are
// known.
func forAllTraffic(l *policy.Listing) *policy.Listing {
	out := *l
	out.Policies = make([]policy.PolicySpan, len(l.Policies))
	for i, p := range l.Policies {
		c := *p.ComputedPolicy
		c.Rules = slices.Clone(c.Rules)
		for j := range c.Rules {
			r := &c.Rules[j]
			content := *r.RuleContent
			content.Services, content.FQDNs, content.ToServices = nil, nil, nil
			r.RuleContent = &content
		}
		out.Policies[i] = policy.PolicySpan{ComputedPolicy: &c}
	}
	return &out
}

// response says which of two decisions counts. The rules are looked up in the listing, where they
// have their place.
func response(v evaluate.Verdict, l *policy.Listing) *v1beta2.NetworkPolicyEvaluationResponse {
	passes := func(d evaluate.Decision) bool {
		return d.Outcome == evaluate.OutcomeAllow || d.Outcome == evaluate.OutcomeNative
	}
	switch {
	case !passes(v.Egress):
		return decided(v.Egress, policy.Egress, l)
	case !passes(v.Ingress):
		return decided(v.Ingress, policy.Ingress, l)
	case v.Egress.By == nil:
		return decided(v.Ingress, policy.Ingress, l)
	case v.Ingress.By == nil || !comesBefore(v.Ingress.By, v.Egress.By):
		return decided(v.Egress, policy.Egress, l)
	}
	return decided(v.Ingress, policy.Ingress, l)
}

// comesBefore compares rules of two directions in the order of evaluation; the name of the policy
// decides between equals.
func comesBefore(a, b *evaluate.RuleRef) bool {
	return cmp.Or(
		cmp.Compare(a.TierPriority, b.TierPriority), cmp.Compare(a.Priority, b.Priority), cmp.Compare(a.Rule.Priority, b.Rule.Priority),
		strings.Compare(a.Policy.Name, b.Policy.Name), strings.Compare(a.Policy.Namespace, b.Policy.Namespace),
	) < 0
}

func decided(d evaluate.Decision, direction policy.Direction, l *policy.Listing) *v1beta2.NetworkPolicyEvaluationResponse {
	if d.By == nil {
		if !d.Isolated {
			return nil
		}
		return &v1beta2.NetworkPolicyEvaluationResponse{
			NetworkPolicy: policyReference(d.IsolatedBy[0]), RuleIndex: isolationRuleIndex, Rule: v1beta2.RuleRef{Direction: v1beta2.Direction(direction)},
		}
	}
	action := v1beta2.RuleAction(d.By.Rule.Action)
	return &v1beta2.NetworkPolicyEvaluationResponse{
		NetworkPolicy: policyReference(d.By.Policy), RuleIndex: placeOf(d.By, l),
		Rule: v1beta2.RuleRef{Direction: v1beta2.Direction(direction), Name: d.By.Rule.Name, Action: &action},
	}
}

// placeOf returns the index of a rule of the listing among the rules of its direction.
func placeOf(by *evaluate.RuleRef, l *policy.Listing) int32 {
	for _, p := range l.Policies {
		for i := range p.Rules {
			if &p.Rules[i] == by.Rule {
				return ruleIndex(p.ComputedPolicy, i)
			}
		}
	}
	return by.Rule.Priority
}
