package plan

import (
	"github.com/nephele-io/nephele/internal/cloud"
)

// ruleDescription marks the rules of ours in the cloud's console; a rule of one of our groups that is not wanted and lacks it was made by
// somebody else.
const ruleDescription = "managed by Nephele"

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
	e.steps = append(e.steps, Step{Scope: e.snap.Scope, Network: network, Op: op, Stage: e.stage})
	for _, id := range op.Subjects() {
		e.dirty[id] = true
	}
	if op.Target == "" {
		e.dirty["+"+op.Group.Name] = true
	}
}

// stillNeeded returns the groups of ours that cannot be deleted: somebody else refers to them or holds them, or rules that stay do.
func (e *emitter) stillNeeded() map[string]bool {
	out := map[string]bool{}
	for i := range e.snap.Groups {
		g := &e.snap.Groups[i]
		if e.owned(g) {
			continue
		}
		for _, r := range g.Rules {
			if o := e.groups[r.Peer.GroupID]; o != nil && e.owned(o) {
				out[o.ID] = true
				if e.byKey[o.ID] == nil {
					e.note(o.ID, "it is no longer needed, but cannot be deleted while the group "+g.ID+" refers to it")
				}
			}
		}
	}
	for _, g := range e.allGroups() {
		for _, r := range g.rules {
			out[r.Peer.GroupID] = true
		}
	}
	for key, nics := range e.wantHeld {
		if g := e.groups[key]; g != nil && e.owned(g) && len(nics) > 0 {
			out[key] = true
			for _, r := range g.Rules {
				out[r.Peer.GroupID] = true
			}
			if e.byKey[key] == nil {
				e.note(key, "it is no longer needed, but cannot be deleted while the interface "+nics[0].ID+" holds it")
			}
		}
	}
	return out
}
