package explain

import (
	"slices"

	analysis "github.com/nephele-io/nephele/api/analysis/v1alpha1"
	"github.com/nephele-io/nephele/internal/policy"
)

// View is what somebody may see. Whoever he may not see is an address like any other.
type View struct {
	// Namespace reports whether he may see who and what is in a Namespace.
	Namespace func(name string) bool
	// Cluster lets him see the policies of the cluster, the Nodes, and the machines in clouds that
	// no entity stands for.
	Cluster bool
}

// sees reports whether an entity may be seen. Who is none, as an address, has nothing to hide.
func (c *Computation) sees(ref policy.EntityRef) bool {
	switch {
	case c.view == nil || ref == (policy.EntityRef{}):
		return true
	case ref.Namespace == "":
		return c.view.Cluster
	}
	return c.view.Namespace(ref.Namespace)
}

// policy hides the name of a policy that may not be seen.
func (v *View) policy(p analysis.Policy) analysis.Policy {
	visible := v.Cluster
	if p.Namespace != "" {
		visible = v.Namespace(p.Namespace)
	}
	if visible {
		return p
	}
	return analysis.Policy{Type: p.Type, Hidden: true}
}

// Rule returns a rule as it may be seen: of a policy that is hidden what it does, and not what it
// is called or names.
func (c *Computation) Rule(r analysis.Rule) analysis.Rule {
	if c.view == nil {
		return r
	}
	r.Policy = c.view.policy(r.Policy)
	r.Through = nil // others with the same address, maybe somebody else's
	if r.Policy.Hidden {
		r.Name, r.DependsOn = "", nil
	}
	return r
}

// Policy returns a policy as it may be seen.
func (c *Computation) Policy(p analysis.Policy) analysis.Policy {
	if c.view == nil {
		return p
	}
	return c.view.policy(p)
}

// Limits reports whether somebody may see less than everything, as far as a list of Namespaces
// tells.
func (v View) Limits(namespaces []string) bool {
	return !v.Cluster || slices.ContainsFunc(namespaces, func(n string) bool { return !v.Namespace(n) })
}

// censor takes out of a decision what may not be seen.
func (c *Computation) censor(d *analysis.Decision) {
	if c.view == nil || d == nil {
		return
	}
	c.censor(d.IfEnforced)
	rules := func(list []analysis.Rule) {
		for i := range list {
			list[i] = c.Rule(list[i])
		}
	}
	if d.DecidedBy != nil {
		r := c.Rule(*d.DecidedBy)
		d.DecidedBy = &r
	}
	rules(d.Passed)
	rules(d.Uncertain)
	for i := range d.IsolatedBy {
		d.IsolatedBy[i] = c.view.policy(d.IsolatedBy[i])
	}
	for i := range d.Policies {
		if d.Policies[i].Policy = c.view.policy(d.Policies[i].Policy); d.Policies[i].Hidden {
			d.Policies[i].Why = ""
		}
	}
}

// censorFlow takes out of a flow what may not be seen.
func (c *Computation) censorFlow(f *analysis.Flow) {
	c.censor(f.Egress)
	c.censor(f.Ingress)
}

// Visible reports whether the policy of a rule may be seen.
func (c *Computation) Visible(r policy.RuleRef) bool {
	return !c.Policy(explainPolicy(r.Policy)).Hidden
}
