package report

import "github.com/nephele-io/nephele/internal/cloud/plan/intent"

// Brake says how much of an account may change at once without a confirmation.
type Brake struct {
	// Percent is the share that may, and Interfaces how many interfaces always may, but for one.
	Percent, Interfaces int
}

// Holds reports whether n interfaces of so many are too many.
func (b Brake) Holds(n, of int) bool { return n > 0 && n >= b.Interfaces && 100*n > b.Percent*of }

// Waiting is a change that waits for a confirmation.
type Waiting struct {
	// Account is "namespace/name", and Hash what confirms the change.
	Account, Hash string
	Brake         Brake
	// Released would be given back, of so many interfaces under Control; Guarded would be taken
	// under control, of all so many interfaces. What does not wait is in neither. Both are sorted.
	Released, Guarded []InterfaceRef
	Control, All      int
	// Refused wait with Guarded: in the room that those leave they might fit.
	Refused []InterfaceRef
	// Gradual is set if the change is too large only together with what has changed lately.
	Gradual bool
}

// Weigh returns what of a change has to wait; nil if nothing has to. A brake that is nil holds
// nothing.
func (p *Protection) Weigh(b *Brake, account string) *Waiting {
	if b == nil || p == nil {
		return nil
	}
	w := &Waiting{Account: account, Hash: p.Hash(account), Brake: *b, Control: len(p.Now), All: len(p.All)}
	if released := p.Released(); b.Holds(len(released), w.Control) {
		w.Released = released
	}
	if guarded := p.Guarded(); b.Holds(len(guarded), w.All) {
		w.Guarded, w.Refused = guarded, p.Refused
	}
	if len(w.Released)+len(w.Guarded) == 0 {
		return nil
	}
	return w
}

// VMs are those that have to stay as they are meanwhile.
func (w *Waiting) VMs() map[intent.VMRef]bool {
	out := map[intent.VMRef]bool{}
	for _, list := range [][]InterfaceRef{w.Released, w.Guarded, w.Refused} {
		for _, r := range list {
			out[r.VM] = true
		}
	}
	return out
}
