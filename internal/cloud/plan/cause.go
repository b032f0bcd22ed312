package plan

import (
	"slices"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan/flow"
	"github.com/nephele-io/nephele/internal/cloud/plan/intent"
	"github.com/nephele-io/nephele/internal/cloud/plan/target"
)

// causes finds the policies that steps are made for.
type causes struct {
	of     map[*target.Class][]intent.PolicyRef
	naming map[string][]*intent.Policy // by address group: the policies in force whose rules name it
}

// policiesOf returns the policies that give a class its rules; of a class that rules only refer to, those that have these rules.
func (e *emitter) policiesOf(c *target.Class) []intent.PolicyRef {
	if c == nil || c.Gathers || c.NICs[0].VM == nil {
		return nil
	}
	if refs, ok := e.causes.of[c]; ok {
		return refs
	}
	var policies []*intent.Policy
	if vm := c.NICs[0].VM; c.State == target.Guarded {
		for _, b := range vm.Effective {
			policies = append(policies, b.Policy)
		}
	} else {
		for _, g := range vm.Groups {
			policies = append(policies, e.policiesNaming(g)...)
		}
	}
	refs := refsOf(policies)
	if e.causes.of == nil {
		e.causes.of = map[*target.Class][]intent.PolicyRef{}
	}
	e.causes.of[c] = refs
	return refs
}

func (e *emitter) policiesNaming(group string) []*intent.Policy {
	if e.causes.naming == nil {
		e.causes.naming = map[string][]*intent.Policy{}
		for _, c := range e.Classes {
			if c.State != target.Guarded || c.NICs[0].VM == nil {
				continue
			}
			for _, b := range c.NICs[0].VM.InForce() {
				for _, g := range b.Groups {
					if b.Verdict != intent.Drop && !slices.Contains(e.causes.naming[g], b.Policy) {
						e.causes.naming[g] = append(e.causes.naming[g], b.Policy)
					}
				}
			}
		}
	}
	return e.causes.naming[group]
}

// refsOf names policies, each once, in the order of evaluation. The owner of the failsafe flows is none.
func refsOf(policies []*intent.Policy) []intent.PolicyRef {
	policies = slices.DeleteFunc(slices.Clone(policies), func(p *intent.Policy) bool { return p.Ref == intent.PolicyRef{} })
	slices.SortFunc(policies, intent.ComparePolicies)
	var out []intent.PolicyRef
	for _, p := range slices.Compact(policies) {
		out = append(out, p.Ref)
	}
	return out
}

// becauseOfRules says of the last step, which adds or removes rules of a class, why that is done.
func (e *emitter) becauseOfRules(c *target.Class, rules []cloud.Rule) {
	st := &e.steps[len(e.steps)-1]
	if c.Gathers || c.State != target.Guarded {
		return
	}
	if st.Op.Kind == cloud.OpRemoveRules {
		if st.Op.Reason != "" {
			return
		}
		if st.Op.Reason = "no longer allowed"; !e.narrows(c, rules) {
			st.Op.Reason = "not needed any more"
			return
		}
		closing, _ := e.behind(c, rules, intent.Drop)
		if len(closing) == 0 {
			closing, _ = e.behind(c, rules, intent.Allow)
		}
		st.Policies = closing
		return
	}
	var own bool
	st.Policies, own = e.behind(c, rules, intent.Allow)
	if own && st.Op.Reason == "" {
		st.Op.Reason = "with what the former groups allow"
	}
}

// narrows reports whether one of the rules means something that the class will not be allowed.
func (e *emitter) narrows(c *target.Class, rules []cloud.Rule) bool {
	return slices.ContainsFunc(rules, func(r cloud.Rule) bool {
		_, then, known := e.Addresses(r.Peer, c.Network)
		return !known || !c.Want[flow.Index(r.Direction)].Allows(flow.Permit{}, flow.ServiceOf(r.Match), then)
	})
}

// behind returns the policies that have rules with a verdict about what these security group rules match, and whether there are some of
// these that no policy says anything about.
func (e *emitter) behind(c *target.Class, rules []cloud.Rule, v intent.Verdict) (_ []intent.PolicyRef, own bool) {
	var policies []*intent.Policy
	type about struct {
		direction cloud.Direction
		service   flow.Service
	}
	seen := map[about]bool{}
	for _, r := range rules {
		what := about{r.Direction, flow.ServiceOf(r.Match)}
		if seen[what] {
			continue
		}
		seen[what] = true
		found := false
		if vm := c.NICs[0].VM; vm != nil {
			for _, b := range vm.Effective {
				if b.Direction == what.direction && (b.Verdict == v || v == intent.Allow && b.Verdict == intent.Grant) && b.Concerns(what.service) {
					policies, found = append(policies, b.Policy), true
				}
			}
		}
		own = own || !found
	}
	return refsOf(policies), own
}
