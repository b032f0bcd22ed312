package wire

import (
	"sync"
	"time"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan"
)

// effect is what an operation does to traffic once the cloud has put it into force, as far as the
// operation alone tells.
type effect uint8

// The effects; an operation may have several.
const (
	opens effect = 1 << iota
	closes
	// prepares is the effect of a new group: it matters to interfaces that join it.
	prepares
)

// effectOf returns what a step does to traffic; 0 for tags. A group that is deleted closes whatever
// interface has not seen yet that it has left it.
func effectOf(s plan.Step) effect {
	switch s.Op.Kind {
	case cloud.OpCreateGroup:
		return prepares
	case cloud.OpAddRules:
		return opens
	case cloud.OpRemoveRules, cloud.OpDeleteGroup:
		return closes
	case cloud.OpReplaceRules, cloud.OpSetRules:
		return opens | closes
	case cloud.OpSetInterfaceGroups:
		return opens | closes | prepares
	}
	return 0
}

// needs reports whether an operation relies on others to be in force before it. Any mix of edits
// that only open, or only close, gives a state between the first and the last. Only an interface
// that joins a group relies on its initial rules.
func (e effect) needs(before effect) bool {
	if e&prepares == 0 {
		before &^= prepares
	}
	return before != 0 && e != 0 && e != prepares && (before != e || e&(e-1) != 0)
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
	effect effect
	last   time.Time
}

func (a *accepted) add(b accepted) {
	a.effect |= b.effect
	if b.last.After(a.last) {
		a.last = b.last
	}
}

// Wires are the wires of the parts of an account. One goroutine may use them at a time.
type Wires[P comparable] map[P]*Wire

// Begin begins a plan for a part, and says how long the cloud takes to put into force what it has
// accepted. Nobody knows what was done before the first plan of a part.
func (all Wires[P]) Begin(part P, now time.Time, propagation time.Duration) *Wire {
	w := all[part]
	if w == nil {
		w = &Wire{earlier: accepted{opens | closes | prepares, now}}
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
func (w *Wire) Wait(s plan.Step, now time.Time) time.Duration {
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
	if !effectOf(s).needs(before.effect) {
		return 0
	}
	return before.last.Add(w.propagation).Sub(now)
}

// Accept notes that the cloud has answered a step, however: it may have been done.
func (w *Wire) Accept(s plan.Step, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if e := effectOf(s); e != 0 {
		a := w.current[s.Subject()]
		a.add(accepted{e, now})
		w.current[s.Subject()] = a
	}
}
