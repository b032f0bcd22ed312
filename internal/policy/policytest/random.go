package policytest

import (
	"fmt"
	"net/netip"

	"github.com/nephele-io/nephele/internal/policy"
)

// Draw returns a number from 0 to n-1. Smaller is simpler.
type Draw func(n int) int

// Vocabulary of random worlds: small, so that things collide.
var (
	namespaces = []string{"n0", "n1", "n2", "n3"}
	values     = []string{"a", "b", "c"}
	hosts      = []string{"h0", "h1", "h2"}
	tierNames  = []string{"", "baseline", "extra", "emergency"}
	groupNames = []string{"g0", "g1", "g2", "g3"}
)

func (d Draw) chance(percent int) bool { return d(100) >= 100-percent }

func pickOf[T any](d Draw, in []T) T { return in[d(len(in))] }

func (d Draw) labels() map[string]string {
	out := map[string]string{}
	for _, k := range []string{"role", "zone"} {
		if n := d(len(values) + 1); n > 0 {
			out[k] = values[n-1]
		}
	}
	return out
}

// Selector draws a selector, sometimes nil, rarely an invalid one.
func (d Draw) Selector() *policy.Selector {
	switch n := d(20); {
	case n < 2:
		return &policy.Selector{}
	case n < 9:
		return &policy.Selector{MatchLabels: map[string]string{pickOf(d, []string{"role", "zone"}): pickOf(d, values)}}
	}
	out := &policy.Selector{}
	if d.chance(40) {
		out.MatchLabels = map[string]string{"role": pickOf(d, values)}
	}
	for range 1 + d(2) {
		r := policy.Requirement{Key: pickOf(d, []string{"role", "zone"})}
		switch d(5) {
		case 0:
			r.Operator, r.Values = "In", []string{pickOf(d, values)}
		case 1:
			r.Operator, r.Values = "In", []string{pickOf(d, values), pickOf(d, values)}
		case 2:
			r.Operator, r.Values = "NotIn", []string{pickOf(d, values)}
		case 3:
			r.Operator = "Exists"
		case 4:
			r.Operator = "DoesNotExist"
		}
		out.MatchExpressions = append(out.MatchExpressions, r)
	}
	if d.chance(2) {
		out.MatchExpressions = append(out.MatchExpressions, policy.Requirement{Key: "role", Operator: "Like"})
	}
	return out
}

func (d Draw) nsSelector() *policy.Selector {
	switch d(4) {
	case 0:
		return &policy.Selector{}
	case 1:
		return &policy.Selector{MatchExpressions: []policy.Requirement{{Key: "team", Operator: "NotIn", Values: []string{"a"}}}}
	}
	return &policy.Selector{MatchLabels: map[string]string{pickOf(d, []string{"team", "env"}): pickOf(d, values)}}
}

// Object draws an object to put.
func (d Draw) Object() Object {
	switch n := d(20); {
	case n < 9:
		return d.entity()
	case n < 12:
		return d.namespace()
	case n < 17:
		return d.policy()
	case n < 19:
		return d.group()
	}
	if d.chance(50) {
		return policy.Tier{Name: "extra", Priority: int32(10 + d(3))}
	}
	s := policy.Service{Namespace: pickOf(d, namespaces), Name: "s"}
	if d.chance(80) {
		s.Selector = map[string]string{"role": pickOf(d, values)}
	}
	return s
}

func (d Draw) namespace() policy.Namespace {
	labels := map[string]string{}
	for _, k := range []string{"team", "env"} {
		if n := d(3); n > 0 {
			labels[k] = values[n-1]
		}
	}
	return policy.Namespace{Name: pickOf(d, namespaces), Labels: labels, LogNetworkPolicies: d.chance(20)}
}

func (d Draw) entity() policy.Entity {
	e := policy.Entity{Labels: d.labels()}
	n := d(4)
	switch d(6) {
	case 0:
		e.EntityRef = policy.EntityRef{Kind: policy.KindNode, Name: pickOf(d, hosts)}
		e.Addresses = []netip.Addr{netip.AddrFrom4([4]byte{192, 168, 0, byte(1 + d(3))})}
		return e
	case 1, 2, 3:
		e.EntityRef = policy.EntityRef{Kind: policy.KindExternalEntity, Namespace: pickOf(d, namespaces), Name: fmt.Sprintf("e%d", n)}
	default:
		e.EntityRef = policy.EntityRef{Kind: policy.KindPod, Namespace: pickOf(d, namespaces), Name: fmt.Sprintf("p%d", n)}
		e.HostNetwork, e.Terminated = d.chance(8), d.chance(8)
		if d.chance(30) {
			e.ServiceAccount = "sa"
		}
	}
	for range d(3) {
		if d.chance(20) {
			e.Addresses = append(e.Addresses, netip.MustParseAddr(fmt.Sprintf("2001:db8::%d", d(5))))
		} else {
			e.Addresses = append(e.Addresses, netip.AddrFrom4([4]byte{10, 0, 0, byte(d(6))}))
		}
	}
	if d.chance(90) {
		e.Host = pickOf(d, hosts)
	}
	if d.chance(30) {
		e.Ports = []policy.NamedPort{{Name: "http", Port: int32(80 + d(2))}}
	}
	return e
}

func (d Draw) group() policy.Group {
	g := policy.Group{Name: pickOf(d, groupNames), UID: "uid"}
	if d.chance(30) {
		g.Namespace = pickOf(d, namespaces[:2])
	}
	g.UID = fmt.Sprintf("uid-%s-%s-%d", g.Namespace, g.Name, d(2))
	switch d(8) {
	case 0, 1:
		g.ExternalEntitySelector = d.Selector()
	case 2:
		g.PodSelector = d.Selector()
	case 3, 4:
		for range 1 + d(3) {
			g.ChildGroups = append(g.ChildGroups, pickOf(d, groupNames))
		}
		return g
	case 5:
		g.IPBlocks = []policy.IPBlock{d.ipBlock()}
		return g
	case 6:
		g.ServiceReference = &policy.NamespacedName{Namespace: pickOf(d, namespaces), Name: "s"}
		return g
	case 7:
		if g.Namespace == "" {
			g.NodeSelector = d.Selector()
		}
		return g
	}
	if d.chance(50) {
		g.NamespaceSelector = d.nsSelector()
	}
	return g
}

func (d Draw) ipBlock() policy.IPBlock {
	b := policy.IPBlock{CIDR: pickOf(d, []string{"10.0.0.0/24", "10.0.0.5/8", "0.0.0.0/0", "2001:db8::/32"})}
	if d.chance(3) {
		b.CIDR = pickOf(d, []string{"10.0.0.0", "x", "::ffff:10.0.0.0/104", "10.0.0.0/33"})
	}
	if d.chance(20) {
		b.Except = []string{pickOf(d, []string{"10.0.0.4/30", "2001:db8::1/128"})}
	}
	return b
}

func (d Draw) account() *policy.NamespacedName {
	return &policy.NamespacedName{Namespace: pickOf(d, namespaces), Name: "sa"}
}
