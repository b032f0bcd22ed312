package plan

import (
	"cmp"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan/flow"
	"github.com/nephele-io/nephele/internal/cloud/plan/model"
	"github.com/nephele-io/nephele/internal/cloud/signs"
)

// label gives what a step creates the names by which people know it in the cloud: a group the tag Name, rules their descriptions. They go with
// the calls that create, and say what something was created for; nothing is ever written for their sake alone.
func (e *emitter) label(step *Step) {
	op := &step.Op
	g := e.byKey[e.keyOfGroup(step.Network, *op)]
	switch op.Kind {
	case cloud.OpCreateGroup:
		if _, taken := op.Group.Tags[cloud.TagName]; !taken && len(op.Group.Tags) < e.limits.TagsPerResource {
			op.Group.Tags[cloud.TagName] = signs.NameTag(namesOf(step.Policies))
		}
	case cloud.OpAddRules, cloud.OpReplaceRules:
		for i := range op.Rules {
			r := &op.Rules[i]
			switch {
			case r.Description != "":
			case g == nil:
				r.Description = signs.Description("", "", 0)
			default:
				r.Description = e.description(g.class, *r)
			}
		}
	}
}

// keyOfGroup is the key of the group that an operation is about. In a forecast groups that were created by an earlier round have the IDs of one, and
// operations name them.
func (e *emitter) keyOfGroup(network string, op cloud.Op) string {
	if op.Target != "" {
		return op.Target
	}
	if id := model.PlannedGroupID + network + "/" + op.Group.Name; e.byKey[id] != nil {
		return id
	}
	return "+" + op.Group.Name
}

func namesOf(refs []PolicyRef) []string {
	out := make([]string, len(refs))
	for i, r := range refs {
		out[i] = r.short()
	}
	return out
}

// short is the name without the kind.
func (r PolicyRef) short() string {
	if r.Namespace == "" {
		return cmp.Or(r.Name, r.UID)
	}
	return r.Namespace + "/" + r.Name
}

// description names the first rule of a policy that asks for a rule of a class, and counts the others.
func (e *emitter) description(c *class, r cloud.Rule) string {
	asking := e.asking(c, r)
	if len(asking) == 0 {
		if c.state != Guarded || c.gathers {
			return signs.Description("", "", 0)
		}
		return signs.Native
	}
	first := asking[0]
	if first.policy.ref == (PolicyRef{}) {
		return signs.Failsafe(e.in.Account)
	}
	return signs.Description(first.policy.ref.short(), first.name, len(asking)-1)
}

// asking returns the rules of policies that allow some of what a rule of a class allows, in the order of evaluation.
func (e *emitter) asking(c *class, r cloud.Rule) (out []*bound) {
	if c.gathers || c.state != Guarded || c.nics[0].vm == nil {
		return nil
	}
	service := flow.ServiceOf(r.Match)
	_, then, known := e.addresses(r.Peer, c.network)
	for _, b := range c.nics[0].vm.effective {
		if b.direction != r.Direction || b.verdict != allow && b.verdict != grant || !b.concerns(service) {
			continue
		}
		if !known || then.Empty() || e.peerAddrs(b.rule, c.network).Overlaps(then) {
			out = append(out, b)
		}
	}
	return out
}
