package explain

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	analysis "github.com/nephele-io/nephele/api/analysis/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/trace"
	"github.com/nephele-io/nephele/internal/policy"
	"github.com/nephele-io/nephele/internal/policy/evaluate"
)

// balancerNotes are about packets to a load balancer whose targets are unknown: each names the
// source address that the targets see.
func balancerNotes(packets []passage) []string {
	var out []string
	for _, p := range packets {
		s := balancerAt(p.dst)
		if s == nil {
			continue
		}
		note := ""
		switch {
		case s.Listeners != nil && listenerOf(s, frontAddr(p.dst), &p.sent) == nil:
			note = "The load balancer " + s.Name + " does not listen at " + flowText(p.sent) + ": it hands on nothing that comes there."
		case s.Listeners != nil && s.Kind == cloud.ApplicationGateway:
			note = "The application gateway " + s.Name + " sends from addresses of its subnet, and Azure does not tell from which: " + ownPoint(p.dst, false).Addr.String() + " stands for them."
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
	case cloud.ApplicationLoadBalancer, cloud.NetworkLoadBalancer, cloud.GatewayLoadBalancer, cloud.LoadBalancer, cloud.ApplicationGateway:
		return s
	}
	return nil
}

// frontAddr is the address at which a front end is asked for.
func frontAddr(p trace.Point) netip.Addr {
	if p.Public.IsValid() {
		return p.Public
	}
	return p.Addr
}

// listenerOf is the listener that takes a packet to an address; nil if none does, or is known. One
// for the very port goes before one for all ports.
func listenerOf(s *cloud.Service, to netip.Addr, f *evaluate.Flow) *cloud.ServiceListener {
	protocol := serviceOf(f, false).Protocol
	for _, port := range []uint16{f.Port, 0} {
		i := slices.IndexFunc(s.Listeners, func(l cloud.ServiceListener) bool {
			return l.Protocol == protocol && l.Port == port && (l.Addrs == nil || slices.Contains(l.Addrs, to))
		})
		if i >= 0 {
			return &s.Listeners[i]
		}
	}
	return nil
}

// handedOn follows a packet that has come to the front end of a load balancer; nil if it has not,
// or if nothing is known of what comes after.
func (x *answering) handedOn(p passage, front end) *analysis.Balanced {
	s := balancerAt(p.dst)
	if s == nil {
		return nil
	}
	listener := listenerOf(s, frontAddr(p.dst), &p.sent)
	if listener == nil {
		return nil
	}
	out := &analysis.Balanced{Balancer: cmp.Or(s.Name, s.ID), Kind: string(s.Kind)}
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
		use(out.Targets[first:], func(h *analysis.Hop) string { return h.Verdict }, func(t *analysis.BalancedTarget) { t.InUse = true })
	}
	return out
}

// use calls used for the targets of a group that the balancer sends to: the targets that a health
// check reaches, or all if it reaches none.
func use(group []analysis.BalancedTarget, verdict func(*analysis.Hop) string, used func(*analysis.BalancedTarget)) {
	failing := func(t *analysis.BalancedTarget) bool {
		if t.Health == nil {
			return false
		}
		v := verdict(t.Health)
		return !passes(v) && v != outcomeUnknown
	}
	none := !slices.ContainsFunc(group, func(t analysis.BalancedTarget) bool { return !failing(&t) })
	for i := range group {
		if none || !failing(&group[i]) {
			used(&group[i])
		}
	}
}

func passes(verdict string) bool {
	return verdict == outcomeAllow || verdict == outcomeNative
}

