package realize

import (
	"cmp"

	"github.com/nephele-io/nephele/internal/cloud/plan"
	"github.com/nephele-io/nephele/internal/enforcer"
)

// tightened are the policies of which as much is to be enforced as fits, by UID.
func (w *worker) tightened(want enforcer.Computed) map[string]bool {
	if w.r.Tighten == nil {
		return nil
	}
	out := map[string]bool{}
	for _, p := range want.Policies {
		if p.SourceRef != nil && w.r.Tighten(*p.SourceRef) {
			out[cmp.Or(string(p.UID), p.Name)] = true
		}
	}
	return out
}

// planModes are the modes without those who say so.
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

// takeUp notes the VMs that a task releases at once.
func (w *worker) takeUp(a Account) {
	broken := map[plan.VMRef]bool{}
	for vm, m := range a.Modes {
		if m.Mode == plan.BreakGlass {
			broken[vm] = true
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.broken = broken
}

// look breaks off what is being applied if a VM is to be released at once that the current task does not know of.
func (w *worker) look(a Account) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for vm, m := range a.Modes {
		if m.Mode == plan.BreakGlass && !w.broken[vm] {
			w.hurry.Store(true)
		}
	}
}
