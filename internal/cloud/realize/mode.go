package realize

import (
	"sync"

	"github.com/nephele-io/nephele/internal/cloud/plan"
)

// planModes are the modes without the objects that set them.
func (a Account) planModes() map[plan.VMRef]plan.Mode {
	if len(a.Modes) == 0 {
		return nil
	}
	out := make(map[plan.VMRef]plan.Mode, len(a.Modes))
	for vm, m := range a.Modes {
		out[vm] = m.Mode
	}
	return out
}

// ModeReasons say of the VMs that are not simply enforced which object decides that.
func (a Account) ModeReasons() map[plan.VMRef]string {
	if len(a.Modes) == 0 {
		return nil
	}
	out := make(map[plan.VMRef]string, len(a.Modes))
	for vm, m := range a.Modes {
		out[vm] = m.Reason
	}
	return out
}

// work is the task that a worker is at. Its methods may be called at any time.
type work struct {
	mu sync.Mutex
	// current is the account as the task has it; nil if the task must not go on, and at first.
	current *Account
	urgent  chan struct{}
}

// takeUp notes what the account is like for a new task, and returns a channel that is closed when
// that must not go on.
func (w *work) takeUp(a Account) <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.current, w.urgent = &a, make(chan struct{})
	return w.urgent
}

// look breaks off what is being applied if the account is another in a way that does not bear one
// more call: modes have changed, of which every one says that something must not be written any
// more or has to be given back; or it is to be given back; or the credentials are others; or
// something else is confirmed, or nothing any more.
func (w *work) look(a Account) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.current != nil &&
		(a.Provider != w.current.Provider || a.Releasing != w.current.Releasing || a.brakesOtherwise(*w.current) || !sameModes(a.planModes(), w.current.planModes())) {
		w.end()
	}
}

// halt breaks off what is being applied, because nothing may be written at present.
func (w *work) halt() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.current != nil {
		w.end()
	}
}

// end needs mu.
func (w *work) end() {
	w.current = nil
	close(w.urgent)
}

// sameModes reports whether no VM has another mode. A VM without one is enforced.
func sameModes(a, b map[plan.VMRef]plan.Mode) bool {
	for vm, m := range a {
		if b[vm] != m {
			return false
		}
	}
	for vm, m := range b {
		if a[vm] != m {
			return false
		}
	}
	return true
}
