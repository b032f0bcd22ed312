package cli

import (
	"fmt"
	"net/netip"
	"reflect"
	"strings"

	"github.com/nephele-io/nephele/internal/policy"
)

// explanation is the answer of explain.
type explanation struct {
	From explainedEnd `json:"from"`
	To   explainedEnd `json:"to"`
	// Protocol, and what it has of ports or ICMP type and code.
	Protocol policy.Protocol `json:"protocol"`
	Port     uint16          `json:"port,omitempty"`
	ICMPType *uint8          `json:"icmpType,omitempty"`
	ICMPCode *uint8          `json:"icmpCode,omitempty"`
	// Verdict is Allow, Drop, Reject, Native or Unknown for both directions together; Mixed if it depends on which
	// addresses the ends use.
	Verdict string `json:"verdict"`
	// Egress and Ingress are absent if there are Flows.
	Egress  *explainedDecision `json:"egress,omitempty"`
	Ingress *explainedDecision `json:"ingress,omitempty"`
	// Flows are the answers for single pairs of addresses, if these are not all treated alike.
	Flows []explainedFlow `json:"flows,omitempty"`
}

// mixed is the verdict if addresses make a difference.
const mixed = "Mixed"

type explainedEnd struct {
	Kind      string   `json:"kind,omitempty"`
	Namespace string   `json:"namespace,omitempty"`
	Name      string   `json:"name,omitempty"`
	Addresses []string `json:"addresses,omitempty"`
	// Enforcer is the key of who enforces policies there: the name of a Node, NAMESPACE/NAME of an ExternalNode, or what
	// spec.externalNode says. Without it nobody does.
	Enforcer string `json:"enforcer,omitempty"`

	title   string
	cloudVM bool
}

type explainedFlow struct {
	From    string             `json:"from,omitempty"`
	To      string             `json:"to,omitempty"`
	Verdict string             `json:"verdict"`
	Egress  *explainedDecision `json:"egress"`
	Ingress *explainedDecision `json:"ingress"`
}

// explainedDecision is the decision in one direction.
type explainedDecision struct {
	Outcome policy.Outcome `json:"outcome"`
	// DecidedBy is the rule; without it the default decided: Default says which one.
	DecidedBy *explainedRule `json:"decidedBy,omitempty"`
	// Default is "isolated" (what no rule allows is dropped), "native" (no policy decides) or "none" (there is nobody to
	// enforce a policy).
	Default string `json:"default,omitempty"`
	// IsolatedBy are the policies that make Drop the default.
	IsolatedBy []explainedPolicy `json:"isolatedBy,omitempty"`
	// Passed are the Pass rules on the way, in order.
	Passed []explainedRule `json:"passed,omitempty"`
	// Uncertain are rules that match or not, depending on what a name or Service stands for.
	Uncertain []explainedRule `json:"uncertain,omitempty"`
}

type explainedPolicy struct {
	Type      policy.PolicyKind `json:"type"`
	Namespace string            `json:"namespace,omitempty"`
	Name      string            `json:"name"`
}

type explainedRule struct {
	Policy       explainedPolicy  `json:"policy"`
	Direction    policy.Direction `json:"direction"`
	Name         string           `json:"name,omitempty"`
	Index        int32            `json:"index"`
	Action       policy.Action    `json:"action,omitempty"`
	TierPriority int32            `json:"tierPriority"`
	Priority     float64          `json:"priority"`
	// L7Protocols tells that the rule lets through only what its l7Protocols match, of which explain knows nothing.
	L7Protocols bool `json:"l7Protocols,omitempty"`
}

func newExplanation(from, to end, flow policy.Flow) *explanation {
	out := &explanation{From: explainEnd(from), To: explainEnd(to), Protocol: flow.Protocol, Port: flow.Port}
	if flow.Protocol == policy.ICMP {
		out.ICMPType, out.ICMPCode = &flow.ICMPType, &flow.ICMPCode
	}
	return out
}

func explainEnd(e end) explainedEnd {
	out := explainedEnd{Namespace: e.ref.Namespace, Name: e.ref.Name, Enforcer: e.enforcer, title: e.String(), cloudVM: e.isCloudVM()}
	if e.ref.Kind != 0 {
		out.Kind = e.ref.Kind.String()
	}
	for _, a := range e.addresses {
		out.Addresses = append(out.Addresses, a.String())
	}
	return out
}

// add takes the verdict on one pair of addresses.
func (x *explanation) add(pair [2]netip.Addr, v policy.Verdict) {
	f := explainedFlow{Egress: explainDecision(v.Egress, x.From), Ingress: explainDecision(v.Ingress, x.To)}
	if pair[0].IsValid() {
		f.From = pair[0].String()
	}
	if pair[1].IsValid() {
		f.To = pair[1].String()
	}
	f.Verdict = together(v.Egress.Outcome, v.Ingress.Outcome)
	x.Flows = append(x.Flows, f)
}

// together is the verdict of both directions.
func together(egress, ingress policy.Outcome) string {
	for _, o := range []policy.Outcome{policy.OutcomeDrop, policy.OutcomeReject, policy.OutcomeUnknown, policy.OutcomeNative} {
		if egress == o || ingress == o {
			return string(o)
		}
	}
	return string(policy.OutcomeAllow)
}

