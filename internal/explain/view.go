package explain

import (
	analysis "github.com/nephele-io/nephele/api/analysis/v1alpha1"
	"github.com/nephele-io/nephele/internal/explain/placement"
	"github.com/nephele-io/nephele/internal/explain/redact"
	"github.com/nephele-io/nephele/internal/policy"
	"github.com/nephele-io/nephele/internal/policy/evaluate"
)

// For returns the computation as a caller may see it: without the entities that the caller may not
// see, whose addresses are then like any others. Whether they are members of the groups that
// policies name is left open: it would show which labels the owner of an address has. It shares
// what it can with the original, and is the same whatever there is that the caller may not see.
func (c *Computation) For(v redact.View) *Computation {
	out := *c
	out.view = &v
	out.Ends = map[policy.EntityRef]policy.Entity{}
	for ref, e := range c.Ends {
		if v.Entity(ref) {
			out.Ends[ref] = e
		}
	}
	out.Objects, out.Listing = v.Objects(c.Objects), v.Listing(c.Listing)
	out.clouds = placement.Of(out.Objects.Observed, out.Ends, true)
	out.vmObjects, out.serviceObjects, out.interfaceObjects = byName(out.Objects.VMs), byName(out.Objects.NativeServices), byName(out.Objects.Interfaces)
	return &out
}

// Rule returns a rule as it may be seen.
func (c *Computation) Rule(r analysis.Rule) analysis.Rule { return c.view.Rule(r) }

// Policy returns a policy as it may be seen.
func (c *Computation) Policy(p analysis.Policy) analysis.Policy { return c.view.Policy(p) }

// Visible reports whether the policy of a rule may be seen.
func (c *Computation) Visible(r evaluate.RuleRef) bool {
	return !c.Policy(explainPolicy(r.Policy)).Hidden
}
