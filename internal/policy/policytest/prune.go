package policytest

import "github.com/nephele-io/nephele/internal/policy"

// PruneAsAntrea removes from a policy what the schemas of Antrea's CRDs drop without a word, and
// reports whether there was anything: externalEntitySelector anywhere in a ClusterNetworkPolicy and
// in rule-level appliedTo, fqdn in ingress rules.
func PruneAsAntrea(p *policy.Policy) bool {
	cluster := p.Kind == policy.AntreaClusterNetworkPolicy
	pruned := false
	applied := func(in []policy.AppliedTo) []policy.AppliedTo {
		out := append([]policy.AppliedTo(nil), in...)
		for i := range out {
			if out[i].ExternalEntitySelector != nil {
				out[i].ExternalEntitySelector, pruned = nil, true
			}
		}
		return out
	}
	if cluster {
		p.AppliedTo = applied(p.AppliedTo)
	}
	rules := func(in []policy.Rule, ingress bool) []policy.Rule {
		out := append([]policy.Rule(nil), in...)
		for i := range out {
			out[i].AppliedTo = applied(out[i].AppliedTo)
			out[i].Peers = append([]policy.Peer(nil), out[i].Peers...)
			for j := range out[i].Peers {
				peer := &out[i].Peers[j]
				if cluster && peer.ExternalEntitySelector != nil {
					peer.ExternalEntitySelector, pruned = nil, true
				}
				if ingress && peer.FQDN != "" {
					peer.FQDN, pruned = "", true
				}
			}
		}
		return out
	}
	p.Ingress, p.Egress = rules(p.Ingress, true), rules(p.Egress, false)
	return pruned
}
