package explain

import (
	"fmt"
	"net/netip"
	"reflect"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/trace"
	"github.com/nephele-io/nephele/internal/policy"
)

// Explanation is the answer of explain.
type Explanation struct {
	From End `json:"from"`
	To   End `json:"to"`
	// Protocol, and what it has of ports or types. ICMPType is absent if it is that of an echo
	// request in both families.
	Protocol  policy.Protocol `json:"protocol"`
	Port      uint16          `json:"port,omitempty"`
	ICMPType  *uint8          `json:"icmpType,omitempty"`
	ICMPCode  *uint8          `json:"icmpCode,omitempty"`
	IGMPType  *uint8          `json:"igmpType,omitempty"`
	IGMPGroup string          `json:"igmpGroup,omitempty"`
	// Service is the one that the destination is an address of, with whom it may choose.
	Service *Service `json:"service,omitempty"`
	// Verdict is what the sender sees, today where that is known: Allow, Drop, Reject, NoRoute,
	// Native or Unknown; Mixed if it depends on which addresses the ends use.
	Verdict string `json:"verdict"`
	// Wanted is what the sender would see if everything were enforced as it stands.
	Wanted string `json:"wanted"`
	// Path is the way that the packet takes through clouds that were read, where it is the same for
	// all addresses.
	Path *Path `json:"path,omitempty"`
	// Reason says why the verdict is Unknown, if no single decision does.
	Reason string   `json:"reason,omitempty"`
	Notes  []string `json:"notes,omitempty"`
	// Egress, AtService and Ingress are absent if there are Flows, AtService also if no rule
	// applies to the Service.
	Egress    *Decision `json:"egress,omitempty"`
	AtService *Decision `json:"atService,omitempty"`
	Ingress   *Decision `json:"ingress,omitempty"`
	// Points are the places on the way where policies are enforced, or where something is lost,
	// absent if there are Flows.
	Points []Point `json:"points,omitempty"`
	// Balanced is how the load balancer that the destination belongs to hands the packet on, absent
	// if it does not, if that is not known, or if there are Flows.
	Balanced *Balanced `json:"balanced,omitempty"`
	// Flows are the answers for single pairs of addresses, and Pods behind a Service, if these are
	// not all treated alike.
	Flows []Flow `json:"flows,omitempty"`

	c         *Computation
	source    end
	evaluator *policy.Evaluator
}

// The verdicts besides the outcomes of decisions.
const (
	// Mixed: addresses make a difference.
	Mixed = "Mixed"
	// NoRoute: nothing that is known connects the networks of the two ends.
	NoRoute = "NoRoute"
)

// End is one end of the flow.
type End struct {
	Kind      string   `json:"kind,omitempty"`
	Namespace string   `json:"namespace,omitempty"`
	Name      string   `json:"name,omitempty"`
	Addresses []string `json:"addresses,omitempty"`
	// Node is the Node in whose network a Pod is, and whose policies hold for it.
	Node string `json:"node,omitempty"`
	// Enforcer is the key of who enforces policies there: the name of a Node, NAMESPACE/NAME of an
	// ExternalNode, or what spec.externalNode says. Without it nobody does.
	Enforcer string `json:"enforcer,omitempty"`
	// Agent is who enforces policies on the host, if an agent does.
	Agent Agent `json:"agent,omitempty"`

	// VM is which machine of a cloud it is.
	VM *VM `json:"vm,omitempty"`

	// Title names the end for people.
	Title string `json:"title"`
}

// CloudVM reports whether a cloud enforces policies there, and no agent.
func (e End) CloudVM() bool {
	return e.Kind == policy.KindExternalEntity.String() && e.Enforcer != "" && e.Agent == ""
}

// VM is a machine of a cloud, in the words of the cloud.
type VM struct {
	ID      string `json:"id"`
	Name    string `json:"name,omitempty"`
	Region  string `json:"region,omitempty"`
	Network string `json:"network,omitempty"`
}

// Flow is the answer for one pair of addresses.
type Flow struct {
	From string `json:"from,omitempty"`
	To   string `json:"to,omitempty"`
	// Backend is who the Service chose.
	Backend   *Backend  `json:"backend,omitempty"`
	Verdict   string    `json:"verdict"`
	Wanted    string    `json:"wanted"`
	Path      *Path     `json:"path,omitempty"`
	Egress    *Decision `json:"egress"`
	AtService *Decision `json:"atService,omitempty"`
	Ingress   *Decision `json:"ingress"`
	Points    []Point   `json:"points,omitempty"`
	Balanced  *Balanced `json:"balanced,omitempty"`

	// At is the end that the packet comes to, if the destination is a Service.
	At *End `json:"at,omitempty"`
}

