// Package redact takes out of objects, of what was computed from them and of answers what a caller
// may not see.
//
// It owns the View: which Namespaces a caller may read, and whether the caller may read what is of
// the whole cluster. An entity that is hidden is an address like any other. A rule of a policy that
// is hidden shows what it does, and neither its name nor what it names. What is left is the same,
// whatever there is that is hidden.
//
// Everything is pure and copies what it changes, but for Flow. A View may be asked by many
// goroutines at once. A nil *View hides nothing.
package redact

import (
	"slices"

	analysis "github.com/nephele-io/nephele/api/analysis/v1alpha1"
	"github.com/nephele-io/nephele/internal/policy"
)

// View is what a caller may see.
type View struct {
	// Namespace reports whether the caller may see the entities and policies of a Namespace.
	Namespace func(name string) bool
	// Cluster allows the policies of the cluster, the Nodes, and the machines in clouds that no
	// entity represents.
	Cluster bool
}

// Entity reports whether an entity may be seen. The zero value, an address alone, has nothing to
// hide.
func (v *View) Entity(ref policy.EntityRef) bool {
	if v == nil || ref == (policy.EntityRef{}) {
		return true
	}
	return v.entitiesIn(ref.Namespace)
}

// entitiesIn reports whether the entities of a Namespace may be seen, or with an empty name the
// Nodes.
func (v *View) entitiesIn(namespace string) bool {
	switch {
	case v == nil:
		return true
	case namespace == "":
		return v.Cluster
	}
	return v.Namespace(namespace)
}

// Limits reports whether the caller may see less than everything, as far as a list of Namespaces
// shows.
func (v *View) Limits(namespaces []string) bool {
	return !v.Cluster || slices.ContainsFunc(namespaces, func(n string) bool { return !v.Namespace(n) })
}

// Policy hides the name of a policy that may not be seen.
func (v *View) Policy(p analysis.Policy) analysis.Policy {
	if v.entitiesIn(p.Namespace) {
		return p
	}
	return analysis.Policy{Type: p.Type, Hidden: true}
}

// Rule returns a rule as it may be seen: of a policy that is hidden what it does, and not what it
// is called or names.
func (v *View) Rule(r analysis.Rule) analysis.Rule {
	if v == nil {
		return r
	}
	r.Policy = v.Policy(r.Policy)
	r.Through = nil // others with the same address, maybe another tenant's
	if r.Policy.Hidden {
		r.Name, r.DependsOn = "", nil
	}
	return r
}

// Flow takes out of the decisions about a flow what may not be seen.
func (v *View) Flow(f *analysis.Flow) {
	v.decision(f.Egress)
	v.decision(f.Ingress)
}

func (v *View) decision(d *analysis.Decision) {
	if v == nil || d == nil {
		return
	}
	v.decision(d.IfEnforced)
	rules := func(list []analysis.Rule) {
		for i := range list {
			list[i] = v.Rule(list[i])
		}
	}
	if d.DecidedBy != nil {
		r := v.Rule(*d.DecidedBy)
		d.DecidedBy = &r
	}
	rules(d.Passed)
	rules(d.Uncertain)
	for i := range d.IsolatedBy {
		d.IsolatedBy[i] = v.Policy(d.IsolatedBy[i])
	}
	for i := range d.Policies {
		if d.Policies[i].Policy = v.Policy(d.Policies[i].Policy); d.Policies[i].Hidden {
			d.Policies[i].Why = ""
		}
	}
}
