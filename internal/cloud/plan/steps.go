package plan

import "github.com/nephele-io/nephele/internal/cloud"

// emitter turns the design of one region into steps.
type emitter struct {
	*regional
	steps []Step
	// stage is that of the next step.
	stage int
	// dirty are the groups and interfaces that some step changes.
	dirty  map[string]bool
	causes causes
}

func (e *emitter) add(network string, op cloud.Op) {
	e.steps = append(e.steps, Step{Scope: e.Snap.Scope, Network: network, Op: op, Stage: e.stage})
	for _, id := range op.Subjects() {
		e.dirty[id] = true
	}
	if op.Target == "" {
		e.dirty["+"+op.Group.Name] = true
	}
}
