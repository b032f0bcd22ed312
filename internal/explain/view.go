package explain

import (
	"slices"

	"github.com/nephele-io/nephele/internal/policy"
	"github.com/nephele-io/nephele/internal/reach"
)

// View is what somebody may see. Whoever he may not see counts as if they let everything through,
// and nothing is told of them but addresses that he named himself.
type View struct {
	// Namespace reports whether he may see who and what is in a Namespace.
	Namespace func(name string) bool
	// Cluster lets him see the policies of the cluster, the Nodes, and the machines in clouds that
	// no entity stands for.
	Cluster bool
}

// For returns the computation as somebody may see it. It shares everything with the original.
func (c *Computation) For(v View) *Computation {
	out := *c
	out.view = &v
	return &out
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

// hides reports whether what an end decides may not be seen: that of an entity, or of a machine in
// a cloud that none stands for.
func (c *Computation) hides(e end, inCloud bool) bool {
	if c.view == nil {
		return false
	}
	return !c.sees(e.ref) || !c.sees(e.at) || e.ref == (policy.EntityRef{}) && inCloud && !c.view.Cluster
}

// DefaultHidden is the Default of a decision that may not be seen: it counts as open.
const DefaultHidden = "hidden"

// hiddenDecision stands for one that may not be seen.
func hiddenDecision() *Decision {
	return &Decision{Outcome: policy.OutcomeAllow, Default: DefaultHidden}
}

// policy hides the name of a policy that may not be seen.
func (v *View) policy(p Policy) Policy {
	visible := v.Cluster
	if p.Namespace != "" {
		visible = v.Namespace(p.Namespace)
	}
	if visible {
		return p
	}
	return Policy{Type: p.Type, Hidden: true}
}

// Rule returns a rule as it may be seen: of a policy that is hidden what it does, and not what it
// is called or names.
func (c *Computation) Rule(r Rule) Rule {
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
func (c *Computation) Policy(p Policy) Policy {
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
func (c *Computation) censor(d *Decision) {
	if c.view == nil || d == nil {
		return
	}
	c.censor(d.IfEnforced)
	rules := func(list []Rule) {
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

// hide puts openness in the place of what may not be seen at the ends of a flow, and takes the rest
// out.
func (c *Computation) hide(f *Flow, from, to end, p passage) {
	if c.view == nil {
		return
	}
	hiddenFrom, hiddenTo := c.hides(from, p.src.Interface != nil), c.hides(to, p.dst.Interface != nil)
	if hiddenFrom {
		f.Egress = hiddenDecision()
	}
	if hiddenTo {
		f.Ingress = hiddenDecision()
	}
	if hiddenFrom || hiddenTo {
		f.Path = nil
	}
	c.censor(f.Egress)
	c.censor(f.Ingress)
}

// shown are those ends that may be seen.
func (c *Computation) shown(ends ...end) []end {
	return slices.DeleteFunc(ends, func(e end) bool { return c.hides(e, false) })
}

// Visible reports whether the policy of a rule may be seen.
func (c *Computation) Visible(r policy.RuleRef) bool {
	return !c.Policy(explainPolicy(r.Policy)).Hidden
}

// Hidden reports whether an endpoint of a World is somebody who may not be seen.
func Hidden(e *reach.Endpoint) bool { return e.Name == "" }
