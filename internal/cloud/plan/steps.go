package plan

import (
	"cmp"

	"github.com/nephele-io/nephele/internal/cloud/plan/form"
	"github.com/nephele-io/nephele/internal/cloud/plan/intent"
	"github.com/nephele-io/nephele/internal/cloud/plan/model"
	"github.com/nephele-io/nephele/internal/cloud/plan/reason"
	"github.com/nephele-io/nephele/internal/cloud/plan/transition"
)

// emitter turns the order of one region into steps: it says why each is made, gives what it creates
// the names by which people know it, and signs records.
type emitter struct {
	r        *regional
	policies map[*form.Class][]intent.PolicyRef // see policiesOf
	naming   map[string][]*intent.Policy        // by address group: the policies in force whose rules name it
}

// transit turns the way of a region into steps. Dirty are the groups and interfaces for which
// policies have to wait, because some step changes them.
func (s *regional) transit() (steps []Step, dirty map[string]bool, later bool) {
	e := &emitter{r: s, policies: map[*form.Class][]intent.PolicyRef{}}
	steps, dirty = make([]Step, len(s.order.Steps)), make(map[string]bool, len(s.order.Steps))
	for i, st := range s.order.Steps {
		steps[i] = e.step(st)
		if describes(st.Op) {
			continue
		}
		for _, id := range st.Op.Subjects() {
			dirty[id] = true
		}
		if st.Op.Target == "" {
			dirty["+"+st.Op.Group.Name] = true
		}
	}
	if !s.moves() {
		s.blocked(s.order.Blocked)
	}
	for _, id := range s.survey.Hasty() {
		s.region.Note(id, reason.Why(reason.NotWaiting))
	}
	return steps, dirty, s.guard.Restricts() || len(s.order.Blocked) > 0
}

func (e *emitter) step(st transition.Step) Step {
	step := Step{Scope: e.r.region.Snap.Scope, Network: st.Network, Op: st.Op, Stage: st.Stage, Urgent: st.Urgent}
	g := e.groupOf(st)
	e.explain(&step, g)
	e.label(&step, g)
	e.sign(&step.Op)
	return step
}

// groupOf is the group of ours that a step is about; nil if it is about something else. In a
// forecast groups that were created by an earlier round have the IDs of one, and operations name
// them.
func (e *emitter) groupOf(st transition.Step) *form.Group {
	if st.Op.Target != "" {
		return e.r.design.ByKey[st.Op.Target]
	}
	name := st.Op.Group.Name
	return cmp.Or(e.r.design.ByKey[model.PlannedID(st.Network, name)], e.r.design.ByKey["+"+name])
}
