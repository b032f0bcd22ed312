package render

import (
	"fmt"
	"strings"

	"github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan"
)

// Confirming is what a person enters to let the change go on.
func Confirming(w *plan.Waiting) string {
	namespace, name, _ := strings.Cut(w.Account, "/")
	return fmt.Sprintf("kubectl annotate cloudprovideraccount %s -n %s %s=%s --overwrite", name, namespace, v1alpha1.AnnotationConfirm, w.Hash)
}

// examples is how many interfaces are named.
const examples = 3

// Waiting says what waits and how it goes on.
func Waiting(w *plan.Waiting) string {
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
		cloud.Counted(w.Brake.Interfaces, "interface"), w.Brake.Percent)
	if w.Control == 0 {
		text += ". Nothing is wrong: this is always asked before so much comes under control for the first time"
	}
	return text + ". These interfaces stay as they are, all else goes on. \"nephele plan\" shows what would change. " +
		"To let it go on: " + Confirming(w)
}

// WaitingFor is Waiting with the names of some interfaces. The command comes before them, for long
// texts are cut.
func WaitingFor(w *plan.Waiting) string {
	var names []string
	for _, refs := range [][]plan.InterfaceRef{w.Released, w.Guarded} {
		for _, r := range refs[:min(len(refs), examples)] {
			names = append(names, r.String())
		}
		if more := len(refs) - examples; more > 0 {
			names = append(names, fmt.Sprintf("and %d more", more))
		}
	}
	return Waiting(w) + ". It is about " + strings.Join(names, ", ")
}
