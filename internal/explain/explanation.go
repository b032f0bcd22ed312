package explain

import (
	"fmt"
	"net/netip"
	"reflect"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	analysis "github.com/nephele-io/nephele/api/analysis/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/trace"
	"github.com/nephele-io/nephele/internal/policy"
	"github.com/nephele-io/nephele/internal/policy/evaluate"
)

// answering is an answer in the making.
type answering struct {
	analysis.FlowAnswer
	c         *Computation
	source    end
	evaluator *evaluate.Evaluator
}

// The outcomes of decisions, as answers have them.
const (
	outcomeAllow   = string(evaluate.OutcomeAllow)
	outcomeDrop    = string(evaluate.OutcomeDrop)
	outcomeReject  = string(evaluate.OutcomeReject)
	outcomeNative  = string(evaluate.OutcomeNative)
	outcomeUnknown = string(evaluate.OutcomeUnknown)
)

// The verdicts besides the outcomes of decisions.
const (
	// Mixed: addresses make a difference.
	Mixed = "Mixed"
	// NoRoute: nothing that is known connects the networks of the two ends.
	NoRoute = "NoRoute"
)

// CloudVM reports whether a cloud enforces policies at an end, and no agent.
func CloudVM(e analysis.End) bool {
	return e.Kind == policy.KindExternalEntity.String() && e.Enforcer != "" && e.Agent == ""
}

// What decides if no rule of a policy does.
const (
	// DefaultIsolated: what no rule allows is dropped.
	DefaultIsolated = "isolated"
	// DefaultNative: no policy decides. A Pod or Node lets the packet through, at a VM its own
	// groups decide.
	DefaultNative = "native"
	// DefaultNone: there is nobody to enforce a policy.
	DefaultNone = "none"
	// DefaultUnguarded: policies cannot be enforced there, and nothing filters the packet.
	DefaultUnguarded = "unguarded"
	// DefaultGroups: the groups of the interface decide, whatever policies say.
	DefaultGroups = "groups"
	// DefaultMachine: the packet does not leave the machine, and nothing filters it.
	DefaultMachine = "machine"
	// DefaultNobody: a load balancer has a target that is not there.
	DefaultNobody = "nobody"
	// DefaultPlatform: it comes from the cloud itself, and our groups always let it in.
	DefaultPlatform = "platform"
	// DefaultReturns: a load balancer hands it back to its sender, which the cloud does not carry.
	DefaultReturns = "returns"
)

// Why groups do otherwise than policies that count as enforced.
const (
	// DiffersUnreleased: no policy applies any more, and what was enforced is not yet given back.
	DiffersUnreleased = "Unreleased"
	// DiffersByAddress: the packet goes by a public address, and the rules for VMs that policies
	// select name their private ones.
	DiffersByAddress = "PublicAddress"
	// DiffersBalanced: a load balancer hands it on with the client's address, and the rule names
	// the group of the client, which the balancer does not hold.
	DiffersBalanced = "Balanced"
	// DiffersChanged: somebody has changed the groups, or the cloud was read before or after what
	// the statuses tell of.
	DiffersChanged = "Changed"
)

func (c *Computation) newAnswer(from, to end, packets []passage) *answering {
	first := packets[0].sent
	out := &answering{c: c, source: from, FlowAnswer: analysis.FlowAnswer{
		From: c.explainEnd(from), To: c.explainEnd(to), Protocol: string(first.Protocol), Port: int32(first.Port),
	}}
	switch first.Protocol {
	case policy.ICMP:
		out.ICMPCode = ptr.To(int32(first.ICMPCode))
		if !slices.ContainsFunc(packets, func(p passage) bool { return p.sent.ICMPType != first.ICMPType }) {
			out.ICMPType = ptr.To(int32(first.ICMPType))
		}
	case policy.IGMP:
		out.IGMPType = ptr.To(int32(first.IGMPType))
		if first.GroupAddress.IsValid() {
			out.IGMPGroup = first.GroupAddress.String()
		}
	}
	return out
}

func (c *Computation) explainEnd(e end) analysis.End {
	out := analysis.End{
		Namespace: e.ref.Namespace, Name: e.ref.Name, Enforcer: e.enforcer, Agent: e.agent, VM: c.describeVM(e), Title: c.title(e),
	}
	if e.ref.Kind != 0 {
		out.Kind = e.ref.Kind.String()
	}
	if e.at != e.ref {
		out.Node = e.at.Name
	}
	for _, a := range e.addresses {
		out.Addresses = append(out.Addresses, a.String())
	}
	return out
}

