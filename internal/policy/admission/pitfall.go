package admission

import (
	"strings"

	"github.com/nephele-io/nephele/internal/policy"
)

// Pitfalls returns what an Antrea policy says that is not done: parts that are left out without a
// word, as an Antrea Controller leaves them out. A new policy with such a part is refused (HTTP
// 400). One that was stored before goes on as it is; its status is to say it. set
// says that other clusters of a ClusterSet are known.
func Pitfalls(p *policy.Policy, set bool) []policy.FieldError {
	c := &checker{}
	relative := ""
	eachPeer(p, func(path string, peer *policy.Peer) {
		if peer.Scope == scopeClusterSet && !set {
			c.add(path+".scope", peer.Scope, "Cluster, or no scope: nothing is known here of other clusters of a ClusterSet, as this one is no member")
		}
		if peer.Namespaces == nil {
			return
		}
		if relative == "" {
			relative = path
		}
		others := fieldNames([]setField{{peer.IPBlock != nil, "ipBlock"}, {peer.FQDN != "", "fqdn"}})
		if others != "" {
			c.given(path, "namespaces and "+others, "either namespaces or "+others+": addresses are in no Namespace")
		}
	})
	if relative == "" {
		return c.errs
	}
	c.inNamespaces(p.AppliedTo, "spec.appliedTo", relative)
	eachRule(p, func(path string, r *policy.Rule) {
		for i := range r.Peers {
			if r.Peers[i].Namespaces != nil {
				c.inNamespaces(r.AppliedTo, path+".appliedTo", path)
				return
			}
		}
	})
	return c.errs
}

const scopeClusterSet = "ClusterSet"

// OfClusterSet reports whether a policy has peers of other clusters of a ClusterSet.
func OfClusterSet(p *policy.Policy) (is bool) {
	eachPeer(p, func(_ string, peer *policy.Peer) { is = is || peer.Scope == scopeClusterSet })
	return is
}

// inNamespaces refuses entries of appliedTo that a rule with peers relative to a Namespace does not
// apply to.
func (c *checker) inNamespaces(list []policy.AppliedTo, path, relative string) {
	for i := range list {
		what := fieldNames([]setField{{list[i].NodeSelector != nil, "nodeSelector"}, {list[i].Service != nil, "service"}})
		if what != "" {
			c.given(at(path, i), what, "no "+what+" where a rule has peers with namespaces ("+relative+"): it is in no Namespace, and the rule would not apply to it")
		}
	}
}

// eachPeer calls f for every peer with its path.
func eachPeer(p *policy.Policy, f func(path string, peer *policy.Peer)) {
	eachRule(p, func(path string, r *policy.Rule) {
		side := path + ".to"
		if strings.HasPrefix(path, "spec.ingress") {
			side = path + ".from"
		}
		for i := range r.Peers {
			f(at(side, i), &r.Peers[i])
		}
	})
}

// Warnings returns what an Antrea policy says that is done, and may not be what its author expects.
func Warnings(p *policy.Policy) []policy.FieldError {
	c := &checker{}
	meaning := "nothing"
	if p.Namespace != "" {
		meaning = "all Pods of the Namespace"
	}
	const want = "a field that selects; without any, the entry means "
	appliedTo := func(list []policy.AppliedTo, path string) {
		for i := range list {
			a := &list[i]
			if count(a.PodSelector, a.NamespaceSelector, a.ExternalEntitySelector, a.NodeSelector) == 0 && a.Group == "" && a.ServiceAccount == nil && a.Service == nil {
				c.given(at(path, i), "nothing", want+meaning)
			}
		}
	}
	appliedTo(p.AppliedTo, "spec.appliedTo")
	eachRule(p, func(path string, r *policy.Rule) {
		appliedTo(r.AppliedTo, path+".appliedTo")
		for i, s := range r.ToServices {
			if s.Scope == scopeClusterSet && !p.Set {
				c.add(at(path+".toServices", i)+".scope", s.Scope, "Cluster, unless clusters of a set that this one is in export the Service, "+
					"or Antrea Multi-cluster has imported it as antrea-mc-"+strings.TrimPrefix(s.Name, "antrea-mc-"))
			}
		}
	})
	eachPeer(p, func(path string, x *policy.Peer) {
		if count(x.PodSelector, x.NamespaceSelector, x.ExternalEntitySelector, x.NodeSelector) == 0 && x.Group == "" && x.ServiceAccount == nil &&
			x.IPBlock == nil && x.FQDN == "" && x.Namespaces == nil {
			c.given(path, "nothing", want+meaning)
		}
	})
	return c.errs
}

// GroupWarnings is Warnings for a Group or ClusterGroup.
func GroupWarnings(g *policy.Group) []policy.FieldError {
	if partsOf(g) != "" || g.NamespaceSelector != nil {
		return nil
	}
	c := &checker{}
	if g.Namespace != "" {
		c.given("spec", "nothing", "a field that selects; without any, the group is all Pods of its Namespace")
	} else {
		c.given("spec", "nothing", "a field that selects; without any, the group is empty")
	}
	return c.errs
}
