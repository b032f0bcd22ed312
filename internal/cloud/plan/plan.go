package plan

import (
	"maps"
	"slices"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan/intent"
	"github.com/nephele-io/nephele/internal/cloud/plan/report"
)

// Result is the outcome of one computation.
type Result struct {
	Plan Plan
	// Stopped is true if Input.Stop ended the computation: nothing is known then, and the rest is
	// empty.
	Stopped bool
	// Faults are what the planner could not cope with, which is a mistake of ours: it is left as it
	// is, and the rest is planned. Failed is true if nothing could be planned.
	Faults []Fault
	Failed bool
	report.Outcome
	// Policies has one entry per policy of the input, in the order of evaluation.
	Policies []report.PolicyStatus
	// Protection is which interfaces policies guard now and when all is done; nil where that is not
	// known, because the plan takes too much work.
	Protection *report.Protection
}

// Step is one operation in one region.
type Step struct {
	Scope cloud.Scope
	// Network is the network that the op's group or interface belongs to, as cloud.Op.Resolve needs
	// it.
	Network string
	Op      cloud.Op
	// Policies are those that the step is made for, in the order of evaluation, as far as there are
	// any.
	Policies []intent.PolicyRef
	// Stage numbers the stages of a region's part of the plan, from 0.
	Stage int
	// Urgent is set if nothing may make the step wait: it gives back what the glass was broken for.
	Urgent bool
}

// Subject identifies what the step is about: steps with different subjects do not need one
// another's order within a stage.
func (s Step) Subject() string {
	if s.Op.Target != "" {
		return s.Op.Target
	}
	return s.Network + "/" + s.Op.Group.Name
}

// Interfaces returns the interfaces that the step changes; nil if it is about something else.
func (s Step) Interfaces() []string {
	if s.Op.Kind == cloud.OpSetInterfaceGroups || s.tagsInterfaces() {
		return s.Op.Subjects()
	}
	return nil
}

// Needing tells which interfaces of a snapshot hold a group or are to hold it by the steps, and
// whether the steps are about anything else. changes is the step among them that changes the group,
// whose id is given, for the step may only know its name.
func Needing(steps []Step, changes Step, group string, on *cloud.Snapshot) (interfaces []string, others bool) {
	need := map[string]bool{}
	if on != nil {
		for i := range on.Interfaces {
			if n := &on.Interfaces[i]; slices.Contains(n.GroupIDs, group) {
				need[n.ID] = true
			}
		}
	}
	for _, s := range steps {
		named := changes.Op.Target == "" && slices.Contains(s.Op.GroupNames, changes.Op.Group.Name)
		if s.Op.Kind == cloud.OpSetInterfaceGroups && (named || slices.Contains(s.Op.GroupIDs, group)) {
			need[s.Op.Target] = true
		}
	}
	for _, s := range steps {
		switch s.Op.Kind {
		case cloud.OpSetRules, cloud.OpAddRules, cloud.OpReplaceRules, cloud.OpRemoveRules:
			others = others || s.Subject() != changes.Subject()
		case cloud.OpSetInterfaceGroups:
			others = others || !need[s.Op.Target]
		}
	}
	return slices.Sorted(maps.Keys(need)), others
}

// Plan is an ordered list of steps. They are to be applied in this order, and not beyond a failed
// one; but within one stage of a region, steps about different subjects may be applied in any order
// and at the same time, and regions are independent of each other. So are networks of a region that
// no active peerings connect.
type Plan struct {
	Account string
	Steps   []Step
	// Partial is true if the wanted state is reached only by a further plan, computed on what is
	// observed after this one.
	Partial bool
}

// Empty reports whether there is nothing to do.
func (p Plan) Empty() bool { return len(p.Steps) == 0 }

func (s Step) tagsInterfaces() bool {
	return (s.Op.Kind == cloud.OpTag || s.Op.Kind == cloud.OpUntag) && s.Op.Target != s.Network && s.Op.Group.Name == ""
}
