package render

import (
	"strings"

	"github.com/nephele-io/nephele/internal/cloud/plan"
)

// Concerned says in parentheses which VMs and policies a difference is about: " (of web-1, web-2,
// for shop/db from-app)"; "" if nothing is known.
func Concerned(d plan.Drift) string {
	var parts []string
	if d.VMs != "" {
		parts = append(parts, "of "+d.VMs)
	}
	if d.For != "" {
		parts = append(parts, "for "+d.For)
	}
	if len(parts) == 0 {
		return ""
	}
	return " (" + strings.Join(parts, ", ") + ")"
}
