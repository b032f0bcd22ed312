package plan

import "github.com/nephele-io/nephele/internal/cloud"

// Summary counts what the plan does.
func (p Plan) Summary() Summary {
	s := Summary{Steps: len(p.Steps)}
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
			s.RulesAdded += len(op.Added())
			s.RulesRemoved += len(op.Removed())
			changed[object] = true
		case cloud.OpReplaceRules:
			s.RulesReplaced += len(op.Rules)
			changed[object] = true
		case cloud.OpSetInterfaceGroups:
			s.InterfaceEdits++
			interfaces[object] = true
		case cloud.OpTag, cloud.OpUntag:
			s.Tagged += len(op.Subjects())
		}
	}
	for object := range changed {
		if !created[object] {
			s.GroupsChanged++
		}
	}
	s.Interfaces = len(interfaces)
	return s
}