// finish folds the flows into one answer if they are all treated alike.
func (x *explanation) finish() {
	first := x.Flows[0]
	x.Verdict = first.Verdict
	for _, f := range x.Flows[1:] {
		if !reflect.DeepEqual(f.Egress, first.Egress) || !reflect.DeepEqual(f.Ingress, first.Ingress) {
			for _, f := range x.Flows {
				if f.Verdict != first.Verdict {
					x.Verdict = mixed
				}
			}
			return
		}
	}
	x.Egress, x.Ingress, x.Flows = first.Egress, first.Ingress, nil
}

func explainDecision(d policy.Decision, at explainedEnd) *explainedDecision {
	out := &explainedDecision{Outcome: d.Outcome}
	switch {
	case d.By != nil:
		r := explainRule(*d.By)
		out.DecidedBy = &r
	case d.Outcome == policy.OutcomeUnknown:
	case at.Enforcer == "":
		out.Default = "none"
	case d.Isolated:
		out.Default = "isolated"
	default:
		out.Default = "native"
	}
	for _, p := range d.IsolatedBy {
		out.IsolatedBy = append(out.IsolatedBy, explainPolicy(p))
	}
	for _, r := range d.Passed {
		out.Passed = append(out.Passed, explainRule(r))
	}
	for _, r := range d.Uncertain {
		out.Uncertain = append(out.Uncertain, explainRule(r))
	}
	return out
}

func explainPolicy(p policy.PolicyRef) explainedPolicy {
	return explainedPolicy{Type: p.Kind, Namespace: p.Namespace, Name: p.Name}
}

func explainRule(r policy.RuleRef) explainedRule {
	out := explainedRule{Policy: explainPolicy(r.Policy), Direction: r.Direction, TierPriority: r.TierPriority, Priority: r.Priority}
	if r.Rule != nil {
		out.Name, out.Index, out.Action = r.Rule.Name, r.Rule.Priority, r.Rule.Action
		out.L7Protocols = len(r.Rule.L7Protocols) > 0
	}
	return out
}

// text prints the answer for people.
func (x *explanation) text() string {
	var b strings.Builder
	what := string(x.Protocol)
	switch {
	case x.ICMPType != nil:
		what = fmt.Sprintf("%s type %d code %d", x.Protocol, *x.ICMPType, *x.ICMPCode)
	case x.Port != 0:
		what = fmt.Sprintf("%s port %d", x.Protocol, x.Port)
	}
	fmt.Fprintf(&b, "%s -> %s, %s: %s\n", x.From.title, x.To.title, what, x.Verdict)
	if x.Egress != nil {
		x.Egress.write(&b, "  ", "egress ", x.From)
		x.Ingress.write(&b, "  ", "ingress", x.To)
	}
	for _, f := range x.Flows {
		fmt.Fprintf(&b, "  %s -> %s: %s\n", f.From, f.To, f.Verdict)
		f.Egress.write(&b, "    ", "egress ", x.From)
		f.Ingress.write(&b, "    ", "ingress", x.To)
	}
	return b.String()
}

func (d *explainedDecision) write(b *strings.Builder, indent, direction string, at explainedEnd) {
	fmt.Fprintf(b, "%s%s %s: %s\n", indent, direction, d.Outcome, d.reason(at))
	for _, r := range d.Passed {
		fmt.Fprintf(b, "%s        passed: %s\n", indent, r)
	}
	for _, r := range d.Uncertain {
		fmt.Fprintf(b, "%s        may match, depending on a name or Service: %s\n", indent, r)
	}
}

func (d *explainedDecision) reason(at explainedEnd) string {
	switch {
	case d.DecidedBy != nil:
		return d.DecidedBy.String()
	case d.Outcome == policy.OutcomeUnknown:
		return "only the enforcer knows"
	case d.Default == "none" && at.Kind == "":
		return "an address; no policy applies there"
	case d.Default == "none":
		return "no enforcer is responsible for it; no policy applies there"
	case d.Default == "isolated":
		texts := make([]string, len(d.IsolatedBy))
		for i, p := range d.IsolatedBy {
			texts[i] = p.String()
		}
		return "no rule allows it, and the direction is isolated by " + strings.Join(texts, ", ")
	case at.cloudVM:
		return "no policy decides; the security groups that the machine has of its own do"
	}
	return "no policy decides; it is let through"
}

// String names the policy for people.
func (p explainedPolicy) String() string {
	if p.Namespace == "" {
		return fmt.Sprintf("%s %s", p.Type, p.Name)
	}
	return fmt.Sprintf("%s %s/%s", p.Type, p.Namespace, p.Name)
}

// String names the rule for people.
func (r explainedRule) String() string {
	if r.Policy.Type == policy.KubernetesNetworkPolicy {
		return r.Policy.String()
	}
	text := fmt.Sprintf("rule %q (%s, tier %d, priority %g, rule %d)", r.Name, r.Policy, r.TierPriority, r.Priority, r.Index)
	if r.L7Protocols {
		text += ", as far as its l7Protocols let it"
	}
	return text
}
