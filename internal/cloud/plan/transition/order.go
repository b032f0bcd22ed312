package transition

import (
	"slices"

	"github.com/nephele-io/nephele/internal/cloud"
)

// Step is one operation. Steps of one stage about different objects may be applied in any order and
// at the same time; operations of a later stage wait for all of them.
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
	// Holds reports whether an interface holds a group after all steps.
	Holds func(group string) bool
}

// Plan finds an order for a change, as far as there is one.
func (s *Survey) Plan() Order {
	s.findAtomic()
	w := newWorklist(s)
	w.urgent()
	if s.First != nil {
		w.tags.tagNetworks(cloud.OpTag, func(key string) bool { return s.First(key, nil) }, nil)
	}
	first := len(w.script.steps)
	w.unmark()
	if s.First != nil {
		w.tags.tagGroups(cloud.OpTag, func(g *cloud.Group) bool { return !s.First("", g) })
	}
	unmarked := len(w.script.steps)
	w.repair()
	for {
		w.survey.stop()
		w.blocked = nil
		done := w.create()
		done = w.setWhole() || done
		done = w.replace() || done
		done = w.add() || done
		done = w.move() || done
		// What is not wanted goes after the moves, unless they wait for that: a rule that bridged a
		// gap in a plan that broke off does so again.
		if done || w.bridge() || w.remove() {
			continue
		}
		// Where that is not enough: what is there for a while only, or takes more edits.
		if len(w.unfinished()) == 0 || !w.join() && !w.discard(nil) {
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
	for i := first; i < unmarked && unmarked < len(w.script.steps); i++ { // together with what is done first, which need not wait for it
		w.script.steps[i].Stage = w.script.steps[unmarked].Stage
	}
	out := Order{Steps: w.script.steps, Blocked: w.blocked, Holds: func(group string) bool { return len(w.st.holders[group]) > 0 }}
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
		survey:       s,
		st:           newState(s),
		wanted:       map[string][]cloud.Rule{},
		temp:         map[placed]bool{},
		deleted:      map[string]bool{},
		descriptions: map[placed]string{},
		script:       &script{},
	}
	w.tags = &tagger{change: &s.Change, script: w.script, written: map[string]map[string]string{}}
	for i := range s.To.Groups {
		g := &s.To.Groups[i]
		extended := s.Extended != nil && !s.Ours(g) && s.Extended(g)
		if extended {
			for _, r := range g.Rules {
				w.descriptions[placed{g.ID, r.Key()}] = r.Description
			}
		}
		if extended || s.Ours(g) {
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
