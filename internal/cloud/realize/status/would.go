package status

import (
	"cmp"
	"fmt"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan"
	"github.com/nephele-io/nephele/internal/cloud/plan/render"
)

// wouldBecome says what would become of a policy on the VMs in mode plan if they were enforced.
type wouldBecome struct {
	// known is false until it was computed.
	known             bool
	enforced, refused int
	// why is the first reason of a refusal.
	why string
}

// wouldBe says it of all policies, by UID.
func wouldBe(r Report, modes map[plan.VMRef]plan.Mode) map[string]wouldBecome {
	out := map[string]wouldBecome{}
	for _, p := range render.Policies(r.Would) {
		w := wouldBecome{known: true}
		for _, vms := range [][]plan.VMRef{p.Realized, p.Pending} {
			for _, vm := range vms {
				if modes[vm] == plan.Planned {
					w.enforced++
				}
			}
		}
		refused := func(vm plan.VMRef, why string) {
			if modes[vm] == plan.Planned {
				w.refused++
				w.why = cmp.Or(w.why, why)
			}
		}
		for _, f := range p.Failed {
			refused(f.VM, f.Message)
		}
		for _, u := range p.Unguarded {
			refused(u.VM, u.Message)
		}
		out[p.UID] = w
	}
	return out
}

// text says it for people.
func (w wouldBecome) text(planned int, noun string) string {
	text := "planned on " + cloud.Counted(planned, noun)
	switch {
	case !w.known:
		return text + ", nothing is written"
	case w.refused == 0:
		return fmt.Sprintf("%s: %d would be enforced", text, w.enforced)
	}
	return fmt.Sprintf("%s: %d would be enforced, %d refused: %s", text, w.enforced, w.refused, w.why)
}
