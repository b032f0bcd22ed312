package plan

import (
	"slices"
	"strings"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan/flow"
)

// causes finds the policies that steps are made for.
type causes struct {
	of     map[*class][]PolicyRef
	naming map[string][]*policy // by address group: the policies in force whose rules name it
}

// policiesOf returns the policies that give a class its rules; of a class that rules only refer to, those that have these rules.
func (e *emitter) policiesOf(c *class) []PolicyRef {
	if c == nil || c.gathers || c.nics[0].vm == nil {
		return nil
	}
	if refs, ok := e.causes.of[c]; ok {
		return refs
	}
	var policies []*policy
	if vm := c.nics[0].vm; c.state == Guarded {
		for _, b := range vm.effective {
			policies = append(policies, b.policy)
		}
	} else {
		for _, g := range vm.groups {
			policies = append(policies, e.policiesNaming(g)...)
		}
	}
	refs := refsOf(policies)
	if e.causes.of == nil {
		e.causes.of = map[*class][]PolicyRef{}
	}
	e.causes.of[c] = refs
	return refs
}

func (e *emitter) policiesNaming(group string) []*policy {
	if e.causes.naming == nil {
		e.causes.naming = map[string][]*policy{}
		for _, c := range e.classes {
			if c.state != Guarded || c.nics[0].vm == nil {
				continue
			}
			for _, b := range c.nics[0].vm.inForce() {
				for _, g := range b.groups {
					if b.verdict != drop && !slices.Contains(e.causes.naming[g], b.policy) {
						e.causes.naming[g] = append(e.causes.naming[g], b.policy)
					}
				}
			}
		}
	}
	return e.causes.naming[group]
}

// refsOf names policies, each once, in the order of evaluation. The owner of the failsafe flows is none.
func refsOf(policies []*policy) []PolicyRef {
	policies = slices.DeleteFunc(slices.Clone(policies), func(p *policy) bool { return p.ref == PolicyRef{} })
	slices.SortFunc(policies, comparePolicies)
	var out []PolicyRef
	for _, p := range slices.Compact(policies) {
		out = append(out, p.ref)
	}
	return out
}

// becauseOfRules says of the last step, which adds or removes rules of a class, why that is done.
func (e *emitter) becauseOfRules(c *class, rules []cloud.Rule) {
	st := &e.steps[len(e.steps)-1]
	if c.gathers || c.state != Guarded {
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
		closing, _ := e.behind(c, rules, drop)
		if len(closing) == 0 {
			closing, _ = e.behind(c, rules, allow)
		}
		st.Policies = closing
		return
	}
	var own bool
	st.Policies, own = e.behind(c, rules, allow)
	if own && st.Op.Reason == "" {
		st.Op.Reason = "with what the former groups allow"
	}
	if why := e.multiplied(c, rules); why != "" {
		st.Op.Reason = strings.TrimPrefix(st.Op.Reason+", "+why, ", ")
	}
}

// narrows reports whether one of the rules means something that the class will not be allowed.
func (e *emitter) narrows(c *class, rules []cloud.Rule) bool {
	return slices.ContainsFunc(rules, func(r cloud.Rule) bool {
		_, then, known := e.addresses(r.Peer, c.network)
		return !known || !c.want[indexOf(r.Direction)].Allows(flow.Permit{}, flow.ServiceOf(r.Match), then)
	})
}

// behind returns the policies that have rules with a verdict about what these security group rules match, and whether there are some of
// these that no policy says anything about.
func (e *emitter) behind(c *class, rules []cloud.Rule, v verdict) (_ []PolicyRef, own bool) {
	var policies []*policy
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
		if vm := c.nics[0].vm; vm != nil {
			for _, b := range vm.effective {
				if b.direction == what.direction && (b.verdict == v || v == allow && b.verdict == grant) && b.concerns(what.service) {
					policies, found = append(policies, b.policy), true
				}
			}
		}
		own = own || !found
	}
	return refsOf(policies), own
}

// concerns reports whether the rule may match some packets of a service.
func (b *bound) concerns(s flow.Service) bool {
	return b.any || s.Protocol == cloud.AnyProtocol || slices.ContainsFunc(b.services, func(o flow.Service) bool { return o.Protocol == cloud.AnyProtocol || o.Overlaps(s) })
}
