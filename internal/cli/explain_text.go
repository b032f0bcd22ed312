package cli

import (
	"fmt"
	"strings"

	"github.com/nephele-io/nephele/internal/policy"
)

// text prints the answer for people.
func (x *explanation) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s -> %s, %s: %s\n", x.From.title, x.destination(), x.packetText(), x.Verdict)
	if x.Reason != "" {
		fmt.Fprintf(&b, "  %s\n", x.Reason)
	}
	if x.Service != nil && len(x.Service.Backends) > 0 {
		fmt.Fprintf(&b, "  %s hands it to %s\n", x.Service, x.Service.backendsText())
	}
	for _, n := range x.Notes {
		fmt.Fprintf(&b, "  note: %s\n", n)
	}
	if x.Egress != nil {
		writeDecisions(&b, "  ", x.From, x.To, x.Egress, x.AtService, x.Ingress)
	}
	for _, f := range x.Flows {
		to := f.To
		if f.Backend != nil {
			to = strings.TrimPrefix(to+" at "+f.Backend.String(), " at ")
		}
		fmt.Fprintf(&b, "  %s -> %s: %s\n", f.From, to, f.Verdict)
		writeDecisions(&b, "    ", x.From, f.at, f.Egress, f.AtService, f.Ingress)
	}
	return printableLines(b.String())
}

// destination names the destination, with the Service that the address belongs to.
func (x *explanation) destination() string {
	if x.Service != nil && x.To.Kind != policy.KindService.String() {
		return fmt.Sprintf("%s (%s)", x.To.title, x.Service)
	}
	return x.To.title
}

func (x *explanation) packetText() string {
	switch {
	case x.ICMPType != nil:
		return fmt.Sprintf("%s type %d code %d", x.Protocol, *x.ICMPType, *x.ICMPCode)
	case x.ICMPCode != nil:
		return fmt.Sprintf("%s echo request (type %d in IPv4, %d in IPv6) code %d", x.Protocol, echoRequest, echoRequestV6, *x.ICMPCode)
	case x.IGMPType != nil && x.IGMPGroup != "":
		return fmt.Sprintf("%s type %#x about %s", x.Protocol, *x.IGMPType, x.IGMPGroup)
	case x.IGMPType != nil:
		return fmt.Sprintf("%s type %#x", x.Protocol, *x.IGMPType)
	}
	return fmt.Sprintf("%s port %d", x.Protocol, x.Port)
}

// String names the Service for people.
func (s *explainedService) String() string {
	return serviceText(policy.NamespacedName{Namespace: s.Namespace, Name: s.Name})
}

// backendsText names some of those behind the Service.
func (s *explainedService) backendsText() string {
	const shown = 4
	var texts []string
	for _, b := range s.Backends[:min(shown, len(s.Backends))] {
		texts = append(texts, b.String())
	}
	text := strings.Join(texts, " or ")
	if more := len(s.Backends) - shown; more > 0 {
		text += fmt.Sprintf(" or %d others", more)
	}
	return text
}

// String names the backend for people.
func (b explainedBackend) String() string {
	if b.Name == "" {
		return fmt.Sprintf("%s port %d", b.Address, b.Port)
	}
	name := strings.TrimPrefix(b.Namespace+"/"+b.Name, "/")
	return fmt.Sprintf("%s %s (%s port %d)", b.Kind, name, b.Address, b.Port)
}

func writeDecisions(b *strings.Builder, indent string, from, to explainedEnd, egress, service, ingress *explainedDecision) {
	egress.write(b, indent, "egress ", from)
	if service != nil {
		service.write(b, indent, "service", explainedEnd{Kind: policy.KindService.String(), Enforcer: "every Node"})
	}
	ingress.write(b, indent, "ingress", to)
}

func (d *explainedDecision) write(b *strings.Builder, indent, direction string, at explainedEnd) {
	fmt.Fprintf(b, "%s%s %s: %s\n", indent, direction, d.Outcome, d.reason(at))
	if d.IfEnforced != nil {
		fmt.Fprintf(b, "%s        if enforced: %s: %s\n", indent, d.IfEnforced.Outcome, d.IfEnforced.reason(at))
	}
	for _, r := range d.Passed {
		fmt.Fprintf(b, "%s        passed: %s\n", indent, r)
	}
	for _, r := range d.Uncertain {
		fmt.Fprintf(b, "%s        may match, depending on a name or Service: %s\n", indent, r)
	}
}

func (d *explainedDecision) reason(at explainedEnd) string {
	switch {
	case d.NotEnforced != "":
		return "not enforced: " + d.NotEnforced + "; the security groups that the machine holds decide"
	case d.Failsafe != "":
		return "allowed by failsafe of account " + d.Failsafe + ", before any rule"
	case d.DecidedBy != nil:
		return d.DecidedBy.String()
	case d.Outcome == policy.OutcomeUnknown:
		return "only the enforcer knows: " + joined(d.Possible, " or ")
	case d.Default == string(policy.ExemptItself):
		return "it goes to where it comes from; no policy is asked"
	case d.Default == string(policy.ExemptOwnNode):
		return "it comes from the Pod's own Node, which is always let in"
	case d.Default == "none" && at.Kind == "":
		return "an address; no policy applies there"
	case d.Default == "none":
		return "no enforcer is responsible for it; no policy applies there"
	case d.Default == "isolated":
		return "no rule allows it, and the direction is isolated by " + policiesText(d.IsolatedBy)
	case at.cloudVM:
		return "no policy decides; the security groups that the machine has of its own do"
	}
	return "no policy decides; it is let through"
}

func policiesText(list []explainedPolicy) string {
	texts := make([]string, len(list))
	for i, p := range list {
		texts[i] = p.String()
	}
	return strings.Join(texts, ", ")
}

func joined[T ~string](list []T, separator string) string {
	texts := make([]string, len(list))
	for i, s := range list {
		texts[i] = string(s)
	}
	return strings.Join(texts, separator)
}

// String names the policy for people.
func (p explainedPolicy) String() string {
	if p.Namespace == "" {
		return fmt.Sprintf("%s %s", p.Type, p.Name)
	}
	return fmt.Sprintf("%s %s/%s", p.Type, p.Namespace, p.Name)
}

// String names the rule for people: by its place if it has no name.
func (r explainedRule) String() string {
	list := "ingress"
	if r.Direction == policy.Egress {
		list = "egress"
	}
	var text string
	switch {
	case r.Index < 0:
		text = r.Policy.String()
	case r.Policy.Type == policy.KubernetesNetworkPolicy:
		text = fmt.Sprintf("rule %s[%d] (%s)", list, r.Index, r.Policy)
	case r.Name == "":
		text = fmt.Sprintf("rule %s[%d] (%s, tier %d, priority %g)", list, r.Index, r.Policy, r.TierPriority, r.Priority)
	default:
		text = fmt.Sprintf("rule %q (%s, tier %d, priority %g, rule %d)", r.Name, r.Policy, r.TierPriority, r.Priority, r.Index)
	}
	if r.L7Protocols {
		text += ", as far as its l7Protocols let it"
	}
	if len(r.Through) > 0 {
		text += ", by the same address of " + strings.Join(r.Through, " and ")
	}
	if len(r.DependsOn) > 0 {
		text += ", if the destination is " + strings.Join(r.DependsOn, " or ")
	}
	return text
}
