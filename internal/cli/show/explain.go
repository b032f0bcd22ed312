package show

import (
	"fmt"
	"slices"
	"strings"

	analysis "github.com/nephele-io/nephele/api/analysis/v1alpha1"
	"github.com/nephele-io/nephele/internal/cli/terminal"
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/explain"
	"github.com/nephele-io/nephele/internal/explain/leaving"
	"github.com/nephele-io/nephele/internal/policy"
	"github.com/nephele-io/nephele/internal/policy/evaluate"
)

// text prints the answer for people.
func Explanation(x *analysis.FlowAnswer) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s -> %s, %s: %s\n", terminal.Printable(x.From.Title), destination(x), packetText(x), x.Verdict)
	if x.Wanted != x.Verdict {
		fmt.Fprintf(&b, "  if everything were enforced: %s\n", x.Wanted)
	}
	if x.Reason != "" {
		fmt.Fprintf(&b, "  %s\n", x.Reason)
	}
	for _, w := range wayText(x.Path) {
		fmt.Fprintf(&b, "  %s\n", w)
	}
	if x.Service != nil && len(x.Service.Backends) > 0 {
		fmt.Fprintf(&b, "  %s hands it to %s\n", explain.ServiceText(x.Service), backendsText(x.Service))
	}
	for _, n := range x.Notes {
		fmt.Fprintf(&b, "  note: %s\n", n)
	}
	if x.Egress != nil {
		writeDecisions(&b, "  ", x.From, x.To, x.Egress, x.AtService, x.Ingress)
		writeLeaving(&b, "  ", x.Leaving)
		writePoints(&b, "  ", x.Points)
		writeBalanced(&b, "  ", packetText(x), x.Balanced)
	}
	for _, f := range x.Flows {
		to := f.To
		if f.Backend != nil {
			to = strings.TrimPrefix(to+" at "+explain.BackendText(*f.Backend), " at ")
		}
		fmt.Fprintf(&b, "  %s -> %s: %s\n", f.From, to, f.Verdict)
		for _, w := range wayText(f.Path) {
			fmt.Fprintf(&b, "    %s\n", w)
		}
		at := x.To
		if f.At != nil {
			at = *f.At
		}
		writeDecisions(&b, "    ", x.From, at, f.Egress, f.AtService, f.Ingress)
		writeLeaving(&b, "    ", f.Leaving)
		writePoints(&b, "    ", f.Points)
		writeBalanced(&b, "    ", packetText(x), f.Balanced)
	}
	return terminal.PrintableLines(b.String())
}

// destination names the destination, with the Service that the address belongs to.
func destination(x *analysis.FlowAnswer) string {
	if x.Service != nil && x.To.Kind != policy.KindService.String() {
		return fmt.Sprintf("%s (%s)", terminal.Printable(x.To.Title), explain.ServiceText(x.Service))
	}
	return terminal.Printable(x.To.Title)
}