// Service is a Service that the packet is sent to.
type Service struct {
	Namespace string    `json:"namespace"`
	Name      string    `json:"name"`
	Backends  []Backend `json:"backends,omitempty"`
}

// Backend is one of those whom a Service may hand the packet to.
type Backend struct {
	Kind      string `json:"kind,omitempty"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name,omitempty"`
	Address   string `json:"address"`
	Port      uint16 `json:"port"`
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

// Difference is why groups do otherwise than policies that count as enforced.
type Difference string

// The differences.
const (
	// DiffersUnreleased: no policy applies any more, and what was enforced is not yet given back.
	DiffersUnreleased Difference = "Unreleased"
	// DiffersByAddress: the packet goes by a public address, and the rules for VMs that policies
	// select name their private ones.
	DiffersByAddress Difference = "PublicAddress"
	// DiffersBalanced: a load balancer hands it on with the client's address, and the rule names
	// the group of the client, which the balancer does not hold.
	DiffersBalanced Difference = "Balanced"
	// DiffersChanged: somebody has changed the groups, or the cloud was read before or after what
	// the statuses tell of.
	DiffersChanged Difference = "Changed"
)

// Decision is what is so at one end.
type Decision struct {
	// Outcome is what happens there today, as far as that is known: Allow, Drop, Reject or Unknown;
	// Native if the groups of a VM decide, and were not read.
	Outcome policy.Outcome `json:"outcome"`
	// NotEnforced is the mode because of which the policies do not decide, and who says so.
	NotEnforced string `json:"notEnforced,omitempty"`
	// Policies are those that decide, or would, and are not enforced as they stand.
	Policies []PolicyState `json:"policies,omitempty"`
	// Differs says why the groups do otherwise than policies that count as enforced; empty if they
	// do not.
	Differs Difference `json:"differs,omitempty"`
	// IfEnforced is what would be so if everything were enforced as it stands, where that is not
	// what is so.
	IfEnforced *Decision `json:"ifEnforced,omitempty"`
	// Groups is what the security groups of the interface do, where they were read.
	Groups *Groups `json:"groups,omitempty"`
	// Native is what the groups that the interface has of its own do, where they decide and were
	// read.
	Native *Groups `json:"native,omitempty"`
	// Failsafe is the account whose failsafe flows allow it, before any rule.
	Failsafe string `json:"failsafe,omitempty"`
	// HostFailsafe is the host whose agent lets it through, before any rule.
	HostFailsafe string `json:"hostFailsafe,omitempty"`
	// DecidedBy is the rule; without it the default decided: Default says which one.
	DecidedBy *Rule `json:"decidedBy,omitempty"`
	// Default is "isolated", "native", "none" or "groups", or "itself" (the packet goes to who
	// sends it) "ownNode" (it comes to a Pod from its own Node) or "machine" (it does not leave the
	// machine).
	Default string `json:"default,omitempty"`
	// IsolatedBy are the policies that make Drop the default.
	IsolatedBy []Policy `json:"isolatedBy,omitempty"`
	// Passed are the Pass rules on the way, in order.
	Passed []Rule `json:"passed,omitempty"`
	// Uncertain are rules that match or not, depending on what a name or Service stands for.
	Uncertain []Rule `json:"uncertain,omitempty"`
	// Possible are the outcomes that there may be if it is Unknown.
	Possible []policy.Outcome `json:"possible,omitempty"`
}

// Policy names a policy.
type Policy struct {
	Type      policy.PolicyKind `json:"type"`
	Namespace string            `json:"namespace,omitempty"`
	Name      string            `json:"name"`
	// Hidden tells that it may not be seen, and only its type is told.
	Hidden bool `json:"hidden,omitempty"`
}

// Rule is a rule of a policy.
type Rule struct {
	Policy    Policy           `json:"policy"`
	Direction policy.Direction `json:"direction"`
	Name      string           `json:"name,omitempty"`
	// Index is the place of the rule in spec.ingress or spec.egress.
	Index  int           `json:"index"`
	Action policy.Action `json:"action,omitempty"`
	// TierPriority and Priority are absent for a Kubernetes NetworkPolicy, which has neither.
	TierPriority int32   `json:"tierPriority,omitempty"`
	Priority     float64 `json:"priority,omitempty"`
	// L7Protocols tells that the rule lets through only what its l7Protocols match, of which
	// explain knows nothing.
	L7Protocols bool `json:"l7Protocols,omitempty"`
	// Through are the entities by which the rule matches, if not by the end itself: others with the
	// same address.
	Through []string `json:"through,omitempty"`
	// DependsOn are, for an uncertain rule, the names and Services that the destination may be.
	DependsOn []string `json:"dependsOn,omitempty"`
}

func (c *Computation) newExplanation(from, to end, packets []passage) *Explanation {
	first := packets[0].sent
	out := &Explanation{c: c, source: from, From: c.explainEnd(from), To: c.explainEnd(to), Protocol: first.Protocol, Port: first.Port}
	switch first.Protocol {
	case policy.ICMP:
		out.ICMPCode = &first.ICMPCode
		if !slices.ContainsFunc(packets, func(p passage) bool { return p.sent.ICMPType != first.ICMPType }) {
			out.ICMPType = &first.ICMPType
		}
	case policy.IGMP:
		out.IGMPType = &first.IGMPType
		if first.GroupAddress.IsValid() {
			out.IGMPGroup = first.GroupAddress.String()
		}
	}
	return out
}

func (c *Computation) explainEnd(e end) End {
	out := End{
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
func (x *Explanation) add(source, destination netip.Addr, p passage, to end, via *corev1.Service, v policy.Verdict) {
	f, at := Flow{Path: pathOf(p)}, x.c.explainEnd(to)
	out := x.c.accountOf(x.source, cloud.Egress, p.sent, p.sent.Destination.Addr, v.Egress)
	in := x.c.accountOf(to, cloud.Ingress, p.come, p.come.Source.Addr, v.Ingress)
	var now, native trace.Path
	if p.now != nil {
		now, native = *p.now, *p.native
	}
	if now.Way == trace.WayItself { // what goes on within a machine does not get to where its groups are
		for d, at := range map[*policy.Decision]end{&v.Egress: x.source, &v.Ingress: to} {
			if at.isCloudVM() && d.Exempt == "" {
				*d = policy.Decision{Outcome: policy.OutcomeNative, Exempt: exemptMachine}
			}
		}
	}
	f.Egress = x.c.decide(x.source, x.From, v.Egress, out, now.Egress, native.Egress)
	f.Ingress = x.c.decide(to, at, v.Ingress, in, now.Ingress, native.Ingress)
	if now.Way != trace.WayItself {
		f.Egress = x.behind(f.Egress, x.source, cloud.Egress, p.sent, now.Egress, native.Egress)
		f.Ingress = x.behind(f.Ingress, to, cloud.Ingress, p.come, now.Ingress, native.Ingress)
	}
	for _, d := range []*Decision{f.Egress, f.Ingress} {
		if d.Differs == DiffersChanged && now.Way == trace.WayInternet {
			d.Differs = DiffersByAddress
		}
	}
	x.c.censorFlow(&f)
	if v.Service != nil {
		f.AtService = x.c.wanted(end{}, End{Enforcer: "every Node"}, *v.Service, byAccount{}, nil)
	}
	f.Points = x.c.pointsOf(x.source, to, via, &f, func(seen end) policy.Outcome {
		come := p.come
		come.Source = seen.seenFrom(p.come.Source.Addr)
		return x.evaluator.Evaluate(come).Ingress.Outcome
	})
	x.c.unguarded(&f)
	f.Verdict = f.Path.verdict(together(f.Egress, f.AtService, f.Ingress))
	f.Wanted = f.Path.verdict(together(f.Egress.ifEnforced(), f.AtService, f.Ingress.ifEnforced()))
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
func (d *Decision) ifEnforced() *Decision {
	if d.IfEnforced != nil {
		return d.IfEnforced
	}
	return d
}

// exemptMachine: the packet does not leave the machine.
const exemptMachine policy.Exemption = DefaultMachine

// together is what the sender sees.
func together(egress, service, ingress *Decision) string {
	plain := func(d *Decision) policy.Decision { return policy.Decision{Outcome: d.Outcome, Possible: d.Possible} }
	v := policy.Verdict{Egress: plain(egress), Ingress: plain(ingress)}
	if service != nil {
		at := plain(service)
		v.Service = &at
	}
	return string(v.Together())
}

// addBackend takes the verdict on a packet to a Service that is handed to the backend.
func (x *Explanation) addBackend(source, destination netip.Addr, p passage, b backend, via *corev1.Service, v policy.Verdict) {
	x.add(source, destination, p, b.end, via, v)
	f := &x.Flows[len(x.Flows)-1]
	at := x.c.explainEnd(b.end)
	f.At, f.Backend = &at, &Backend{Kind: at.Kind, Namespace: at.Namespace, Name: at.Name, Address: b.address.String(), Port: b.port}
}

// Passes reports whether the policies let the packet through for sure.
func (x *Explanation) Passes() bool {
	return x.Verdict == string(policy.OutcomeAllow) || x.Verdict == string(policy.OutcomeNative)
}

// finish folds the flows into one answer if they are all treated alike.
func (x *Explanation) finish() {
	if len(x.Flows) == 0 {
		x.Verdict, x.Wanted = string(policy.OutcomeUnknown), string(policy.OutcomeUnknown)
		return
	}
	x.Verdict = x.judge(func(f Flow) string { return f.Verdict })
	x.Wanted = x.judge(func(f Flow) string { return f.Wanted })
	first := x.Flows[0]
	for _, f := range x.Flows[1:] {
		if !reflect.DeepEqual(f.Egress, first.Egress) || !reflect.DeepEqual(f.AtService, first.AtService) || !reflect.DeepEqual(f.Ingress, first.Ingress) ||
			!reflect.DeepEqual(f.Path, first.Path) || !reflect.DeepEqual(f.Points, first.Points) || !reflect.DeepEqual(f.Balanced, first.Balanced) {
			return
		}
	}
	x.Egress, x.AtService, x.Ingress, x.Path, x.Points, x.Balanced, x.Flows = first.Egress, first.AtService, first.Ingress, first.Path, first.Points, first.Balanced, nil
}

// judge sums up the verdicts on the flows: whom a Service chooses only the enforcer knows, which
// addresses are used the user does.
func (x *Explanation) judge(verdict func(Flow) string) string {
	type pair struct{ from, to string }
	verdicts := map[pair]string{}
	for _, f := range x.Flows {
		at := pair{f.From, f.To}
		if v, ok := verdicts[at]; ok && v != verdict(f) {
			verdicts[at] = string(policy.OutcomeUnknown)
			x.Reason = fmt.Sprintf("it depends on whom %s chooses", x.Service)
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
func (c *Computation) tellOfService(x *Explanation, via *frontend) {
	name := nameOf(via.service)
	x.Service = &Service{Namespace: name.Namespace, Name: name.Name}
	for _, f := range x.Flows {
		if !slices.Contains(x.Service.Backends, *f.Backend) {
			x.Service.Backends = append(x.Service.Backends, *f.Backend)
		}
	}
	switch {
	case len(x.Flows) > 0:
	case c.hidden(via.service):
		x.Reason = fmt.Sprintf("%s has neither a selector nor EndpointSlices: who is behind it is not known here", x.Service)
	default:
		x.Reason = fmt.Sprintf("nobody is known to be behind %s, with an address of the family and the port that it hands packets to", x.Service)
	}
	applied := c.appliedToService(name)
	if inside := x.From.Kind == policy.KindPod.String() || x.From.Kind == policy.KindNode.String(); inside && len(applied) > 0 {
		x.Notes = append(x.Notes, fmt.Sprintf("what applies to %s holds for clients outside the cluster only: %s", x.Service, PoliciesText(applied)))
	} else if !inside && via.service.Spec.ExternalTrafficPolicy != corev1.ServiceExternalTrafficPolicyLocal {
		x.Notes = append(x.Notes, fmt.Sprintf("%s may hide who sends from the Pods behind it: they then see an address of a Node", x.Service))
	}
}

func explainDecision(d policy.Decision, at End) *Decision {
	out := &Decision{Outcome: d.Outcome}
	switch {
	case d.By != nil:
		r := explainRule(*d.By)
		out.DecidedBy = &r
	case d.Outcome == policy.OutcomeUnknown:
		out.Possible = d.Possible
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

func explainPolicy(p policy.PolicyRef) Policy {
	return Policy{Type: p.Kind, Namespace: p.Namespace, Name: p.Name}
}

func explainRule(r policy.RuleRef) Rule {
	out := Rule{Policy: explainPolicy(r.Policy), Direction: r.Direction}
	if r.Policy.Kind != policy.KubernetesNetworkPolicy {
		out.TierPriority, out.Priority = r.TierPriority, r.Priority
	}
	if r.Rule != nil {
		out.Name, out.Index, out.Action = r.Rule.Name, r.Index, r.Rule.Action
		out.L7Protocols = len(r.Rule.L7Protocols) > 0
	}
	for _, e := range r.Through {
		out.Through = append(out.Through, refText(e))
	}
	return out
}

func explainUncertain(r policy.RuleRef) Rule {
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

// DependsOnUnseen is what a rule depends on where it is not told who is a member of its groups.
const DependsOnUnseen = "a member that you may not see"
