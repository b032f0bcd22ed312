package policytest

import (
	"fmt"

	"github.com/nephele-io/nephele/internal/policy"
)

// upstream draws a policy of a kind of policy.networking.k8s.io, in the form in which they are
// given to an Engine.
func (d Draw) upstream(n int) policy.Policy {
	p := policy.Policy{Name: fmt.Sprintf("up%d", n), UID: fmt.Sprintf("uid-up%d", n), Generation: int64(d(3)), Priority: float64(d(3))}
	places := []struct {
		kind policy.PolicyKind
		tier int32
	}{
		{policy.ClusterNetworkPolicy, policy.AdminTierPriority}, {policy.ClusterNetworkPolicy, policy.UpstreamBaselineTierPriority},
		{policy.AdminNetworkPolicy, policy.AdminNetworkPolicyTierPriority},
		{policy.BaselineAdminNetworkPolicy, policy.UpstreamBaselineTierPriority},
	}
	place := pickOf(d, places)
	p.Kind, p.TierPriority = place.kind, &place.tier
	p.AppliedTo = []policy.AppliedTo{{NamespaceSelector: d.nsSelector()}}
	if d.chance(60) {
		p.AppliedTo[0].PodSelector = d.pods()
	}
	for range d(3) {
		p.Ingress = append(p.Ingress, d.upstreamRule(policy.Ingress))
	}
	for range d(3) {
		p.Egress = append(p.Egress, d.upstreamRule(policy.Egress))
	}
	return p
}

// pods draws a selector that is there.
func (d Draw) pods() *policy.Selector {
	if s := d.Selector(); s != nil {
		return s
	}
	return &policy.Selector{}
}

func (d Draw) upstreamRule(direction policy.Direction) policy.Rule {
	r := policy.Rule{Action: pickOf(d, []policy.Action{policy.Allow, policy.Drop, policy.Pass})}
	if d.chance(50) {
		r.Name = fmt.Sprintf("r%d", d(3))
	}
	for range d(3) {
		r.Peers = append(r.Peers, d.upstreamPeer(direction))
	}
	r.NoPeers = d.chance(50)
	for range d(3) {
		p := policy.Port{Protocol: pickOf(d, []policy.Protocol{policy.TCP, policy.UDP, policy.SCTP})}
		switch d(4) {
		case 0:
			p.Port = &policy.PortRef{Number: int32(80 + d(2))}
		case 1:
			end := int32(81 + d(10))
			p.Port, p.EndPort = &policy.PortRef{Number: 80}, &end
		case 2:
			p = policy.Port{AnyProtocol: true, Port: &policy.PortRef{Name: "http"}}
		}
		r.Ports = append(r.Ports, p)
	}
	return r
}

func (d Draw) upstreamPeer(direction policy.Direction) policy.Peer {
	if direction == policy.Egress || d.chance(2) {
		switch d(6) {
		case 0:
			return policy.Peer{NodeSelector: d.pods()}
		case 1:
			return policy.Peer{Networks: []string{d.ipBlock().CIDR, d.ipBlock().CIDR}[:1+d(2)]}
		case 2:
			return policy.Peer{DomainNames: []string{"*.example.com", "example.org"}[:1+d(2)]}
		}
	}
	x := policy.Peer{NamespaceSelector: d.nsSelector()}
	if d.chance(60) {
		x.PodSelector = d.pods()
	}
	return x
}
