package aws

import "time"

// Cause is the caller of a mutation, and the call. It is read only.
type Cause struct {
	// Request is the id of the call that the answer carries.
	Request string
	Caller  Credential
	// Params are the wire parameters of the call.
	Params map[string]string
	// Agent is what the client calls itself, Source the address that it called from.
	Agent, Source string
}

// For returns a handle to the same region whose mutations carry the cause.
func (r *Region) For(c *Cause) *Region {
	out := *r.site
	out.cause = c
	return &Region{&out}
}

// OnTransition adds a hook that sees every change that the cloud makes by itself, such as the end
// of an instance's start, in the order in which they are made. The hook runs while the World is
// locked: it must not call the World. The returned function removes it.
func (w *World) OnTransition(f func(Transition)) (remove func()) {
	w.state.Lock()
	defer w.state.Unlock()
	w.nextHook++
	id := w.nextHook
	w.turns = append(w.turns, turnHook{id, f})
	return func() {
		w.state.Lock()
		defer w.state.Unlock()
		for i := range w.turns {
			if w.turns[i].id == id {
				w.turns = append(w.turns[:i:i], w.turns[i+1:]...)
				return
			}
		}
	}
}

// Settle makes the transitions that are due by now; every other call does so too.
func (w *World) Settle() { w.read(func(time.Time) {}) }

type turnHook struct {
	id int
	f  func(Transition)
}
