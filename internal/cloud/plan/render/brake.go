package render

import (
	"fmt"
	"slices"
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

// SeeAll is the command that names all of what conditions of an account name some of.
const SeeAll = "nephele plan --all"

// examples is how many VMs are named.
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

// WaitingFor is Waiting with the names of some VMs, by region. The command comes before them, for
// long texts are cut.
func WaitingFor(w *plan.Waiting) string {
	var parts []string
	for _, refs := range [][]plan.InterfaceRef{w.Released, w.Guarded} {
		var names []string
		for _, r := range refs {
			if name := r.String() + " in " + r.VM.Region; !slices.Contains(names[max(0, len(names)-1):], name) {
				names = append(names, name) // the interfaces of a VM follow one another
			}
		}
		more := cloud.AndMore(len(names)-examples, SeeAll)
		if names = names[:min(len(names), examples)]; more != "" {
			names = append(names, more)
		}
		parts = append(parts, names...)
	}
	return Waiting(w) + ". It is about " + strings.Join(parts, ", ")
}
