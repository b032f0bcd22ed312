package plan

import (
	"fmt"
	"strings"

	"github.com/nephele-io/nephele/api/cloud/v1alpha1"
)

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
	// Released would be given back, of so many interfaces under Control; Guarded would be taken under control, of all so many interfaces.
	// What does not wait is in neither. Both are sorted.
	Released, Guarded []InterfaceRef
	Control, All      int
	// Refused wait with Guarded: in the room that those leave they might fit.
	Refused []InterfaceRef
	// Gradual is set if the change is too large only together with what has changed lately.
	Gradual bool
}

// Weigh returns what of a change has to wait; nil if nothing has to. A brake that is nil holds nothing.
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
func (w *Waiting) VMs() map[VMRef]bool {
	out := map[VMRef]bool{}
	for _, list := range [][]InterfaceRef{w.Released, w.Guarded, w.Refused} {
		for _, r := range list {
			out[r.VM] = true
		}
	}
	return out
}

// Command is what a person enters to let the change go on.
func (w *Waiting) Command() string {
	namespace, name, _ := strings.Cut(w.Account, "/")
	return fmt.Sprintf("kubectl annotate cloudprovideraccount %s -n %s %s=%s --overwrite", name, namespace, v1alpha1.AnnotationConfirm, w.Hash)
}

// examples is how many interfaces are named.
const examples = 3

// String says what waits and how it goes on. The command comes before the examples, for long texts are cut.
func (w *Waiting) String() string {
	var what, names []string
	add := func(refs []InterfaceRef, format string, of int) {
		if len(refs) == 0 {
			return
		}
		what = append(what, fmt.Sprintf(format, len(refs), of))
		for _, r := range refs[:min(len(refs), examples)] {
			names = append(names, r.String())
		}
		if more := len(refs) - examples; more > 0 {
			names = append(names, fmt.Sprintf("and %d more", more))
		}
	}
	add(w.Released, "%d of the %d interfaces under control would be given back", w.Control)
	add(w.Guarded, "%d of the %d interfaces of VMs would newly come under control", w.All)
	text := strings.Join(what, ", and ")
	if w.Gradual {
		text += ", after others of late"
	}
	text += fmt.Sprintf(". More than %d %%, if it is at least %d interfaces, waits for a confirmation (spec.brake of the account)", w.Brake.Percent, w.Brake.Interfaces)
	if w.Control == 0 {
		text += ". Nothing is wrong: this is always asked before so much comes under control for the first time"
	}
	return text + ". These interfaces stay as they are, all else goes on. \"nephele plan\" shows what would change. To let it go on: " + w.Command() + ". It is about " + strings.Join(names, ", ")
}
