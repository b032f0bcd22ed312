package plan

import (
	"fmt"
	"strings"
)

// Effort returns how often a computation asks whether it takes too long: once for every part of the
// work.
func Effort(in Input, lower Lowerer) (parts int) {
	newPlanning(in, lower, func() bool { parts++; return false }).plan()
	return parts
}

// ComputeWithin is Compute of which a try takes too long once it has asked so often.
func ComputeWithin(in Input, lower Lowerer, parts int) *Result {
	in.Limit = func() (func() bool, func()) {
		left := parts
		return func() bool { left--; return left < 0 }, func() {}
	}
	return compute(in, lower)
}

// Layers prints what each layer makes of an input, a line after the name of the layer; see doc.go.
func Layers(in Input, lower Lowerer) string {
	c := newPlanning(in, lower, nil)
	out := c.planOrForce()
	out.say()
	var b strings.Builder
	line := func(layer, format string, args ...any) {
		fmt.Fprintf(&b, "%s: %s\n", layer, fmt.Sprintf(format, args...))
	}
	s := c.regions[0]
	for _, vm := range s.guard.Order {
		for _, r := range vm.Applied {
			line("intent", "%s: %s allows %s of %v with members of %s", vm.Ref.ID, r.Policy.Ref.Name, r.Direction, r.Services, strings.Join(r.Groups, ", "))
		}
	}
	for _, n := range s.guard.NICs {
		line("guard", "%s is %s", n.ID, n.State())
	}
	for _, class := range s.design.Classes {
		var nics []string
		for _, n := range class.NICs {
			nics = append(nics, n.ID)
		}
		for _, g := range class.Groups {
			line("design", "%s for %s", g.Name, strings.Join(nics, ", "))
			for _, r := range g.Rules {
				line("design", "  %s", r)
			}
		}
	}
	for _, st := range out.Plan.Steps {
		line("transition", "stage %d: %s", st.Stage, st.Op)
	}
	for _, p := range out.Policies {
		line("report", "%s: in force on %d VMs, to come on %d", p.Name, len(p.Realized), len(p.Pending))
	}
	return b.String()
}
