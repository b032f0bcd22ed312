package cli

import (
	"fmt"
	"strings"

	"github.com/nephele-io/nephele/internal/explain"
	"github.com/nephele-io/nephele/internal/policy"
)

// text prints the answer for people.
func explanationText(x *explain.Explanation) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s -> %s, %s: %s\n", printable(x.From.Title), destination(x), packetText(x), x.Verdict)
	if x.Reason != "" {
		fmt.Fprintf(&b, "  %s\n", x.Reason)
	}
	if x.Service != nil && len(x.Service.Backends) > 0 {
		fmt.Fprintf(&b, "  %s hands it to %s\n", x.Service, backendsText(x.Service))
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
		writeDecisions(&b, "    ", x.From, f.At, f.Egress, f.AtService, f.Ingress)
	}
	return printableLines(b.String())
}

// destination names the destination, with the Service that the address belongs to.
func destination(x *explain.Explanation) string {
	if x.Service != nil && x.To.Kind != policy.KindService.String() {
		return fmt.Sprintf("%s (%s)", printable(x.To.Title), x.Service)
	}
	return printable(x.To.Title)
}

func packetText(x *explain.Explanation) string {
	switch {
	case x.ICMPType != nil:
		return fmt.Sprintf("%s type %d code %d", x.Protocol, *x.ICMPType, *x.ICMPCode)
	case x.ICMPCode != nil:
		return fmt.Sprintf("%s echo request (type %d in IPv4, %d in IPv6) code %d", x.Protocol, explain.EchoRequest, explain.EchoRequestV6, *x.ICMPCode)
	case x.IGMPType != nil && x.IGMPGroup != "":
		return fmt.Sprintf("%s type %#x about %s", x.Protocol, *x.IGMPType, x.IGMPGroup)
	case x.IGMPType != nil:
		return fmt.Sprintf("%s type %#x", x.Protocol, *x.IGMPType)
	}
	return fmt.Sprintf("%s port %d", x.Protocol, x.Port)
}

// backendsText names some of those behind the Service.
func backendsText(s *explain.Service) string {
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

func writeDecisions(b *strings.Builder, indent string, from, to explain.End, egress, service, ingress *explain.Decision) {
	writeDecision(b, egress, indent, "egress ", from)
	if service != nil {
		writeDecision(b, service, indent, "service", explain.End{Kind: policy.KindService.String(), Enforcer: "every Node"})
	}
	writeDecision(b, ingress, indent, "ingress", to)
}

func writeDecision(b *strings.Builder, d *explain.Decision, indent, direction string, at explain.End) {
	fmt.Fprintf(b, "%s%s %s: %s\n", indent, direction, d.Outcome, reason(d, at))
	if d.IfEnforced != nil {
		fmt.Fprintf(b, "%s        if enforced: %s: %s\n", indent, d.IfEnforced.Outcome, reason(d.IfEnforced, at))
	}
	for _, r := range d.Passed {
		fmt.Fprintf(b, "%s        passed: %s\n", indent, r)
	}
	for _, r := range d.Uncertain {
		fmt.Fprintf(b, "%s        may match, depending on a name or Service: %s\n", indent, r)
	}
}

func reason(d *explain.Decision, at explain.End) string {
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
		return "no rule allows it, and the direction is isolated by " + explain.PoliciesText(d.IsolatedBy)
	case at.CloudVM:
		return "no policy decides; the security groups that the machine has of its own do"
	}
	return "no policy decides; it is let through"
}

func joined[T ~string](list []T, separator string) string {
	texts := make([]string, len(list))
	for i, s := range list {
		texts[i] = string(s)
	}
	return strings.Join(texts, separator)
}
