package explain

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/trace"
	"github.com/nephele-io/nephele/internal/policy"
)

// Balanced is how a load balancer hands on a packet that has come to its front end. Cross-zone
// balancing is taken to be on: every interface of the balancer sends to every target.
type Balanced struct {
	// Balancer is its name, Kind what it is.
	Balancer string            `json:"balancer"`
	Kind     cloud.ServiceKind `json:"kind"`
	// Unknown are the target groups of which it is not known who is in them, with the reason.
	Unknown []string         `json:"unknown,omitempty"`
	Targets []BalancedTarget `json:"targets,omitempty"`
}

// BalancedTarget is one of those whom the balancer may choose.
type BalancedTarget struct {
	// Group is the name of the target group.
	Group string `json:"group"`
	At    End    `json:"at"`
	// Preserved tells that the target sees the client's address, so that this is what a policy on
	// it must allow; else it is the balancer's. It has to be allowed by address: a rule of a
	// security group that names the group of the client does not match.
	Preserved bool `json:"preserved,omitempty"`
	// Traffic is the way of the packet, and Health that of a health check, which comes from the
	// balancer always; absent if there are none.
	Traffic Hop  `json:"traffic"`
	Health  *Hop `json:"health,omitempty"`
	// InUse tells that the balancer sends traffic to it today, as far as it is known: health checks
	// reach it, or no target of its group.
	InUse bool `json:"inUse"`
	// Further tells that it is a load balancer itself, whose targets have to be asked about.
	Further bool `json:"further,omitempty"`
}

// Hop is the way from a balancer to a target.
type Hop struct {
	// From is the address that the target sees; empty if that is not known, or not to be seen.
	From    string    `json:"from,omitempty"`
	To      string    `json:"to,omitempty"`
	Port    uint16    `json:"port"`
	Verdict string    `json:"verdict"`
	Wanted  string    `json:"wanted"`
	Path    *Path     `json:"path,omitempty"`
	Egress  *Decision `json:"egress"`
	Ingress *Decision `json:"ingress"`
}

// balancerNotes say of packets to the front end of a load balancer from whom its targets see them
// come, where these are not known.
func balancerNotes(packets []passage) []string {
	var out []string
	for _, p := range packets {
		s := balancerAt(p.dst)
		if s == nil {
			continue
		}
		note := ""
		switch {
		case s.Listeners != nil && listenerOf(s, &p.sent) == nil:
			note = "The load balancer " + s.Name + " does not listen at " + flowText(p.sent) + ": it hands on nothing that comes there."
		case s.Listeners != nil:
		case s.Kind == cloud.ApplicationLoadBalancer:
			note = "This is the way to the load balancer " + s.Name + " only, whose targets are not known. They see its own addresses, not the client's: " +
				"a policy on them must allow the balancer, at the port of the traffic and at that of the health checks."
		default:
			note = "This is the way to the load balancer " + s.Name + " only, whose targets are not known. They see the client where their group preserves client addresses, " +
				"else the balancer: a policy on them must allow whichever it is, and the balancer for the health checks in both cases."
		}
		if note != "" && !slices.Contains(out, note) {
			out = append(out, note)
		}
	}
	return out
}

// balancerAt is the load balancer whose front end a point is; nil if it is none.
func balancerAt(p trace.Point) *cloud.Service {
	s := p.Service()
	if s == nil {
		return nil
	}
	switch s.Kind {
	case cloud.ApplicationLoadBalancer, cloud.NetworkLoadBalancer, cloud.GatewayLoadBalancer:
		return s
	}
	return nil
}

// listenerOf is the listener that takes a packet; nil if none does, or is known.
func listenerOf(s *cloud.Service, f *policy.Flow) *cloud.ServiceListener {
	protocol := serviceOf(f, false).Protocol
	i := slices.IndexFunc(s.Listeners, func(l cloud.ServiceListener) bool { return l.Protocol == protocol && l.Port == f.Port })
	if i < 0 {
		return nil
	}
	return &s.Listeners[i]
}