func packetText(x *analysis.FlowAnswer) string {
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
func backendsText(s *analysis.Service) string {
	const shown = 4
	var texts []string
	for _, b := range s.Backends[:min(shown, len(s.Backends))] {
		texts = append(texts, explain.BackendText(b))
	}
	text := strings.Join(texts, " or ")
	if more := len(s.Backends) - shown; more > 0 {
		text += fmt.Sprintf(" or %d others", more)
	}
	return text
}

func writeDecisions(b *strings.Builder, indent string, from, to analysis.End, egress, service, ingress *analysis.Decision) {
	writeDecision(b, egress, indent, "egress ", from)
	if service != nil {
		writeDecision(b, service, indent, "service", analysis.End{Kind: policy.KindService.String(), Enforcer: "every Node"})
	}
	writeDecision(b, ingress, indent, "ingress", to)
}

func writeDecision(b *strings.Builder, d *analysis.Decision, indent, direction string, at analysis.End) {
	fmt.Fprintf(b, "%s%s %s: %s\n", indent, direction, d.Outcome, reason(d, at))
	for _, p := range d.Policies {
		if p.Why != "" {
			fmt.Fprintf(b, "%s        %s: %s\n", indent, explain.PolicyText(p.Policy), p.Why)
		}
	}
	if d.IfEnforced != nil {
		fmt.Fprintf(b, "%s        if enforced: %s: %s\n", indent, d.IfEnforced.Outcome, reason(d.IfEnforced, at))
	}
	for _, r := range d.Passed {
		fmt.Fprintf(b, "%s        passed: %s\n", indent, explain.RuleText(r))
	}
	for _, r := range d.Uncertain {
		fmt.Fprintf(b, "%s        may match, depending on a name or Service: %s\n", indent, explain.RuleText(r))
	}
}

// writePoints tells where policies are enforced, if there is more to say of it than that a cloud
// does, which the decisions tell.
func writePoints(b *strings.Builder, indent string, points []analysis.Point) {
	for _, p := range points {
		if text := pointText(p); text != "" {
			fmt.Fprintf(b, "%s%s at %s: %s\n", indent, p.Stage, terminal.Printable(p.At), text)
		}
	}
}

// writeLeaving tells how an Egress lets a packet leave the cluster.
func writeLeaving(b *strings.Builder, indent string, l *analysis.Leaving) {
	if l == nil {
		return
	}
	text := "it leaves with " + l.Address
	if l.Node != "" {
		text += ", which Node " + terminal.Printable(l.Node) + " has"
	}
	switch {
	case l.State == leaving.Dropped:
		text = "DROPPED instead of leaving otherwise: " + terminal.Printable(l.Why)
	case l.State != leaving.Leaves && l.Address == "":
		text = "it leaves or is dropped: " + terminal.Printable(l.Why)
	case l.State != leaving.Leaves:
		text = fmt.Sprintf("it leaves with %s or is dropped: %s", l.Address, terminal.Printable(l.Why))
	}
	fmt.Fprintf(b, "%sby Egress %s: %s\n", indent, terminal.Printable(l.Egress), text)
}

// writeBalanced tells how a load balancer hands a packet on.
func writeBalanced(b *strings.Builder, indent, packet string, x *analysis.Balanced) {
	if x == nil {
		return
	}
	protocol, _, _ := strings.Cut(packet, " ")
	fmt.Fprintf(b, "%sload balancer %s hands it on:\n", indent, terminal.Printable(x.Balancer))
	for _, u := range x.Unknown {
		fmt.Fprintf(b, "%s  to target group %s\n", indent, terminal.Printable(u))
	}
	for i := range x.Targets {
		t := &x.Targets[i]
		whose := "the balancer's address"
		if t.Preserved {
			whose = "the client's address, which is preserved"
		}
		fmt.Fprintf(b, "%s  to %s (target group %s), %s port %d, from %s: %s\n", indent, terminal.Printable(t.At.Title), terminal.Printable(t.Group), protocol, t.Traffic.Port,
			strings.TrimSpace(t.Traffic.From+" ("+whose+")"), t.Traffic.Verdict)
		writeHop(b, indent+"    ", t.At, &t.Traffic)
		if t.Health != nil {
			fmt.Fprintf(b, "%s    health checks, TCP port %d, from %s (%s address): %s\n", indent, t.Health.Port, t.Health.From, proberText(x), t.Health.Verdict)
			if t.Health.Verdict != t.Traffic.Verdict || t.Health.Wanted != t.Traffic.Wanted || t.Preserved || t.Health.Port != t.Traffic.Port {
				writeHop(b, indent+"      ", t.At, t.Health)
			}
		}
		if !t.InUse {
			fmt.Fprintf(b, "%s    the health checks fail, so the balancer sends it nothing as long as they reach others of the group\n", indent)
		}
		if t.Further {
			fmt.Fprintf(b, "%s    it is a load balancer itself: ask about the way from there\n", indent)
		}
	}
}

// proberText says whose address health checks of a target come from.
func proberText(x *analysis.Balanced) string {
	if x.Kind == string(cloud.LoadBalancer) {
		return "the cloud's"
	}
	return "the balancer's"
}

// writeHop tells the way from a balancer to a target, and what decides there.
func writeHop(b *strings.Builder, indent string, at analysis.End, h *analysis.Hop) {
	if h.Wanted != h.Verdict {
		fmt.Fprintf(b, "%sif everything were enforced: %s\n", indent, h.Wanted)
	}
	for _, w := range wayText(h.Path) {
		fmt.Fprintf(b, "%s%s\n", indent, w)
	}
	writeDecisions(b, indent, analysis.End{}, at, h.Egress, nil, h.Ingress)
}

func pointText(p analysis.Point) string {
	if p.Lost == explain.LossSource {
		text := "the source may be hidden behind an address of the Node from here on, and rules for the real sender do not match then"
		if p.Otherwise != "" {
			text += fmt.Sprintf("; ingress would be %s", p.Otherwise)
		}
		return text
	}
	by := map[string]string{
		explain.MeansGroups: "by security groups", explain.MeansHostAgent: "by the agent on the host", explain.MeansNodeAgent: "by the agent on the Node",
		explain.MeansNodes: "by every Node",
	}[p.By]
	why := ""
	if p.Why != "" {
		why = ": " + terminal.Printable(p.Why)
	}
	switch p.State {
	case explain.PointEnforced:
		if p.By == explain.MeansGroups && p.Why == "" {
			return ""
		}
		return "enforced " + by + why
	case explain.PointNotEnforceable:
		return "NOT ENFORCEABLE" + why
	case explain.PointNotEnforced:
		return "to be enforced " + by + ", which says that not all is well" + why
	case explain.PointUntold:
		return strings.TrimSpace("to be enforced "+by) + why
	}
	return ""
}

// reason says why a decision is as it is.
func reason(d *analysis.Decision, at analysis.End) string {
	text := because(d, at)
	switch {
	case d.Groups == nil || d.Default == explain.DefaultGroups:
	case explain.CloudVM(at) && d.Native != nil && d.Native.Rule == d.Groups.Rule && sameGroup(d.Native.Group, d.Groups.Group): // told already
	default:
		text += "; " + enforcedBy(d.Groups)
	}
	for _, p := range d.Policies {
		if d.Default != explain.DefaultGroups && p.State == explain.StatePending {
			text += "; " + stateText(p)
		}
	}
	return text
}

func sameGroup(a, b *analysis.Group) bool { return a == b || a != nil && b != nil && *a == *b }

func because(d *analysis.Decision, at analysis.End) string {
	const unknown = string(evaluate.OutcomeUnknown)
	switch {
	case d.Default == explain.DefaultGroups:
		return today(d, at)
	case d.Default == explain.DefaultUnguarded:
		return "NOT ENFORCEABLE there, and nothing else filters it"
	case d.NotEnforced != "":
		return "not enforced: " + d.NotEnforced + "; the security groups that the machine holds decide"
	case d.IfEnforced != nil:
		return statesText(d.Policies) + "; the security groups that the machine holds decide, and were not read"
	case d.Failsafe != "":
		return "allowed by failsafe of account " + d.Failsafe + ", before any rule"
	case d.HostFailsafe != "":
		return "failsafe: the agent of host " + d.HostFailsafe + " lets it through, before any rule"
	case d.DecidedBy != nil:
		return explain.RuleText(*d.DecidedBy)
	case d.Native != nil && d.Outcome != unknown:
		return "no policy decides, the machine's own groups do: " + groupsText(d.Native)
	case d.Outcome == unknown && d.Native != nil && len(d.Uncertain) == 0:
		return "no policy decides, the machine's own groups do: " + groupsText(d.Native)
	case d.Outcome == unknown && slices.ContainsFunc(d.Uncertain, func(r analysis.Rule) bool { return slices.Contains(r.DependsOn, explain.DependsOnUnseen) }):
		return "it depends on members that you may not see: " + joined(d.Possible, " or ")
	case d.Outcome == unknown:
		return "only the enforcer knows: " + joined(d.Possible, " or ")
	case d.Default == explain.DefaultPlatform:
		return "the cloud's own health checks are always let in"
	case d.Default == explain.DefaultReturns:
		return "it would come back to its sender, and the cloud does not carry that"
	case d.Default == explain.DefaultNobody:
		return "there is no machine of this target"
	case d.Default == string(evaluate.ExemptItself):
		return "it goes to where it comes from; no policy is asked"
	case d.Default == string(evaluate.ExemptOwnNode):
		return "it comes from the Pod's own Node, which is always let in"
	case d.Default == explain.DefaultMachine:
		return "it does not leave the machine; no policy and no security group is asked"
	case d.Default == explain.DefaultNone && at.Kind == "":
		return "an address; no policy applies there"
	case d.Default == explain.DefaultNone:
		return "no enforcer is responsible for it; no policy applies there"
	case d.Default == explain.DefaultIsolated:
		return "no rule allows it, and the direction is isolated by " + explain.PoliciesText(d.IsolatedBy)
	case explain.CloudVM(at):
		return "no policy decides; the security groups that the machine has of its own do"
	}
	return "no policy decides; it is let through"
}

// today says what the groups of an interface do, and why policies do not decide.
func today(d *analysis.Decision, at analysis.End) string {
	switch {
	case d.NotEnforced != "":
		return "not enforced: " + d.NotEnforced + "; today " + groupsText(d.Groups)
	case len(d.Policies) > 0:
		return statesText(d.Policies) + "; today " + groupsText(d.Groups)
	case d.Differs != "":
		return "today " + groupsText(d.Groups) + ", although the policies want otherwise: " + differenceText(d.Differs)
	case at.Kind == "":
		return "an address of interface " + d.Groups.Interface + "; no policy applies there; " + groupsText(d.Groups)
	}
	return "whatever policies say, " + groupsText(d.Groups)
}

func differenceText(d string) string {
	switch d {
	case explain.DiffersUnreleased:
		return "no policy applies to this VM any more, and what was enforced is not yet given back"
	case explain.DiffersBalanced:
		return "it comes from the load balancer with the client's address, and a rule for VMs that a policy selects names their group, which the balancer " +
			"does not hold; allow the client by its address (ipBlock)"
	case explain.DiffersByAddress:
		return "the packet goes by a public address, and rules for VMs that policies select name their private ones"
	}
	return "somebody has changed the groups, or they are just being changed"
}

// enforcedBy says which group lets through, or not, what policies decide about.
func enforcedBy(g *analysis.Groups) string {
	if g.Outcome != string(evaluate.OutcomeDrop) {
		return groupsText(g)
	}
	return "no rule of " + heldText(g) + " lets it through"
}

// groupsText says what groups do, to go on after "today" or a semicolon.
func groupsText(g *analysis.Groups) string {
	switch {
	case len(g.Held) == 0 && g.Outcome == string(evaluate.OutcomeDrop):
		return "nothing lets it through, because interface " + g.Interface + " holds no group that exists"
	case g.Outcome == string(evaluate.OutcomeDrop):
		return "no rule of " + heldText(g) + " lets it through"
	case g.Outcome == string(evaluate.OutcomeUnknown):
		return fmt.Sprintf("it depends on what is not known here: %s of %s", terminal.Printable(g.Rule), groupText(*g.Group))
	case g.Group == nil:
		return "nothing filters it"
	}
	return fmt.Sprintf("allowed by %s: %s", groupText(*g.Group), terminal.Printable(g.Rule))
}

func heldText(g *analysis.Groups) string {
	texts := make([]string, len(g.Held))
	for i, one := range g.Held {
		texts[i] = groupText(one)
	}
	return strings.Join(texts, ", ")
}

func groupText(g analysis.Group) string {
	if g.Name == "" {
		return g.ID
	}
	return fmt.Sprintf("%s (%s)", g.ID, terminal.Printable(g.Name))
}

// statesText says of policies in what state they are.
func statesText(list []analysis.PolicyState) string {
	texts := make([]string, len(list))
	for i, p := range list {
		texts[i] = stateText(p)
	}
	return strings.Join(texts, "; ")
}

func stateText(p analysis.PolicyState) string {
	switch p.State {
	case explain.StateRefused:
		return explain.PolicyText(p.Policy) + " is refused on this VM, not enforced"
	case explain.StateKept:
		return explain.PolicyText(p.Policy) + " is refused on this VM, and stays as it was enforced last"
	case explain.StatePending:
		return explain.PolicyText(p.Policy) + " is not yet enforced on this VM as it stands"
	}
	return explain.PolicyText(p.Policy) + " is suspended on this VM, not enforced"
}

// wayText tells what is to be known of the way of a packet.
func wayText(p *analysis.Path) []string {
	if p == nil {
		return nil
	}
	var out []string
	for i := range p.Hops {
		if p.Hops[i].Allowed {
			out = append(out, hopText(&p.Hops[i]))
		}
	}
	for _, r := range p.Remarks {
		switch r {
		case explain.RemarkNotPeered:
			out = append(
				out,
				fmt.Sprintf(
					"no route: no active peering connects %s and %s, so nothing arrives, unless a transit gateway or VPN, which are not read, connects them",
					p.FromNetwork,
					p.ToNetwork,
				),
			)
		case explain.RemarkSourceTranslated:
			out = append(out, "the destination sees the source as "+p.SeenSource)
		case explain.RemarkSourceUnknown:
			out = append(out, "the source has no public address: it gets out only through a NAT gateway, whose address the destination then sees")
		case explain.RemarkSentToPublic:
			out = append(out, "it is sent to the public address "+p.SentTo+", through the Internet gateway; rules that name groups do not match it")
		case explain.RemarkACLDenies:
			out = append(out, aclText(p.StoppedBy))
		case explain.RemarkACLUnknown:
			out = append(out, doubtText(p.DoubtedBy))
		case explain.RemarkNoPublicAddress:
			out = append(out, "the destination has no public address: from the Internet it is reached only through a load balancer or VPN")
		}
	}
	return out
}

func joined[T ~string](list []T, separator string) string {
	texts := make([]string, len(list))
	for i, s := range list {
		texts[i] = string(s)
	}
	return strings.Join(texts, separator)
}
