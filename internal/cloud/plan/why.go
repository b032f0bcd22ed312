package plan

import (
	"slices"
	"strings"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan/flow"
	"github.com/nephele-io/nephele/internal/cloud/plan/form"
	"github.com/nephele-io/nephele/internal/cloud/plan/guard"
	"github.com/nephele-io/nephele/internal/cloud/plan/intent"
	"github.com/nephele-io/nephele/internal/cloud/plan/reason"
	"github.com/nephele-io/nephele/internal/cloud/plan/words"
)

// policiesOf returns the policies that give a class its rules; of a class that rules only refer to,
// those that have these rules.
func (e *emitter) policiesOf(c *form.Class) []intent.PolicyRef {
	if c == nil || c.Gathers || c.NICs[0].VM == nil {
		return nil
	}
	if refs, ok := e.policies[c]; ok {
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
	e.policies[c] = refsOf(policies)
	return e.policies[c]
}

func (e *emitter) policiesNaming(group string) []*intent.Policy {
	if e.naming == nil {
		e.naming = map[string][]*intent.Policy{}
		for _, c := range e.r.design.Classes {
			if c.State != guard.Guarded || c.NICs[0].VM == nil {
				continue
			}
			for _, b := range c.NICs[0].VM.InForce() {
				for _, g := range b.Groups {
					if b.Verdict != intent.Drop && !slices.Contains(e.naming[g], b.Policy) {
						e.naming[g] = append(e.naming[g], b.Policy)
					}
				}
			}
		}
	}
	return e.naming[group]
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

// becauseOfRules finds out why rules of a group are added or removed, and for which policies.
func (e *emitter) becauseOfRules(op cloud.Op, g *form.Group) (policies []*intent.Policy, why []*reason.Reason) {
	only := describes(op)
	if only {
		why = append(why, reason.Why(reason.OnlyDescriptions))
	}
	if g == nil || g.Class.Gathers || g.Class.State != guard.Guarded {
		return nil, why
	}
	c := g.Class
	if op.Kind == cloud.OpRemoveRules {
		if !e.narrows(c, op.Rules) {
			return nil, one(reason.RulesNeedless)
		}
		if policies, _ = behind(c, op.Rules, intent.Drop); len(policies) == 0 {
			policies, _ = behind(c, op.Rules, intent.Allow)
		}
		return policies, one(reason.NoLongerAllowed)
	}
	policies, own := behind(c, op.Rules, intent.Allow)
	if own && !only {
		why = append(why, reason.Why(reason.WithFormer))
	}
	if many := e.multiplied(c, op.Rules); many != nil {
		why = append(why, many)
	}
	return policies, why
}

// narrows reports whether one of the rules means something that the class will not be allowed.
func (e *emitter) narrows(c *form.Class, rules []cloud.Rule) bool {
	return slices.ContainsFunc(rules, func(r cloud.Rule) bool {
		then, known := e.r.design.Addresses(r.Peer, c.Network)
		return !known || !c.Want[flow.Index(r.Direction)].Allows(flow.ServiceOf(r.Match), then)
	})
}

// behind returns the policies that have rules with a verdict about what these security group rules
// match, and whether there are some of these that no policy says anything about.
func behind(c *form.Class, rules []cloud.Rule, v intent.Verdict) (policies []*intent.Policy, own bool) {
	seen := map[traffic]bool{}
	for _, r := range rules {
		what := trafficOf(r)
		if seen[what] {
			continue
		}
		seen[what] = true
		all := saying(c, v, what)
		own = own || len(all) == 0
		for _, b := range all {
			policies = append(policies, b.Policy)
		}
	}
	return policies, own
}

// explain says why a step is made, and for which policies. The group is the one of ours that it is
// about; nil if there is none.
func (e *emitter) explain(step *Step, g *form.Group) {
	var why []*reason.Reason
	switch op := step.Op; op.Kind {
	case cloud.OpCreateGroup:
		why = []*reason.Reason{reason.Why(reason.ForClass, strings.ToLower(string(g.Class.State))).Counting(len(g.Class.NICs))}
		step.Policies = e.policiesOf(g.Class)
	case cloud.OpAddRules, cloud.OpRemoveRules, cloud.OpReplaceRules, cloud.OpSetRules:
		var policies []*intent.Policy
		for _, part := range parts(op) {
			because, reasons := e.becauseOfRules(part, g)
			policies, why = append(policies, because...), append(why, reasons...)
		}
		step.Policies = refsOf(policies)
	case cloud.OpDeleteGroup:
		why = one(reason.NoClass)
	case cloud.OpTag, cloud.OpUntag:
		why = one(tagReason(op))
	case cloud.OpSetInterfaceGroups:
		n := e.r.byID[op.Target]
		why = one(e.purpose(n))
		step.Policies = e.policiesOf(e.r.design.ClassOf[n])
	}
	if in := e.r.account.In; len(in.Forced) > 0 {
		why = append(why, reason.Why(reason.ByForce, in.Force, in.ForcedBy))
	}
	step.Op.Reason = words.All(why, ", ")
}

// parts are what an op adds to a group and what it removes, if it does both by one call.
func parts(op cloud.Op) (out []cloud.Op) {
	if op.Kind != cloud.OpSetRules {
		return []cloud.Op{op}
	}
	if added := op.Added(); len(added) > 0 {
		out = append(out, cloud.Op{Kind: cloud.OpAddRules, Rules: added})
	}
	if removed := op.Removed(); len(removed) > 0 {
		out = append(out, cloud.Op{Kind: cloud.OpRemoveRules, Rules: removed})
	}
	return out
}

// one is a reason that needs no more than its code, as a list; empty if there is none.
func one(code reason.Code) []*reason.Reason {
	if code == "" {
		return nil
	}
	return []*reason.Reason{reason.Why(code)}
}

// purpose is why the groups of an interface are set; empty if there is nothing to say.
func (e *emitter) purpose(n *guard.NIC) reason.Code {
	switch {
	case n.State() == guard.Guarded && len(n.Groups.Ours) > 0:
		return reason.ChangeClass
	case n.State() == guard.Guarded && n.Native():
		return reason.TakeOverNative
	case n.State() == guard.Guarded:
		return reason.TakeOver
	case n.State() == guard.Untouched && len(n.Groups.Ours) > 0:
		return reason.GiveBack
	}
	return ""
}

// tagReasons say why tags are written or removed; the first one counts whose tag is among them.
var tagReasons = []struct {
	kind cloud.OpKind
	tag  string
	why  reason.Code
}{
	{cloud.OpTag, cloud.TagClaim, reason.Claims},
	{cloud.OpTag, cloud.TagFormer, reason.Remembers},
	{cloud.OpTag, cloud.TagSignature, reason.Signs},
	{cloud.OpTag, cloud.TagPolicies, reason.SaysInForce},
	{cloud.OpUntag, cloud.TagClaim, reason.NothingLeft},
	{cloud.OpUntag, cloud.TagFormer, reason.Restored},
	{cloud.OpUntag, cloud.TagPolicies, reason.SaysInForce},
}

// tagReason is why a step writes or removes tags; empty if there is nothing to say.
func tagReason(op cloud.Op) reason.Code {
	for _, r := range tagReasons {
		for key := range op.Tags {
			if op.Kind == r.kind && strings.HasPrefix(key, r.tag) {
				return r.why
			}
		}
	}
	return ""
}

// describes reports whether an operation changes nothing but the descriptions of rules.
func describes(op cloud.Op) bool {
	return op.Kind == cloud.OpReplaceRules && slices.EqualFunc(op.Rules, op.Replaced, cloud.Rule.Same)
}
