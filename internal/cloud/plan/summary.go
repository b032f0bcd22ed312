package plan

import (
	analysis "github.com/nephele-io/nephele/api/analysis/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud"
)

// Summary counts what a plan does. Rules that are turned into others in place count as neither
// added nor removed, and Tagged counts the objects whose tags are set or removed. An adapter needs
// one mutating call for most steps, two for rule changes of both directions and for the creation of
// a group whose default rules have to go.
type Summary = analysis.PlanSummary

// Summary counts what the plan does.
func (p Plan) Summary() Summary {
	s := Summary{Steps: int32(len(p.Steps))}
	changed, interfaces := map[string]bool{}, map[string]bool{}
	created := map[string]bool{}
	for _, st := range p.Steps {
		op := st.Op
		object := st.Scope.Region + "/" + st.Subject()
		switch op.Kind {
		case cloud.OpCreateGroup:
			s.GroupsCreated++
			created[object] = true
		case cloud.OpDeleteGroup:
			s.GroupsDeleted++
		case cloud.OpAddRules, cloud.OpRemoveRules, cloud.OpSetRules:
			s.RulesAdded += int32(len(op.Added()))
			s.RulesRemoved += int32(len(op.Removed()))
			changed[object] = true
		case cloud.OpReplaceRules:
			s.RulesReplaced += int32(len(op.Rules))
			changed[object] = true
		case cloud.OpSetInterfaceGroups:
			s.InterfaceEdits++
			interfaces[object] = true
		case cloud.OpTag, cloud.OpUntag:
			s.Tagged += int32(len(op.Subjects()))
		}
	}
	for object := range changed {
		if !created[object] {
			s.GroupsChanged++
		}
	}
	s.Interfaces = int32(len(interfaces))
	return s
}
