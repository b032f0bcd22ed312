package plan

import (
	"fmt"
	"slices"
	"strings"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan/flow"
	"github.com/nephele-io/nephele/internal/cloud/plan/intent"
	"github.com/nephele-io/nephele/internal/cloud/plan/target"
	"github.com/nephele-io/nephele/internal/cloud/plan/transition"
)

// causes finds the policies that steps are made for.
type causes struct {
	of     map[*target.Class][]intent.PolicyRef
	naming map[string][]*intent.Policy // by address group: the policies in force whose rules name it
}

// policiesOf returns the policies that give a class its rules; of a class that rules only refer to,
// those that have these rules.
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
	if why := e.multiplied(c, rules); why != "" {
		st.Op.Reason = strings.TrimPrefix(st.Op.Reason+", "+why, ", ")
	}
}

// narrows reports whether one of the rules means something that the class will not be allowed.
func (e *emitter) narrows(c *target.Class, rules []cloud.Rule) bool {
	return slices.ContainsFunc(rules, func(r cloud.Rule) bool {
		_, then, known := e.Addresses(r.Peer, c.Network)
		return !known || !c.Want[flow.Index(r.Direction)].Allows(flow.Permit{}, flow.ServiceOf(r.Match), then)
	})
}

// behind returns the policies that have rules with a verdict about what these security group rules
// match, and whether there are some of these that no policy says anything about.
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

// explain says why the last step is made.
func (e *emitter) explain(st transition.Step, byID map[string]*target.NIC) {
	step := &e.steps[len(e.steps)-1]
	step.Urgent = st.Urgent
	key := e.keyOfGroup(st.Network, st.Op)
	switch st.Op.Kind {
	case cloud.OpCreateGroup:
		if g := e.ByKey[key]; g != nil {
			step.Op.Reason = fmt.Sprintf("%s class, interfaces: %d", strings.ToLower(string(g.Class.State)), len(g.Class.NICs))
			step.Policies = e.policiesOf(g.Class)
		}
	case cloud.OpAddRules, cloud.OpRemoveRules, cloud.OpReplaceRules:
		if describes(st.Op) {
			step.Op.Reason = "only their descriptions"
		}
		if g := e.ByKey[key]; g != nil {
			e.becauseOfRules(g.Class, st.Op.Rules)
		}
	case cloud.OpSetRules:
		if g := e.ByKey[key]; g != nil {
			e.becauseOfRules(g.Class, st.Op.Added())
		}
	case cloud.OpDeleteGroup:
		step.Op.Reason = "no class needs it"
	case cloud.OpTag, cloud.OpUntag:
		step.Op.Reason = tagReason(st.Op)
	case cloud.OpSetInterfaceGroups:
		if n := byID[key]; n != nil {
			step.Op.Reason = e.purpose(n)
			step.Policies = e.policiesOf(n.Class)
		}
	}
}

// purpose is why the groups of an interface are set.
func (e *emitter) purpose(n *target.NIC) string {
	switch {
	case n.State == target.Guarded && len(n.Ours) == 0 && e.Native(n):
		return "take over with the rules of its own groups, because these refer to groups that others give up"
	case n.State == target.Guarded && len(n.Ours) == 0:
		return "take over"
	case n.State == target.Guarded:
		return "change class"
	case len(n.Ours) > 0 && n.State == target.Untouched:
		return "give back"
	default:
		return ""
	}
}

// tagReason is why a tag is written or removed.
func tagReason(op cloud.Op) string {
	has := func(key string) bool {
		for k := range op.Tags {
			if strings.HasPrefix(k, key) {
				return true
			}
		}
		return false
	}
	switch tags := op.Kind == cloud.OpTag; {
	case tags && has(cloud.TagClaim):
		return "policies apply in this network"
	case has(cloud.TagClaim):
		return "nothing of ours is left in this network"
	case tags && has(cloud.TagFormer):
		return "remember its groups"
	case tags && has(cloud.TagSignature):
		return "sign what it remembers"
	case has(cloud.TagFormer):
		return "its groups are restored"
	case has(cloud.TagPolicies):
		return "which policies are in force"
	}
	return ""
}