// handedOn follows a packet that has come to the front end of a load balancer; nil if it has not,
// or if nothing is known of what comes after.
func (x *Explanation) handedOn(p passage, front end) *Balanced {
	c := x.c
	s := balancerAt(p.dst)
	if s == nil || c.hides(front, true) {
		return nil
	}
	listener := listenerOf(s, &p.sent)
	if listener == nil {
		return nil
	}
	out := &Balanced{Balancer: cmp.Or(s.Name, s.ID), Kind: s.Kind}
	for i := range listener.Groups {
		g := &listener.Groups[i]
		if g.Unknown != "" {
			out.Unknown = append(out.Unknown, g.Name+": "+g.Unknown)
			continue
		}
		first := len(out.Targets)
		for _, t := range g.Targets {
			out.Targets = append(out.Targets, x.toTarget(p, front, g, t))
		}
		use(out.Targets[first:], func(h *Hop) string { return h.Verdict }, func(t *BalancedTarget) { t.InUse = true })
	}
	return out
}

// use calls used for those targets of a group that the balancer sends to: whoever a health check
// reaches, or all if it reaches none.
func use(group []BalancedTarget, verdict func(*Hop) string, used func(*BalancedTarget)) {
	failing := func(t *BalancedTarget) bool {
		if t.Health == nil {
			return false
		}
		v := verdict(t.Health)
		return !passes(v) && v != string(policy.OutcomeUnknown)
	}
	none := !slices.ContainsFunc(group, func(t BalancedTarget) bool { return !failing(&t) })
	for i := range group {
		if none || !failing(&group[i]) {
			used(&group[i])
		}
	}
}

func passes(verdict string) bool {
	return verdict == string(policy.OutcomeAllow) || verdict == string(policy.OutcomeNative)
}

// toTarget follows a packet from the front end that it has come to on to a target.
func (x *Explanation) toTarget(p passage, front end, g *cloud.TargetGroup, t cloud.Target) BalancedTarget {
	c := x.c
	out := BalancedTarget{Group: g.Name, Preserved: g.Preserved, Further: t.ServiceID != ""}
	v6 := g.Preserved && p.come.Source.Addr.Is6()
	at, target := c.target(p.dst, g, t, v6)
	out.At = c.explainEnd(at)
	if c.hides(at, target.Interface != nil) {
		out.At = End{Hidden: true, Title: "somebody else"}
	}
	own := ownPoint(p.dst, target.Addr.Is6())
	seen, source := own, front
	if g.Preserved {
		seen.Addr, source = p.come.Source.Addr, x.source
	}
	out.Traffic = x.hop(seen, target, front, source, at, policy.Flow{Protocol: p.sent.Protocol, Port: t.Port})
	if t.HealthPort != 0 {
		h := x.hop(own, target, front, front, at, policy.Flow{Protocol: policy.TCP, Port: t.HealthPort})
		out.Health = &h
	}
	return out
}

// ownPoint is the interface of a front end with the address from which it sends.
func ownPoint(front trace.Point, v6 bool) trace.Point {
	front.Public = netip.Addr{}
	for _, a := range front.Interface.PrivateIPs {
		if a.Is6() == v6 {
			front.Addr = a
			break
		}
	}
	return front
}

// target finds a target: who it is, and where.
func (c *Computation) target(front trace.Point, g *cloud.TargetGroup, t cloud.Target, v6 bool) (end, trace.Point) {
	var at trace.Point
	network := cmp.Or(g.NetworkID, front.Network())
	switch {
	case t.VMID != "":
		for _, p := range c.clouds.now.VM(front.Region(), t.VMID) {
			if at.Interface == nil || p.Interface == at.Interface && at.Addr.Is6() != v6 {
				at = p
			}
		}
	case t.ServiceID != "":
		if a := front.FrontOf(t.ServiceID); a.IsValid() {
			at = c.clouds.now.At(a, network)
		}
	default:
		at = c.clouds.now.At(t.Addr, network)
		at.Public = netip.Addr{}
	}
	if at.VM != nil {
		if refs := c.clouds.entities[vmKey{at.Region(), at.VM.ID}]; len(refs) > 0 {
			e := c.endOf(c.Ends[refs[0]])
			e.addresses, e.byAddress = []netip.Addr{at.Addr}, true
			return e, at
		}
	}
	if at.Addr.IsValid() && at.VM == nil {
		if e, err := c.findAddress("to", at.Addr); err == nil {
			return e, at
		}
	}
	return end{addresses: []netip.Addr{at.Addr}, byAddress: true}, at
}

