package packet

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/nephele-io/nephele/internal/sim/aws"
	"github.com/nephele-io/nephele/internal/sim/native"
)

// Passage is what becomes of a flow to the front end of a balancer.
type Passage struct {
	// Allowed is true if the client reaches the front end and, from there, a target that is in use.
	Allowed  bool
	Balancer native.Ref
	// Front is the interface of the balancer that the client comes to, Entry the verdict on the way
	// to it.
	Front string
	Entry Verdict
	// Listener is what takes the flow, and TargetGroup what it is handed to.
	Listener    native.Listener
	TargetGroup string
	// Preserved is true if the targets see the address of the client instead of the balancer's.
	Preserved bool
	Targets   []TargetPassage
}

// TargetPassage is the way from a balancer to one target.
type TargetPassage struct {
	Target native.Target
	NIC    string     // the target's interface; empty if there is none
	From   netip.Addr // the address that the target sees
	Port   int
	// Verdict is that of the traffic, Health that of the health checks, which come from the
	// balancer always.
	Verdict Verdict
	Health  Verdict
	// InUse is true if the balancer sends traffic to it: it is healthy, or no target is.
	InUse bool
}

// Through follows a flow whose destination is the front end of a balancer. ok is false if it is
// not, or if no listener takes the flow. A target is healthy if the health checks of the front end
// reach it; if none is, all are in use, as the balancers of AWS do it. Cross-zone balancing is
// taken as on.
func (x *Judge) Through(f Flow) (out Passage, ok bool, err error) {
	client, front, err := x.parties(f)
	if err != nil {
		return out, false, fmt.Errorf("flow %s: %w", f, err)
	}
	if front.nic == nil {
		return out, false, nil
	}
	b := front.data.BalancerOf(front.nic.ID)
	if b == nil {
		return out, false, nil
	}
	at := slices.IndexFunc(b.Listeners, func(l native.Listener) bool { return l.Port == f.Port && native.Carries(l.Protocol, f.Protocol) })
	if at < 0 {
		return out, false, nil
	}
	out.Balancer, out.Front, out.Listener = b.Ref(), front.nic.ID, b.Listeners[at]
	if out.Entry, err = x.Allowed(f); err != nil {
		return out, false, err
	}
	g := front.data.Targets[out.Listener.Target]
	if g == nil {
		return out, true, nil
	}
	out.TargetGroup, out.Preserved = g.Name, g.Preserves(b.Kind)
	for _, t := range g.Targets {
		out.Targets = append(out.Targets, x.toTarget(placed{front.nic, front.data}, client, g, t, f.Protocol, out.Preserved))
	}
	anyHealthy := slices.ContainsFunc(out.Targets, func(t TargetPassage) bool { return t.Health.Allowed })
	for i := range out.Targets {
		t := &out.Targets[i]
		t.InUse = t.Health.Allowed || !anyHealthy && t.NIC != ""
		out.Allowed = out.Allowed || out.Entry.Allowed && t.InUse && t.Verdict.Allowed
	}
	return out, true, nil
}

// toTarget judges the hop from one interface of a balancer to a target. Where the client is
// preserved the target's rules see its address, but the groups of the balancer: "Security groups
// for your Network Load Balancer" lets targets refer to the balancer's groups in both cases.
func (x *Judge) toTarget(via placed, client endpoint, g *native.TargetGroup, t native.Target, protocol int, preserved bool) TargetPassage {
	out := TargetPassage{Target: t, Port: g.PortOf(t)}
	target, ok := x.target(via.data, g, t, client.addr.Is6() && preserved)
	from := endpoint{placed: via}
	if own, err := x.nicSide(via, netip.Addr{}, ok && target.addr.Is6()); err == nil {
		from.addr = own.addr
	}
	out.From = from.addr
	if preserved {
		out.From = client.addr
	}
	if !ok {
		out.Verdict.Reason = "denied: there is no interface of target " + t.ID
		out.Health = out.Verdict
		return out
	}
	out.NIC = target.nic.ID
	seen := endpoint{placed: via, addr: out.From}
	out.Verdict = x.hop(from, seen, target, Flow{Protocol: protocol, Port: out.Port})
	health := Flow{Protocol: aws.ProtoTCP, Port: g.HealthPortOf(t)}
	out.Health = x.hop(from, from, target, health)
	return out
}

// hop judges one leg: from the balancer's interface, whose rules see the target, to the target,
// whose rules see the address that the packet carries.
func (x *Judge) hop(from, seen, to endpoint, f Flow) Verdict {
	f.Src, f.Dst = End{NIC: from.nic.ID, Addr: seen.addr}, End{NIC: to.nic.ID, Addr: to.addr}
	v := x.judge(from, seen, to, f)
	v.Reason = x.reason(v, seen, to, f)
	return v
}

// target makes a target definite: the first interface of an instance, or whatever has the address.
func (x *Judge) target(d *aws.Resources, g *native.TargetGroup, t native.Target, v6 bool) (endpoint, bool) {
	if strings.HasPrefix(t.ID, "i-") {
		attached := d.Attached(t.ID)
		if len(attached) == 0 {
			return endpoint{}, false
		}
		p, err := x.nicSide(placed{attached[0], d}, netip.Addr{}, v6)
		return p, err == nil
	}
	a, err := netip.ParseAddr(t.ID)
	if err != nil {
		return endpoint{}, false
	}
	p, err := x.endpoint(End{Addr: a}, g.VPCID, g.VPCID, a.Is6())
	return p, err == nil && p.nic != nil
}

// Health tells the state of each target of a group, as DescribeTargetHealth does: unused if no
// balancer of the same resources listens for it, healthy if the health checks from every interface
// of its balancers reach it, else unhealthy.
func (x *Judge) Health(d *aws.Resources, g *native.TargetGroup) (out []native.TargetHealth) {
	for _, t := range g.Targets {
		h := native.TargetHealth{Target: native.Target{ID: t.ID, Port: g.PortOf(t)}, HealthPort: g.HealthPortOf(t), State: "unused"}
		for _, b := range d.Services {
			if !slices.ContainsFunc(b.Listeners, func(l native.Listener) bool { return l.Target == g.Name }) {
				continue
			}
			h.State = "healthy"
			for _, id := range b.NICs() {
				n := d.NICs[id]
				if n != nil && !x.toTarget(placed{n, d}, endpoint{}, g, t, aws.ProtoTCP, false).Health.Allowed {
					h.State = "unhealthy"
				}
			}
		}
		out = append(out, h)
	}
	return out
}