// add takes what policies want of a packet from one address to another, whose destination is the
// end given. P is how it goes, which differs from that if a Service hands it on.
func (x *answering) add(source, destination netip.Addr, p passage, to end, via *corev1.Service, v evaluate.Verdict) {
	f, at := analysis.Flow{Path: pathOf(p), Leaving: p.leaving}, x.c.explainEnd(to)
	out := x.c.accountView().accountOf(x.source, cloud.Egress, p.sent, p.sent.Destination.Addr, v.Egress)
	in := x.c.accountView().accountOf(to, cloud.Ingress, p.come, p.come.Source.Addr, v.Ingress)
	var now, native trace.Path
	if p.now != nil {
		now, native = *p.now, *p.native
	}
	if now.Way == trace.WayItself { // what goes on within a machine does not get to where its groups are
		for d, at := range map[*evaluate.Decision]end{&v.Egress: x.source, &v.Ingress: to} {
			if at.isCloudVM() && d.Exempt == "" {
				*d = evaluate.Decision{Outcome: evaluate.OutcomeNative, Exempt: exemptMachine}
			}
		}
	}
	f.Egress = x.c.decide(x.source, x.From, v.Egress, out, now.Egress, native.Egress)
	f.Ingress = x.c.decide(to, at, v.Ingress, in, now.Ingress, native.Ingress)
	if now.Way != trace.WayItself {
		f.Egress = x.behind(f.Egress, x.source, cloud.Egress, p.sent, now.Egress, native.Egress)
		f.Ingress = x.behind(f.Ingress, to, cloud.Ingress, p.come, now.Ingress, native.Ingress)
	}
	for _, d := range []*analysis.Decision{f.Egress, f.Ingress} {
		if d.Differs == DiffersChanged && now.Way == trace.WayInternet {
			d.Differs = DiffersByAddress
		}
	}
	x.c.view.Flow(&f)
	if v.Service != nil {
		f.AtService = x.c.wanted(end{}, analysis.End{Enforcer: "every Node"}, *v.Service, byAccount{}, nil)
	}
	f.Points = x.c.waypoints().pointsOf(x.source, to, via, &f, func(seen end) evaluate.Outcome {
		come := p.come
		come.Source = seen.seenFrom(p.come.Source.Addr)
		return x.evaluator.Evaluate(come).Ingress.Outcome
	})
	x.c.waypoints().unguarded(&f)
	f.Verdict = verdictOn(f.Path, together(f.Egress, f.AtService, beyond(p.leaving, f.Ingress)))
	f.Wanted = verdictOn(f.Path, together(ifEnforced(f.Egress), f.AtService, beyond(p.leaving, ifEnforced(f.Ingress))))
	x.throughBalancer(&f, p, to)
	if source.IsValid() {
		f.From = source.String()
	}
	if destination.IsValid() {
		f.To = destination.String()
	}
	x.Flows = append(x.Flows, f)
}

// ifEnforced is the decision if everything is enforced.
func ifEnforced(d *analysis.Decision) *analysis.Decision {
	if d.IfEnforced != nil {
		return d.IfEnforced
	}
	return d
}

// exemptMachine: the packet does not leave the machine.
const exemptMachine evaluate.Exemption = DefaultMachine

// together is what the sender sees.
func together(egress, service, ingress *analysis.Decision) string {
	plain := func(d *analysis.Decision) evaluate.Decision {
		out := evaluate.Decision{Outcome: evaluate.Outcome(d.Outcome)}
		for _, o := range d.Possible {
			out.Possible = append(out.Possible, evaluate.Outcome(o))
		}
		return out
	}
	v := evaluate.Verdict{Egress: plain(egress), Ingress: plain(ingress)}
	if service != nil {
		at := plain(service)
		v.Service = &at
	}
	return string(v.Together())
}

// addBackend takes the verdict on a packet to a Service that is handed to the backend.
func (x *answering) addBackend(source, destination netip.Addr, p passage, b backend, via *corev1.Service, v evaluate.Verdict) {
	x.add(source, destination, p, b.end, via, v)
	f := &x.Flows[len(x.Flows)-1]
	at := x.c.explainEnd(b.end)
	f.At, f.Backend = &at, &analysis.Backend{Kind: at.Kind, Namespace: at.Namespace, Name: at.Name, Address: b.address.String(), Port: int32(b.port)}
}

// Passes reports whether the policies let the packet through for sure.
func Passes(x *analysis.FlowAnswer) bool { return passes(x.Verdict) }

// finish folds the flows into one answer if they are all treated alike.
func (x *answering) finish() {
	if len(x.Flows) == 0 {
		x.Verdict, x.Wanted = outcomeUnknown, outcomeUnknown
		return
	}
	x.Verdict = x.judge(func(f analysis.Flow) string { return f.Verdict })
	x.Wanted = x.judge(func(f analysis.Flow) string { return f.Wanted })
	first := x.Flows[0]
	for _, f := range x.Flows[1:] {
		if !reflect.DeepEqual(f.Egress, first.Egress) || !reflect.DeepEqual(f.AtService, first.AtService) || !reflect.DeepEqual(f.Ingress, first.Ingress) ||
			!reflect.DeepEqual(f.Path, first.Path) || !reflect.DeepEqual(f.Points, first.Points) || !reflect.DeepEqual(f.Balanced, first.Balanced) ||
			!reflect.DeepEqual(f.Leaving, first.Leaving) {
			return
		}
	}
	x.Egress, x.AtService, x.Ingress, x.Path, x.Points, x.Balanced, x.Flows = first.Egress, first.AtService, first.Ingress, first.Path, first.Points, first.Balanced, nil
	x.Leaving = first.Leaving
}

