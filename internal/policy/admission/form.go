package admission

import (
	"net/netip"
	"strings"

	"github.com/nephele-io/nephele/internal/policy"
)

// GroupSchema returns what the schema of its CRD refuses in a Group or ClusterGroup, as Schema does
// for policies.
func GroupSchema(g *policy.Group) []policy.FieldError {
	c := &checker{}
	c.selectorForms("spec", g.PodSelector, g.NamespaceSelector, g.ExternalEntitySelector, g.NodeSelector)
	for i := range g.IPBlocks {
		c.blockForm(&g.IPBlocks[i], at("spec.ipBlocks", i))
	}
	return c.errs
}

// appliedToForm checks the form of one list.
func (c *checker) appliedToForm(list []policy.AppliedTo, path string) {
	for i := range list {
		a := &list[i]
		c.selectorForms(at(path, i), a.PodSelector, a.NamespaceSelector, a.ExternalEntitySelector, a.NodeSelector)
	}
}

// peerForms checks the form of the peers of a rule.
func (c *checker) peerForms(ingress bool, peers []policy.Peer, rule string) {
	side := rule + ".to"
	if ingress {
		side = rule + ".from"
	}
	for i := range peers {
		p, path := &peers[i], at(side, i)
		c.selectorForms(path, p.PodSelector, p.NamespaceSelector, p.ExternalEntitySelector, p.NodeSelector)
		if p.IPBlock != nil {
			c.blockForm(p.IPBlock, path+".ipBlock")
		}
		switch p.Scope {
		case "", "Cluster", "ClusterSet":
		default:
			c.add(path+".scope", p.Scope, "Cluster")
		}
		if n := p.Namespaces; n != nil {
			switch {
			case n.Match == "" && len(n.SameLabels) == 0:
				c.given(path+".namespaces", "nothing", "match or sameLabels")
			case n.Match != "" && len(n.SameLabels) > 0:
				c.given(path+".namespaces", "match and sameLabels", "either match or sameLabels")
			case n.Match != "" && n.Match != "Self":
				c.add(path+".namespaces.match", n.Match, "Self")
			}
		}
	}
}

// selectorForms checks operators and values. Keys are for the Validate functions.
func (c *checker) selectorForms(path string, pod, namespace, external, node *policy.Selector) {
	all := &checker{}
	all.selectors(path, pod, namespace, external, node)
	for _, e := range all.errs {
		if strings.HasSuffix(e.Field, ".operator") || strings.HasSuffix(e.Field, "]") || strings.HasSuffix(e.Field, ".values") {
			c.errs = append(c.errs, e)
		}
	}
}

// blockForm checks that there are CIDRs; whether they fit one another is for the Validate
// functions.
func (c *checker) blockForm(b *policy.IPBlock, path string) {
	check := func(cidr, path string) {
		if _, err := netip.ParsePrefix(cidr); err != nil {
			c.add(path, cidr, "a CIDR, for example 10.0.0.0/8 or 2001:db8::/32")
		}
	}
	check(b.CIDR, path+".cidr")
	for i, cidr := range b.Except {
		check(cidr, at(path+".except", i))
	}
}
