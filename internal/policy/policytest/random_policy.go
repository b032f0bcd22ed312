package policytest

import (
	"fmt"

	"github.com/nephele-io/nephele/internal/policy"
)

func (d Draw) policy() policy.Policy {
	n := d(8)
	if n >= 6 {
		return d.upstream(n - 6)
	}
	p := policy.Policy{Name: fmt.Sprintf("p%d", n), Generation: int64(d(3)), Priority: float64(1 + d(3))}
	switch n % 3 {
	case 0:
		p.Kind, p.Namespace = policy.AntreaNetworkPolicy, namespaces[n%len(namespaces)]
	case 1:
		p.Kind = policy.AntreaClusterNetworkPolicy
	case 2:
		p.Kind, p.Namespace = policy.KubernetesNetworkPolicy, namespaces[n%len(namespaces)]
	}
	p.UID = fmt.Sprintf("uid-%d", n)
	if p.Kind == policy.KubernetesNetworkPolicy {
		return d.kubernetes(p)
	}
	p.Tier = pickOf(d, tierNames)
	perRule := d.chance(25)
	if !perRule {
		for range 1 + d(2) {
			p.AppliedTo = append(p.AppliedTo, d.appliedTo(&p))
		}
	}
	rule := func(direction policy.Direction) policy.Rule {
		r := d.rule(&p, direction)
		if perRule {
			r.AppliedTo = []policy.AppliedTo{d.appliedTo(&p)}
		}
		return r
	}
	for range d(3) {
		p.Ingress = append(p.Ingress, rule(policy.Ingress))
	}
	for range d(3) {
		p.Egress = append(p.Egress, rule(policy.Egress))
	}
	return p
}

func (d Draw) kubernetes(p policy.Policy) policy.Policy {
	p.Priority = 0
	p.AppliedTo = []policy.AppliedTo{{PodSelector: d.Selector()}}
	rule := func() policy.Rule {
		var r policy.Rule
		for range d(3) {
			x := policy.Peer{PodSelector: d.Selector()}
			switch d(3) {
			case 0:
				x.NamespaceSelector = d.nsSelector()
			case 1:
				b := d.ipBlock()
				x = policy.Peer{IPBlock: &b}
			}
			r.Peers = append(r.Peers, x)
		}
		r.Ports = d.ports()
		return r
	}
	for range d(3) {
		p.Ingress = append(p.Ingress, rule())
	}
	for range d(3) {
		p.Egress = append(p.Egress, rule())
	}
	p.PolicyTypes = pickOf(d, [][]policy.Direction{nil, {policy.Ingress}, {policy.Egress}, {policy.Ingress, policy.Egress}})
	return p
}

func (d Draw) appliedTo(p *policy.Policy) policy.AppliedTo {
	var a policy.AppliedTo
	switch n := d(16); {
	case n < 6:
		a.ExternalEntitySelector = d.Selector()
	case n < 10:
		a.PodSelector = d.Selector()
	case n < 13:
		a.Group = pickOf(d, groupNames)
		return a
	case n < 14:
		a.ServiceAccount = d.account()
		return a
	case n < 15:
		a.Service = &policy.NamespacedName{Namespace: pickOf(d, namespaces), Name: "s"}
		return a
	default:
		a.NodeSelector = d.Selector()
		return a
	}
	if p.Namespace == "" && d.chance(60) {
		a.NamespaceSelector = d.nsSelector()
	}
	return a
}

func (d Draw) rule(p *policy.Policy, direction policy.Direction) policy.Rule {
	r := policy.Rule{
		Name: fmt.Sprintf("r%d", d(3)), EnableLogging: d.chance(20),
		Action: pickOf(d, []policy.Action{policy.Allow, policy.Drop, policy.Reject, policy.Pass}),
	}
	if d.chance(10) {
		r.L7Protocols = []policy.L7Protocol{{HTTP: &policy.HTTPMatch{Host: "x"}}}
	}
	if direction == policy.Egress && d.chance(10) {
		r.ToServices = []policy.ServicePeer{{Name: "s", Namespace: pickOf(d, []string{"", "n0"})}}
		return r
	}
	for range d(3) {
		r.Peers = append(r.Peers, d.peer(p, direction))
	}
	r.Ports = d.ports()
	if d.chance(15) {
		m := &policy.ICMPMatch{}
		if d.chance(50) {
			n := int32(d(2) * 8)
			m.Type = &n
		}
		r.Protocols = []policy.RuleProtocol{{ICMP: m}}
	}
	return r
}

func (d Draw) peer(p *policy.Policy, direction policy.Direction) policy.Peer {
	var x policy.Peer
	switch n := d(20); {
	case n < 6:
		x.ExternalEntitySelector = d.Selector()
	case n < 10:
		x.PodSelector = d.Selector()
	case n < 13:
		x.Group = pickOf(d, groupNames)
		return x
	case n < 15:
		b := d.ipBlock()
		x.IPBlock = &b
		return x
	case n < 16:
		x.ServiceAccount = d.account()
		return x
	case n < 17:
		x.NodeSelector = d.Selector()
		return x
	case n < 18 && direction == policy.Egress:
		x.FQDN = "*.example.com"
		return x
	}
	switch {
	case p.Namespace == "" && d.chance(25):
		x.Namespaces = &policy.PeerNamespaces{Match: "Self"}
		if d.chance(50) {
			x.Namespaces = &policy.PeerNamespaces{SameLabels: []string{"team", "env"}[:1+d(2)]}
		}
	case d.chance(50):
		x.NamespaceSelector = d.nsSelector()
	}
	return x
}

func (d Draw) ports() []policy.Port {
	var out []policy.Port
	for range d(3) {
		p := policy.Port{Protocol: pickOf(d, []policy.Protocol{policy.TCP, policy.UDP, ""})}
		switch d(4) {
		case 0:
			p.Port = &policy.PortRef{Number: int32(80 + d(2))}
		case 1:
			p.Port = &policy.PortRef{Name: "http"}
		case 2:
			end := int32(81 + d(10))
			p.Port, p.EndPort = &policy.PortRef{Number: 80}, &end
			if d.chance(3) {
				end = 1
			}
		}
		if d.chance(10) {
			src := int32(1000 + d(2))
			p.SourcePort = &src
		}
		out = append(out, p)
	}
	return out
}