// judge sums up the verdicts on the flows. Only the enforcer knows the backend that a Service
// chooses, and only the user knows the addresses in use.
func (x *answering) judge(verdict func(analysis.Flow) string) string {
	type pair struct{ from, to string }
	verdicts := map[pair]string{}
	for _, f := range x.Flows {
		at := pair{f.From, f.To}
		if v, ok := verdicts[at]; ok && v != verdict(f) {
			verdicts[at] = outcomeUnknown
			x.Reason = fmt.Sprintf("it depends on the endpoint that %s chooses", ServiceText(x.Service))
		} else if !ok {
			verdicts[at] = verdict(f)
		}
	}
	out := ""
	for _, v := range verdicts {
		if out != "" && out != v {
			return Mixed
		}
		out = v
	}
	return out
}

// tellOfService adds what is to be known of a Service that the packets go to.
func (c *Computation) tellOfService(x *answering, via *frontend) {
	name := nameOf(via.service)
	x.Service = &analysis.Service{Namespace: name.Namespace, Name: name.Name}
	for _, f := range x.Flows {
		if !slices.Contains(x.Service.Backends, *f.Backend) {
			x.Service.Backends = append(x.Service.Backends, *f.Backend)
		}
	}
	switch {
	case len(x.Flows) > 0:
	case c.services().hidden(via.service):
		x.Reason = fmt.Sprintf("%s has neither a selector nor EndpointSlices: its endpoints are not known here", ServiceText(x.Service))
	default:
		x.Reason = fmt.Sprintf("nobody is known to be behind %s, with an address of the family and the port that it hands packets to", ServiceText(x.Service))
	}
	applied := c.services().appliedToService(name)
	if inside := x.From.Kind == policy.KindPod.String() || x.From.Kind == policy.KindNode.String(); inside && len(applied) > 0 {
		x.Notes = append(x.Notes, fmt.Sprintf("what applies to %s holds for clients outside the cluster only: %s", ServiceText(x.Service), PoliciesText(applied)))
	} else if !inside && via.service.Spec.ExternalTrafficPolicy != corev1.ServiceExternalTrafficPolicyLocal {
		x.Notes = append(x.Notes, fmt.Sprintf("%s may hide the sender from the Pods behind it: they then see an address of a Node", ServiceText(x.Service)))
	}
}

func explainDecision(d evaluate.Decision, at analysis.End) *analysis.Decision {
	out := &analysis.Decision{Outcome: string(d.Outcome)}
	switch {
	case d.By != nil:
		r := explainRule(*d.By)
		out.DecidedBy = &r
	case d.Outcome == evaluate.OutcomeUnknown:
		for _, o := range d.Possible {
			out.Possible = append(out.Possible, string(o))
		}
	case d.Exempt != "":
		out.Default = string(d.Exempt)
	case at.Enforcer == "":
		out.Default = DefaultNone
	case d.Isolated:
		out.Default = DefaultIsolated
	default:
		out.Default = DefaultNative
	}
	for _, p := range d.IsolatedBy {
		out.IsolatedBy = append(out.IsolatedBy, explainPolicy(p))
	}
	for _, r := range d.Passed {
		out.Passed = append(out.Passed, explainRule(r))
	}
	for _, r := range d.Uncertain {
		out.Uncertain = append(out.Uncertain, explainUncertain(r))
	}
	return out
}

func explainPolicy(p policy.PolicyRef) analysis.Policy {
	return analysis.Policy{Type: string(p.Kind), Namespace: p.Namespace, Name: p.Name}
}

func explainRule(r evaluate.RuleRef) analysis.Rule {
	out := analysis.Rule{Policy: explainPolicy(r.Policy), Direction: string(r.Direction)}
	if r.Policy.Kind != policy.KubernetesNetworkPolicy {
		out.TierPriority, out.Priority = r.TierPriority, r.Priority
	}
	if r.Rule != nil {
		out.Name, out.Index, out.Action = r.Rule.Name, int32(r.Index), string(r.Rule.Action)
		out.L7Protocols = len(r.Rule.L7Protocols) > 0
	}
	for _, e := range r.Through {
		out.Through = append(out.Through, refText(e))
	}
	return out
}

func explainUncertain(r evaluate.RuleRef) analysis.Rule {
	out := explainRule(r)
	out.DependsOn = append(out.DependsOn, r.Rule.FQDNs...)
	for _, n := range r.Rule.ToServices {
		out.DependsOn = append(out.DependsOn, serviceText(n))
	}
	if r.Unseen {
		out.DependsOn = append(out.DependsOn, DependsOnUnseen)
	}
	return out
}

// DependsOnUnseen is what a rule depends on if the caller may not see the members of its groups.
const DependsOnUnseen = "a member that you may not see"