// hop follows a packet from an interface of a balancer, by whose address it seems to come and from
// whom, to a target.
func (x *Explanation) hop(seen, target trace.Point, front, source, at end, f policy.Flow) Hop {
	c := x.c
	out := Hop{Port: f.Port}
	if !target.Addr.IsValid() { // a machine that is not there
		gone := &Decision{Outcome: policy.OutcomeDrop, Default: DefaultNobody}
		out.Verdict, out.Wanted, out.Egress, out.Ingress = string(policy.OutcomeDrop), string(policy.OutcomeDrop), gone, gone
		return out
	}
	p := c.passageOf(pair{seen, target}, front, at, f)
	p.come.Source, p.come.Relayed = source.endpoint(seen.Addr), true
	if !seen.Addr.IsValid() {
		p.come.Source = policy.Endpoint{Addr: somewhere()}
	}
	p.sent.Relayed = true
	v := policy.Verdict{Egress: x.evaluator.Evaluate(p.sent).Egress, Ingress: x.evaluator.Evaluate(p.come).Ingress}
	flow := Flow{Path: pathOf(p)}
	var now, native trace.Path
	if p.now != nil {
		now, native = *p.now, *p.native
	}
	flow.Egress = c.decide(front, c.explainEnd(front), v.Egress, c.accountOf(front, cloud.Egress, p.sent, p.sent.Destination.Addr, v.Egress), now.Egress, native.Egress)
	flow.Ingress = c.decide(at, c.explainEnd(at), v.Ingress, c.accountOf(at, cloud.Ingress, p.come, p.come.Source.Addr, v.Ingress), now.Ingress, native.Ingress)
	if d := flow.Ingress; d.Differs == DiffersChanged && source.ref != front.ref {
		d.Differs = DiffersBalanced
	}
	c.hide(&flow, front, at, p)
	if !c.hides(at, p.dst.Interface != nil) {
		out.To = target.Addr.String()
	}
	if seen.Addr.IsValid() {
		out.From = seen.Addr.String()
	}
	out.Path, out.Egress, out.Ingress = flow.Path, flow.Egress, flow.Ingress
	out.Verdict = out.Path.verdict(together(out.Egress, nil, out.Ingress))
	out.Wanted = out.Path.verdict(together(out.Egress.ifEnforced(), nil, out.Ingress.ifEnforced()))
	return out
}

// verdict is what the sender sees of a packet that is handed on, if the way to the front end has a
// verdict already. Why says what it depends on, if it depends on something.
func (b *Balanced) verdict(entry string, of func(*Hop) string) (verdict, why string) {
	if !passes(entry) {
		return entry, ""
	}
	var passed, failed, unsure bool
	for group := range byGroup(b.Targets) {
		use(group, of, func(t *BalancedTarget) {
			v := of(&t.Traffic)
			passed, failed, unsure = passed || passes(v), failed || !passes(v), unsure || v == string(policy.OutcomeUnknown)
		})
	}
	known := len(b.Unknown) == 0
	switch {
	case known && !passed && !failed:
		return string(policy.OutcomeDrop), fmt.Sprintf("nobody is behind the load balancer %s at this port", b.Balancer)
	case !failed:
		return entry, ""
	case known && !passed && !unsure:
		return string(policy.OutcomeDrop), fmt.Sprintf("the load balancer %s takes it, and none of its targets does", b.Balancer)
	}
	return string(policy.OutcomeUnknown), fmt.Sprintf("it depends on whom the load balancer %s chooses", b.Balancer)
}

// byGroup yields the targets of each group.
func byGroup(all []BalancedTarget) func(func([]BalancedTarget) bool) {
	return func(yield func([]BalancedTarget) bool) {
		for first := 0; first < len(all); {
			last := first
			for last < len(all) && all[last].Group == all[first].Group {
				last++
			}
			if !yield(all[first:last]) {
				return
			}
			first = last
		}
	}
}

// throughBalancer follows the packet of a flow on to the targets of the balancer that it comes to,
// if it comes to one.
func (x *Explanation) throughBalancer(f *Flow, p passage, front end) {
	if f.Balanced = x.handedOn(p, front); f.Balanced == nil {
		return
	}
	var why string
	if f.Verdict, why = f.Balanced.verdict(f.Verdict, func(h *Hop) string { return h.Verdict }); why != "" {
		x.Reason = why
	}
	f.Wanted, _ = f.Balanced.verdict(f.Wanted, func(h *Hop) string { return h.Wanted })
}
