package plan

import (
	"sync"
	"time"

	"github.com/nephele-io/nephele/internal/cloud"
)

// Effect is what an operation does to traffic once the cloud has put it into force, as far as the
// operation alone tells.
type Effect uint8

// The effects; an operation may have several.
const (
	Opens Effect = 1 << iota
	Closes
	// Prepares is that of a new group: it matters to whoever joins it.
	Prepares
)

// Effect returns what the step does to traffic; 0 for tags. A group that is deleted closes whatever
// interface has not seen yet that it has left it.
func (s Step) Effect() Effect {
	switch s.Op.Kind {
	case cloud.OpCreateGroup:
		return Prepares
	case cloud.OpAddRules:
		return Opens
	case cloud.OpRemoveRules, cloud.OpDeleteGroup:
		return Closes
	case cloud.OpReplaceRules, cloud.OpSetRules:
		return Opens | Closes
	case cloud.OpSetInterfaceGroups:
		return Opens | Closes | Prepares
	}
	return 0
}

// Needs reports whether an operation relies on others to be in force before it. Any mix of edits
// that only open, or only close, gives a state between the first and the last. Nobody but whoever
// joins a group relies on what it is made with.
func (e Effect) Needs(before Effect) bool {
	if e&Prepares == 0 {
		before &^= Prepares
	}
	return before != 0 && e != 0 && e != Prepares && (before != e || e&(e-1) != 0)
}

// Wire keeps count of what the cloud has accepted of the plans for one part of an account, and may
// not have put into force everywhere. It is safe for concurrent use.
type Wire struct {
	propagation time.Duration

	mu      sync.Mutex
	earlier accepted
	stage   int
	current map[string]accepted // of the stage, by subject
}

// accepted are operations with the time of the last of them.
type accepted struct {
	effect Effect
	last   time.Time
}

func (a *accepted) add(b accepted) {
	a.effect |= b.effect
	if b.last.After(a.last) {
		a.last = b.last
	}
}

// Wires are those of the parts of an account.
type Wires[P comparable] map[P]*Wire

// Begin begins a plan for a part, and says how long the cloud takes to put into force what it has
// accepted. Nobody knows what was done before the first plan of a part.
func (all Wires[P]) Begin(part P, now time.Time, propagation time.Duration) *Wire {
	w := all[part]
	if w == nil {
		w = &Wire{earlier: accepted{Opens | Closes | Prepares, now}}
		all[part] = w
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.propagation = propagation
	w.fold(-1, now)
	return w
}

// fold makes what was accepted that of earlier stages, and forgets what is in force.
func (w *Wire) fold(stage int, now time.Time) {
	if !w.earlier.last.Add(w.propagation).After(now) {
		w.earlier = accepted{}
	}
	for _, a := range w.current {
		w.earlier.add(a)
	}
	w.stage, w.current = stage, map[string]accepted{}
}

// Wait returns how long a step has to wait: until what it needs of earlier stages and of its own
// subject is in force. Steps of one stage about different subjects do not wait for one another.
func (w *Wire) Wait(s Step, now time.Time) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	if s.Stage != w.stage {
		w.fold(s.Stage, now)
	}
	before := accepted{}
	for _, a := range []accepted{w.earlier, w.current[s.Subject()]} {
		if a.last.Add(w.propagation).After(now) {
			before.add(a)
		}
	}
	if !s.Effect().Needs(before.effect) {
		return 0
	}
	return before.last.Add(w.propagation).Sub(now)
}

// Accept notes that the cloud has answered a step, however: it may have been done.
func (w *Wire) Accept(s Step, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if effect := s.Effect(); effect != 0 {
		a := w.current[s.Subject()]
		a.add(accepted{effect, now})
		w.current[s.Subject()] = a
	}
}
