package report

import (
	"fmt"
	"strings"

	"github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud/plan/intent"
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

// Command is what a person enters to let the change go on.
func (w *Waiting) Command() string {
	namespace, name, _ := strings.Cut(w.Account, "/")
	return fmt.Sprintf("kubectl annotate cloudprovideraccount %s -n %s %s=%s --overwrite", name, namespace, v1alpha1.AnnotationConfirm, w.Hash)
}

// examples is how many interfaces are named.
const examples = 3

// Summary says what waits and how it goes on.
func (w *Waiting) Summary() string {
	var what []string
	if n := len(w.Released); n > 0 {
		what = append(what, fmt.Sprintf("%d of the %d interfaces under control would be given back", n, w.Control))
	}
	if n := len(w.Guarded); n > 0 {
		what = append(what, fmt.Sprintf("%d of the %d interfaces of VMs would newly come under control", n, w.All))
	}
	text := strings.Join(what, ", and ")
	if w.Gradual {
		text += ", after others of late"
	}
	text += fmt.Sprintf(". What concerns at least %s, and more than %d %%, waits for a confirmation (spec.brake of the account)",
		count(w.Brake.Interfaces, "interface"), w.Brake.Percent)
	if w.Control == 0 {
		text += ". Nothing is wrong: this is always asked before so much comes under control for the first time"
	}
	return text + ". These interfaces stay as they are, all else goes on. \"nephele plan\" shows what would change. " +
		"To let it go on: " + w.Command()
}

// String is the summary with some names. The command comes before them, for long texts are cut.
func (w *Waiting) String() string {
	var names []string
	for _, refs := range [][]InterfaceRef{w.Released, w.Guarded} {
		for _, r := range refs[:min(len(refs), examples)] {
			names = append(names, r.String())
		}
		if more := len(refs) - examples; more > 0 {
			names = append(names, fmt.Sprintf("and %d more", more))
		}
	}
	return w.Summary() + ". It is about " + strings.Join(names, ", ")
}
