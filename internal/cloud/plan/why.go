package plan

import (
	"slices"
	"strings"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan/flow"
	"github.com/nephele-io/nephele/internal/cloud/plan/form"
	"github.com/nephele-io/nephele/internal/cloud/plan/guard"
	"github.com/nephele-io/nephele/internal/cloud/plan/intent"
	"github.com/nephele-io/nephele/internal/cloud/plan/transition"
	"github.com/nephele-io/nephele/internal/cloud/plan/words"
)

// causes finds the policies that steps are made for.
type causes struct {
	of     map[*form.Class][]intent.PolicyRef
	naming map[string][]*intent.Policy // by address group: the policies in force whose rules name it
}

// policiesOf returns the policies that give a class its rules; of a class that rules only refer to,
// those that have these rules.
func (e *emitter) policiesOf(c *form.Class) []intent.PolicyRef {
	if c == nil || c.Gathers || c.NICs[0].VM == nil {
		return nil
	}
	if refs, ok := e.causes.of[c]; ok {
		return refs
	}
	var policies []*intent.Policy
	if vm := c.NICs[0].VM; c.State == guard.Guarded {
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
		e.causes.of = map[*form.Class][]intent.PolicyRef{}
	}
	e.causes.of[c] = refs
	return refs
}

func (e *emitter) policiesNaming(group string) []*intent.Policy {
	if e.causes.naming == nil {
		e.causes.naming = map[string][]*intent.Policy{}
		for _, c := range e.Classes {
			if c.State != guard.Guarded || c.NICs[0].VM == nil {
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

// refsOf names policies, each once, in the order of evaluation. The owner of the failsafe flows is
// none.
func refsOf(policies []*intent.Policy) []intent.PolicyRef {
	policies = slices.DeleteFunc(slices.Clone(policies), func(p *intent.Policy) bool { return p.Ref == intent.PolicyRef{} })
	slices.SortFunc(policies, intent.ComparePolicies)
	var out []intent.PolicyRef
	for _, p := range slices.Compact(policies) {
		out = append(out, p.Ref)
	}
	return out
}

// becauseOfRules finds out why a step adds or removes rules of a class, and for which policies.
func (e *emitter) becauseOfRules(st *Step, c *form.Class) (why []*intent.Reason) {
	if c.Gathers || c.State != guard.Guarded {
		return nil
	}
	rules := st.Op.Rules
	if st.Op.Kind == cloud.OpRemoveRules {
		if !e.narrows(c, rules) {
			return []*intent.Reason{intent.Why(intent.RulesNeedless)}
		}
		closing, _ := e.behind(c, rules, intent.Drop)
		if len(closing) == 0 {
			closing, _ = e.behind(c, rules, intent.Allow)
		}
		st.Policies = closing
		return []*intent.Reason{intent.Why(intent.NoLongerAllowed)}
	}
	var own bool
	st.Policies, own = e.behind(c, rules, intent.Allow)
	switch {
	case describes(st.Op):
		why = append(why, intent.Why(intent.OnlyDescriptions))
	case own:
		why = append(why, intent.Why(intent.WithFormer))
	}
	if many := e.multiplied(c, rules); many != nil {
		why = append(why, many)
	}
	return why
}

// narrows reports whether one of the rules means something that the class will not be allowed.
func (e *emitter) narrows(c *form.Class, rules []cloud.Rule) bool {
	return slices.ContainsFunc(rules, func(r cloud.Rule) bool {
		_, then, known := e.Addresses(r.Peer, c.Network)
		return !known || !c.Want[flow.Index(r.Direction)].Allows(flow.Permit{}, flow.ServiceOf(r.Match), then)
	})
}

// behind returns the policies that have rules with a verdict about what these security group rules
// match, and whether there are some of these that no policy says anything about.
func (e *emitter) behind(c *form.Class, rules []cloud.Rule, v intent.Verdict) (_ []intent.PolicyRef, own bool) {
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

// explain says why the last step is made.
func (e *emitter) explain(st transition.Step, byID map[string]*guard.NIC) {
	step := &e.steps[len(e.steps)-1]
	step.Urgent = st.Urgent
	var why []*intent.Reason
	key := e.keyOfGroup(st.Network, st.Op)
	switch st.Op.Kind {
	case cloud.OpCreateGroup:
		if g := e.ByKey[key]; g != nil {
			why = append(why, intent.Why(intent.ForClass, strings.ToLower(string(g.Class.State))).Counting(len(g.Class.NICs)))
			step.Policies = e.policiesOf(g.Class)
		}
	case cloud.OpAddRules, cloud.OpRemoveRules, cloud.OpReplaceRules:
		if g := e.ByKey[key]; g != nil {
			why = e.becauseOfRules(step, g.Class)
		}
		if len(why) == 0 && describes(st.Op) {
			why = append(why, intent.Why(intent.OnlyDescriptions))
		}
	case cloud.OpDeleteGroup:
		why = append(why, intent.Why(intent.NoClass))
	case cloud.OpTag, cloud.OpUntag:
		why = tagReason(st.Op)
	case cloud.OpSetInterfaceGroups:
		if n := byID[key]; n != nil {
			why = e.purpose(n)
			step.Policies = e.policiesOf(e.ClassOf[n])
		}
	}
	step.Op.Reason = words.List(why)
}

// purpose is why the groups of an interface are set.
func (e *emitter) purpose(n *guard.NIC) []*intent.Reason {
	switch {
	case n.State == guard.Guarded && len(n.Ours) == 0 && e.Native(n):
		return []*intent.Reason{intent.Why(intent.TakeOverNative)}
	case n.State == guard.Guarded && len(n.Ours) == 0:
		return []*intent.Reason{intent.Why(intent.TakeOver)}
	case n.State == guard.Guarded:
		return []*intent.Reason{intent.Why(intent.ChangeClass)}
	case len(n.Ours) > 0 && n.State == guard.Untouched:
		return []*intent.Reason{intent.Why(intent.GiveBack)}
	}
	return nil
}

// tagReason is why a tag is written or removed.
func tagReason(op cloud.Op) []*intent.Reason {
	has := func(key string) bool {
		for k := range op.Tags {
			if strings.HasPrefix(k, key) {
				return true
			}
		}
		return false
	}
	why := func(code intent.Code) []*intent.Reason { return []*intent.Reason{intent.Why(code)} }
	switch tags := op.Kind == cloud.OpTag; {
	case tags && has(cloud.TagClaim):
		return why(intent.Claims)
	case has(cloud.TagClaim):
		return why(intent.NothingLeft)
	case tags && has(cloud.TagFormer):
		return why(intent.Remembers)
	case tags && has(cloud.TagSignature):
		return why(intent.Signs)
	case has(cloud.TagFormer):
		return why(intent.Restored)
	case has(cloud.TagPolicies):
		return why(intent.SaysInForce)
	}
	return nil
}
