package transition

import (
	"maps"
	"slices"

	"github.com/nephele-io/nephele/internal/cloud"
)

// Step is one operation. Steps of one stage about different objects may be applied in any order and
// at the same time; those of a later stage wait for all of them.
type Step struct {
	Network string
	Op      cloud.Op
	Stage   int
	// Urgent is set if nothing may make the step wait.
	Urgent bool
}

// Order is how far a change can go, and what holds up the rest.
type Order struct {
	Steps []Step
	// Blocked are the edits for which there is no clean moment, with the reason; empty if the steps
	// lead to the end.
	Blocked []Violation
	// Apart are interfaces that are blocked because they would have to move by one edit and cannot.
	// If they are put into Change.Apart, Conflicts tells what to do about them.
	Apart []string
}

// worklist is what is still to be done.
type worklist struct {
	*state
	wanted  map[string][]cloud.Rule // of groups of ours that shall exist
	doomed  []string                // groups that shall not
	order   []string                // groups of ours, sorted
	movers  []*cohort
	temp    map[string]map[cloud.Rule]bool // rules that are there as long as others move
	deleted map[string]bool                // groups that the steps delete
	blocked []Violation
	splits  int

	*script
	tags *tagger
	// descriptions are those of wanted rules in groups of others.
	descriptions map[described]string
}

// Plan finds an order for a change, as far as there is one.
func (s *Survey) Plan() Order {
	s.findAtomic()
	w := newWorklist(s)
	w.urgent()
	w.tags.tagNetworks(cloud.OpTag, func(key string) bool { return slices.Contains(w.First, key) }, nil)
	first := len(w.steps)
	w.unmark()
	unmarked := len(w.steps)
	for {
		w.stop()
		w.blocked = nil
		done := w.create()
		done = w.setWhole() || done
		done = w.replace() || done
		done = w.add() || done
		done = w.move() || done
		// What is not wanted goes after the moves, unless they wait for that: a rule that bridged a
		// gap in a plan that broke off does so again.
		if done || w.bridge() || w.leave() || w.remove() {
			continue
		}
		if len(w.unfinished()) == 0 || !w.split() && !w.join() && !w.discard(nil) {
			break
		}
	}
	left := w.unfinished()
	w.blocked = slices.DeleteFunc(w.blocked, func(v Violation) bool { return !left[v.Network] })
	for w.discard(left) {
		continue
	}
	w.describe()
	w.settle(left)
	for i := first; i < unmarked && unmarked < len(w.steps); i++ { // together with what is done first, which need not wait for it
		w.steps[i].Stage = w.steps[unmarked].Stage
	}
	out := Order{Steps: w.steps, Blocked: w.blocked}
	for _, v := range out.Blocked {
		if v.mover != nil && v.mover.atomic && v.Kind == Gap {
			out.Apart = append(out.Apart, v.Interfaces...)
		}
	}
	return out
}

func newWorklist(s *Survey) *worklist {
	if s.Batch == 0 {
		s.Batch = defaultBatch
	}
	w := &worklist{
		state:        newState(s),
		wanted:       map[string][]cloud.Rule{},
		temp:         map[string]map[cloud.Rule]bool{},
		deleted:      map[string]bool{},
		descriptions: map[described]string{},
		script:       &script{},
	}
	w.tags = &tagger{Change: &s.Change, script: w.script, written: map[string]map[string]string{}}
	for i := range s.To.Groups {
		g := &s.To.Groups[i]
		if s.extended(g) {
			w.remember(g)
		}
		if s.Ours(g) || s.extended(g) {
			w.wanted[g.ID] = cloud.RuleKeys(g.Rules)
			w.order = append(w.order, g.ID)
		}
	}
	for i := range s.From.Groups {
		if g := &s.From.Groups[i]; s.Ours(g) {
			if _, ok := w.wanted[g.ID]; !ok {
				w.doomed = append(w.doomed, g.ID)
			}
		}
	}
	for _, k := range s.cohorts {
		if k.moves() {
			w.movers = append(w.movers, k)
		}
	}
	return w
}

// unfinished are the networks in which something other than clearing away is left, with all that
// peerings connect with them: what is blocked there holds up nobody else.
func (w *worklist) unfinished() map[string]bool {
	left := map[string]bool{}
	for _, k := range w.movers {
		left[k.network] = true
	}
	for _, id := range w.order {
		if !w.exists[id] || !slices.EqualFunc(w.rules[id], w.wanted[id], cloud.Rule.Same) {
			left[w.groups[id].NetworkID] = true
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
		for i := range w.From.Networks {
			if id := w.From.Networks[i].ID; !networks[id] && w.from.Reaches(at, id) {
				networks[id] = true
				queue = append(queue, id)
			}
		}
	}
	return networks
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

// block notes that there is no clean moment for an edit at this point of the plan.
func (w *worklist) block(network string, v Violation) {
	v.Network = network
	w.blocked = append(w.blocked, v)
}
