package plan

import (
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan/intent"
)

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

// stillNeeded returns the groups of ours that cannot be deleted: somebody else refers to them or
// holds them, or rules that stay do.
func (e *emitter) stillNeeded() map[string]bool {
	out := map[string]bool{}
	for i := range e.Snap.Groups {
		g := &e.Snap.Groups[i]
		if e.Owned(g) {
			continue
		}
		for _, r := range g.Rules {
			if o := e.Groups[r.Peer.GroupID]; o != nil && e.Owned(o) {
				out[o.ID] = true
				if e.ByKey[o.ID] == nil {
					e.Note(o.ID, intent.Why(intent.NeededByGroup, g.ID))
				}
			}
		}
	}
	for _, g := range e.AllGroups() {
		for _, r := range g.Rules {
			out[r.Peer.GroupID] = true
		}
	}
	for key, nics := range e.WantHeld {
		if g := e.Groups[key]; g != nil && e.Owned(g) && len(nics) > 0 {
			out[key] = true
			for _, r := range g.Rules {
				out[r.Peer.GroupID] = true
			}
			if e.ByKey[key] == nil {
				e.Note(key, intent.Why(intent.NeededByHolder, nics[0].ID))
			}
		}
	}
	return out
}