// toTarget follows a packet from the front end that it has come to on to a target.
func (x *answering) toTarget(p passage, front end, g *cloud.TargetGroup, t cloud.Target) analysis.BalancedTarget {
	c := x.c
	out := analysis.BalancedTarget{Group: g.Name, Preserved: g.Preserved, Further: t.ServiceID != ""}
	v6 := g.Preserved && p.come.Source.Addr.Is6()
	at, target := c.target(p.dst, g, t, v6)
	out.At = c.explainEnd(at)
	if !target.Addr.IsValid() { // nobody in sight
		out.At = analysis.End{Title: "somebody else"}
	}
	own := ownPoint(p.dst, target.Addr.Is6())
	seen, source := own, front
	if g.Preserved {
		seen.Addr, source = p.come.Source.Addr, x.source
	}
	if g.Transparent && p.src.Interface != nil && seen.Addr == p.src.Addr {
		// Rules see the client itself. The filter of its subnet has been asked already.
		client := *p.src.Interface
		client.SubnetID = ""
		seen = p.src
		seen.Interface = &client
	}
	f := evaluate.Flow{Protocol: p.sent.Protocol, Port: cmp.Or(t.Port, p.sent.Port)}
	if g.Transparent && p.src.Interface != nil && target.Interface != nil && p.src.Interface.ID == target.Interface.ID {
		out.Traffic = stopped(DefaultReturns, f.Port)
		if target.Addr.IsValid() {
			out.Traffic.To, out.Traffic.From = target.Addr.String(), seen.Addr.String()
		}
	} else {
		out.Traffic = x.hop(hop{own: own, seen: seen, target: target, front: front, source: source, at: at, transparent: g.Transparent}, f)
	}
	if t.HealthPort != 0 {
		check := hop{own: own, seen: own, target: target, front: front, source: front, at: at}
		if len(g.Probes) > 0 {
			check.seen.Addr, check.source, check.admitted = g.Probes[0], end{}, true
		}
		h := x.hop(check, evaluate.Flow{Protocol: policy.TCP, Port: t.HealthPort})
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

// target finds a target: its end, and its point in the network.
func (c *Computation) target(front trace.Point, g *cloud.TargetGroup, t cloud.Target, v6 bool) (end, trace.Point) {
	var at trace.Point
	network := cmp.Or(g.NetworkID, front.Network())
	switch {
	case t.VMID != "":
		for _, p := range c.clouds.Now.VM(front.Region(), t.VMID) {
			if at.Interface == nil || p.Interface == at.Interface && at.Addr.Is6() != v6 {
				at = p
			}
		}
	case t.ServiceID != "":
		if a := front.FrontOf(t.ServiceID); a.IsValid() {
			at = c.clouds.Now.At(a, network)
		}
	default:
		at = c.clouds.Now.At(t.Addr, network)
		at.Public = netip.Addr{}
	}
	if at.VM != nil {
		if refs := c.clouds.EntitiesOf(at.Region(), at.VM.ID); len(refs) > 0 {
			e := c.endOf(c.Ends[refs[0]])
			e.addresses, e.byAddress = []netip.Addr{at.Addr}, true
			return e, at
		}
	}
	if at.Addr.IsValid() && at.VM == nil {
		if e, err := c.finder().findAddress("to", at.Addr); err == nil {
			return e, at
		}
	}
	return end{addresses: []netip.Addr{at.Addr}, byAddress: true}, at
}

// hop is the way of a packet from a balancer to a target.
type hop struct {
	// own is the interface of the balancer, seen the source that the target sees, and target the
	// target.
	own, seen, target trace.Point
	// front is the end of the balancer, source the end that the target sees, and at the end of the
	// target.
	front, source, at end
	// transparent tells that rules see the client as if there were no balancer, admitted that
	// groups of ours let the packet in whatever policies say.
	transparent, admitted bool
}

// hop follows a packet on a hop.
func (x *answering) hop(h hop, f evaluate.Flow) analysis.Hop {
	c := x.c
	if !h.target.Addr.IsValid() { // a machine that is not there
		return stopped(DefaultNobody, f.Port)
	}
	out := analysis.Hop{Port: int32(f.Port)}
	p := c.passageOf(pair{h.seen, h.target}, h.front, h.at, f)
	if h.seen.Interface != h.own.Interface && p.now != nil { // the groups of the client have been asked already
		free := trace.Filter{Interface: h.own.Interface, Allowed: true}
		p.now.Egress, p.native.Egress = &free, &free
	}
	p.come.Source, p.come.Relayed = h.source.endpoint(h.seen.Addr), true
	if !h.seen.Addr.IsValid() {
		p.come.Source = evaluate.Endpoint{Addr: somewhere()}
	}
	p.sent.Relayed = true
	v := evaluate.Verdict{Egress: x.evaluator.Evaluate(p.sent).Egress, Ingress: x.evaluator.Evaluate(p.come).Ingress}
	flow := analysis.Flow{Path: pathOf(p)}
	var now, native trace.Path
	if p.now != nil {
		now, native = *p.now, *p.native
	}
	account := c.accountView().accountOf(h.at, cloud.Ingress, p.come, p.come.Source.Addr, v.Ingress)
	sender := c.accountView().accountOf(h.front, cloud.Egress, p.sent, p.sent.Destination.Addr, v.Egress)
	flow.Egress = c.decide(h.front, c.explainEnd(h.front), v.Egress, sender, now.Egress, native.Egress)
	flow.Ingress = c.decide(h.at, c.explainEnd(h.at), v.Ingress, account, now.Ingress, native.Ingress)
	if h.admitted && h.at.isCloudVM() && c.accountView().selected(h.at.ref) {
		flow.Ingress = admitted(flow.Ingress, account.suspended, now.Ingress)
	}
	if d := flow.Ingress; d.Differs == DiffersChanged && h.source.ref != h.front.ref && !h.transparent {
		d.Differs = DiffersBalanced
	}
	c.view.Flow(&flow)
	if h.target.Addr.IsValid() {
		out.To = h.target.Addr.String()
	}
	if h.seen.Addr.IsValid() {
		out.From = h.seen.Addr.String()
	}
	out.Path, out.Egress, out.Ingress = flow.Path, flow.Egress, flow.Ingress
	out.Verdict = verdictOn(out.Path, together(out.Egress, nil, out.Ingress))
	out.Wanted = verdictOn(out.Path, together(ifEnforced(out.Egress), nil, ifEnforced(out.Ingress)))
	return out
}

// stopped is a hop on which nothing gets through, whatever groups and policies say.
func stopped(why string, port uint16) analysis.Hop {
	d := &analysis.Decision{Outcome: outcomeDrop, Default: why}
	return analysis.Hop{Port: int32(port), Verdict: outcomeDrop, Wanted: outcomeDrop, Egress: d, Ingress: d}
}

// admitted is what is so of a packet that groups of ours let in whatever policies say, at a VM that
// policies are enforced on, or will be.
func admitted(d *analysis.Decision, suspended string, now *trace.Filter) *analysis.Decision {
	in := &analysis.Decision{Outcome: outcomeAllow, Default: DefaultPlatform}
	switch {
	case suspended != "":
		return d
	case now == nil, slices.ContainsFunc(groupsOf(now).Held, func(g analysis.Group) bool { return g.Ours }):
		return in
	}
	out := *d
	out.IfEnforced = in
	return &out
}

// handedOnVerdict is what the sender sees of a packet that is handed on, if the way to the front
// end has a verdict already. Why says what it depends on, if it depends on something.
func handedOnVerdict(b *analysis.Balanced, entry string, of func(*analysis.Hop) string) (verdict, why string) {
	if !passes(entry) {
		return entry, ""
	}
	var passed, failed, unsure bool
	for group := range byGroup(b.Targets) {
		use(group, of, func(t *analysis.BalancedTarget) {
			v := of(&t.Traffic)
			passed, failed, unsure = passed || passes(v), failed || !passes(v), unsure || v == outcomeUnknown
		})
	}
	known := len(b.Unknown) == 0
	switch {
	case known && !passed && !failed:
		return outcomeDrop, fmt.Sprintf("nobody is behind the load balancer %s at this port", b.Balancer)
	case !failed:
		return entry, ""
	case known && !passed && !unsure:
		return outcomeDrop, fmt.Sprintf("the load balancer %s takes it, and none of its targets does", b.Balancer)
	}
	return outcomeUnknown, fmt.Sprintf("it depends on the target that the load balancer %s chooses", b.Balancer)
}

// byGroup yields the targets of each group.
func byGroup(all []analysis.BalancedTarget) func(func([]analysis.BalancedTarget) bool) {
	return func(yield func([]analysis.BalancedTarget) bool) {
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
func (x *answering) throughBalancer(f *analysis.Flow, p passage, front end) {
	if f.Balanced = x.handedOn(p, front); f.Balanced == nil {
		return
	}
	var why string
	if f.Verdict, why = handedOnVerdict(f.Balanced, f.Verdict, func(h *analysis.Hop) string { return h.Verdict }); why != "" {
		x.Reason = why
	}
	f.Wanted, _ = handedOnVerdict(f.Balanced, f.Wanted, func(h *analysis.Hop) string { return h.Wanted })
}
