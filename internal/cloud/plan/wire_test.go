package plan_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/nephele-io/nephele/internal/cloud/realize/wire"
	"github.com/nephele-io/nephele/internal/sim/effect"
	"github.com/nephele-io/nephele/internal/tier"
)

// effectBound is how long an edit takes at most in the worlds below.
const effectBound = 8 * time.Second

// onWire are worlds whose edits take time to come into force at each interface.
type onWire struct {
	propagation time.Duration

	asked, leaks, gaps, steps, waited int
	examples                          []string
}

// play plays the history of an estate and counts the verdicts on the wire that neither the policies
// before a change nor those after it give.
func (o *onWire) play(by subject, e *estate, seed uint64) (err error) {
	whole := *e
	e = &whole // disturb changes the native groups
	e.Groups = slices.Clone(e.Groups)
	f := e.cloud()
	if f.mirror, err = e.newMirror(); err != nil {
		return fmt.Errorf("the simulator does not accept the estate: %w", err)
	}
	if err := f.mirror.world.SetEffects(effect.Delay{Bound: effectBound, Seed: seed}); err != nil {
		return err
	}
	r := rand.New(rand.NewPCG(seed, 99))
	flows := e.flows()
	r.Shuffle(len(flows), func(i, k int) { flows[i], flows[k] = flows[k], flows[i] })
	flows = flows[:min(len(flows), 400)]
	var earlier *naive
	for i, set := range append(slices.Clone(e.History), policySet{}) {
		var drifted map[int]bool
		if i > 0 && i < len(e.History) {
			if drifted, err = e.disturb(f, rand.New(rand.NewPCG(seed, uint64(i)))); err != nil {
				return err
			}
		}
		f.mirror.now = f.mirror.now.Add(effectBound)
		p := &phase{estate: e, by: by, set: set, flows: flows, st: &stats{}, rand: r, drifted: drifted, earlier: earlier}
		if err := o.phase(p, f); err != nil {
			return fmt.Errorf("policy set %d: %w", i, err)
		}
		earlier = e.oracle(set, p.result)
	}
	return nil
}

func (o *onWire) phase(p *phase, f *fakeCloud) error {
	p.old, p.start, p.strict = p.verdicts(f), f.clone(), p.promised(f)
	var onWire [][]bool
	wires := wire.Wires[string]{}
	look := func(text string) error {
		got := make([]bool, len(p.flows))
		for i, fl := range p.flows {
			allowed, err := f.mirror.world.Passes(fl.simulated())
			if err != nil {
				return err
			}
			got[i] = allowed
		}
		onWire, p.ops = append(onWire, got), append(p.ops, text)
		return nil
	}
	for round := 0; ; round++ {
		if round > 12 {
			return fmt.Errorf("no end after %d rounds", round)
		}
		res := p.by.compute(p.input(p.set, f.clone()), p.lowerer())
		if p.result = res; p.first == nil {
			p.first = res
		}
		p.strict.take(res)
		if res.Plan.Empty() {
			break
		}
		inForce := wires.Begin("all", f.mirror.now, o.propagation)
		for _, step := range p.mixStages(res.Plan.Steps) {
			if wait := inForce.Wait(step, f.mirror.now); wait > 0 {
				f.mirror.now = f.mirror.now.Add(wait)
				o.waited++
			}
			if err := f.apply(step.Network, step.Op); err != nil {
				return fmt.Errorf("%s: %w", step.Op, err)
			}
			inForce.Accept(step, f.mirror.now)
			o.steps++
			for range 2 {
				f.mirror.now = f.mirror.now.Add(time.Duration(p.rand.Int64N(int64(effectBound) / 8)))
				if err := look(fmt.Sprintf("round %d stage %d: %s", round, step.Stage, step.Op)); err != nil {
					return err
				}
			}
		}
	}
	for range 8 {
		f.mirror.now = f.mirror.now.Add(effectBound / 8)
		if err := look("the end"); err != nil {
			return err
		}
	}
	final := p.verdicts(f)
	if got := onWire[len(onWire)-1]; !slices.Equal(got, final) {
		return fmt.Errorf("in the end the wire is not as the cloud's API says")
	}
	bad := map[string]bool{}
	for k, got := range onWire {
		for i, fl := range p.flows {
			o.asked++
			if !p.breaks(fl, got[i], final[i], p.old[i], f) {
				continue
			}
			what := fmt.Sprintf("%v %s", got[i], fl)
			if bad[what] {
				continue // each flow once a change
			}
			if bad[what] = true; got[i] {
				o.leaks++
			} else {
				o.gaps++
			}
			if len(o.examples) < 6 {
				o.examples = append(o.examples, fmt.Sprintf("after %q: allowed %v: %s", p.ops[k], got[i], fl))
			}
		}
	}
	return nil
}

// TestOnTheWire counts what the order of steps is worth where edits take time: without a wait, some
// flows are open or cut that are not to be. With the waits of Wire none is.
func TestOnTheWire(t *testing.T) {
	t.Parallel()
	by := subjectOf(t)
	worlds, first := envInt("NEPHELE_PLAN_WORLDS", tier.Pick(6, 6, 100)), uint64(envInt("NEPHELE_PLAN_SEED", 57))
	play := func(propagation time.Duration) *onWire {
		o := &onWire{propagation: propagation}
		for seed := first; seed < first+uint64(worlds); seed++ {
			e := randomEstate(rand.New(rand.NewPCG(seed, 7)))
			if e.Split || len(e.Claimed) > 0 {
				continue // the simulator has no such accounts
			}
			if err := o.play(by, &e, seed); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
		}
		t.Logf("%d steps with %d waits: %d leaks and %d gaps in %d verdicts", o.steps, o.waited, o.leaks, o.gaps, o.asked)
		return o
	}
	if o := play(effectBound); o.leaks+o.gaps > 0 || o.waited >= o.steps/2 {
		t.Errorf("there are %d leaks and %d gaps with %d waits in %d steps, such as %q", o.leaks, o.gaps, o.waited, o.steps, o.examples)
	}
	if o := play(0); o.leaks == 0 || o.gaps == 0 || o.waited > 0 {
		t.Errorf("with no propagation there are %d waits, %d leaks and %d gaps: the delays do nothing", o.waited, o.leaks, o.gaps)
	}
}
