package transition

import (
	"maps"
	"slices"

	"github.com/nephele-io/nephele/internal/cloud"
)

// worklist is what is still to be done.
type worklist struct {
	survey  *Survey
	st      *state
	wanted  map[string][]cloud.Rule // of groups of ours that shall exist
	doomed  []string                // groups that shall not
	order   []string                // groups of ours, sorted
	movers  []*cohort
	temp    map[placed]bool // rules that are there as long as others move
	deleted map[string]bool // groups that the steps delete
	blocked []Violation

	script *script
	tags   *tagger
	// descriptions holds the descriptions of wanted rules in groups of others.
	descriptions map[placed]string
}

// placed is a rule in its group.
type placed struct {
	group string
	rule  cloud.Rule
}

// unfinished are the networks in which something other than clearing away is left, with all that
// peerings connect with them: what is blocked there holds up nobody else.
func (w *worklist) unfinished() map[string]bool {
	left := map[string]bool{}
	for _, k := range w.movers {
		left[k.network] = true
	}
	for _, id := range w.order {
		if !w.st.exists[id] || !slices.EqualFunc(w.st.rules[id], w.wanted[id], cloud.Rule.Same) {
			left[w.st.groups[id].NetworkID] = true
		}
	}
	return w.around(left)
}

// around adds to some networks all that peerings connect with them.
func (w *worklist) around(networks map[string]bool) map[string]bool {
	queue := slices.Sorted(maps.Keys(networks))
	for len(queue) > 0 {
		at := queue[0]
		queue = queue[1:]
		for i := range w.survey.From.Networks {
			if id := w.survey.From.Networks[i].ID; !networks[id] && w.survey.from.Reaches(at, id) {
				networks[id] = true
				queue = append(queue, id)
			}
		}
	}
	return networks
}

// block notes that there is no clean moment for an edit at this point of the plan.
func (w *worklist) block(v *Violation) {
	if v.mover != nil {
		v.Network = v.mover.network
	} else {
		v.Network = w.st.groups[v.Group].NetworkID
	}
	w.blocked = append(w.blocked, *v)
}

// script is what is to be done, in stages.
type script struct {
	steps []Step
	stage int // of the next step
}

// next begins a stage.
func (w *script) next() {
	if k := len(w.steps); k > 0 {
		w.stage = w.steps[k-1].Stage + 1
	}
}

func (w *script) emit(network string, op cloud.Op) {
	w.steps = append(w.steps, Step{Network: network, Op: op, Stage: w.stage})
}
