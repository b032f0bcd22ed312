package realize

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/nephele-io/nephele/internal/sim/ec2"
	"github.com/nephele-io/nephele/internal/sim/world"
)

var (
	allFaults = flag.Bool("all-faults", false, "disturb every call in every way instead of a sample")
	faultSeed = flag.Uint64("fault-seed", 0, "seed of the sample of disturbed calls; 0 takes the time")
)

// disturbance is one way in which a call can go wrong.
type disturbance struct {
	name  string
	fault ec2.Fault
	// dies ends the realizer while the call is on its way; a new one begins with nothing but the cloud.
	dies bool
}

// at returns the fault that disturbs the k-th call, for the lab.
func (d disturbance) at(k int) func(*lab) {
	return func(l *lab) {
		if !d.dies {
			f := d.fault
			f.Nth = k
			l.fault(f)
			return
		}
		seen := 0
		l.server.Faults().Add(ec2.Fault{Action: "*", Times: -1, Match: func(ec2.Call) bool {
			if !l.accounts.reading.Load() {
				if seen++; seen == k {
					l.stop()
				}
			}
			return false
		}})
	}
}

func disturbances() []disturbance {
	return []disturbance{
		{name: "server error, not executed", fault: ec2.Fault{Code: "InternalError", Status: 500}},
		{name: "unavailable for 3 calls", fault: ec2.Fault{Code: "Unavailable", Status: 503, Times: 3}},
		{name: "connection cut, not executed", fault: ec2.Fault{Drop: true}},
		{name: "answer lost after execution", fault: ec2.Fault{LoseAnswer: true}},
		{name: "answers of 4 calls lost", fault: ec2.Fault{LoseAnswer: true, Times: 4}},
		{name: "throttled for 3 calls", fault: ec2.Fault{Code: "RequestLimitExceeded", Status: 503, Times: 3}},
		{name: "credentials refused for 5 calls", fault: ec2.Fault{Code: "AuthFailure", Times: 5}},
		{name: "group not found", fault: ec2.Fault{Code: "InvalidGroup.NotFound"}},
		{name: "rule quota", fault: ec2.Fault{Code: "RulesPerSecurityGroupLimitExceeded"}},
		{name: "controller dies", dies: true},
	}
}

// witness checks every state of the cloud against what was wanted before and after the event that is being realized.
type witness struct {
	l *lab

	mu            sync.Mutex
	before, after verdicts
	found         []string
}

func (w *witness) expect(before, after verdicts) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.before, w.after = before, after
}

func (w *witness) look(m world.Mutation) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for p, got := range w.l.actual() {
		switch b, a := w.before[p], w.after[p]; {
		case got && !b && !a:
			w.found = append(w.found, fmt.Sprintf("%s %v opened %s", m.Action, m.Resources, p))
		case !got && b && a:
			w.found = append(w.found, fmt.Sprintf("%s %v cut %s", m.Action, m.Resources, p))
		}
	}
}

// outcome is how a history ended.
type outcome struct {
	calls int // of the realizer
	wrong []string
}

func (o outcome) String() string { return strings.Join(o.wrong[:min(len(o.wrong), 5)], "\n") }

// live runs the history under the faults.
func live(t *testing.T, cfg labConfig, faults ...func(*lab)) outcome {
	t.Helper()
	l := newLab(t, cfg)
	defer l.close()
	before := l.holdings()
	l.publish()
	counting := l.count()
	for _, f := range faults {
		f(l)
	}
	w := &witness{l: l}
	stop := l.server.World().OnMutation(w.look)
	defer stop()
	now := l.wanted()
	l.start()
	var out outcome
	for _, e := range history() {
		e.do(l)
		delta := l.engine.Commit()
		next := l.wanted()
		w.expect(now, next)
		l.publishDelta(delta)
		what := ""
		if !eventually(func() bool { l.revive(); what = l.unsettled(); return what == "" }) {
			out.wrong = append(out.wrong, fmt.Sprintf("%s: not settled: %s", e.name, what))
			return out
		}
		if diff := compare(l.actual(), next); diff != "" {
			out.wrong = append(out.wrong, e.name+": "+diff)
		}
		now = next
	}
	l.halt()
	out.calls = counting()
	if diff := gocmp.Diff(before, l.holdings()); diff != "" {
		out.wrong = append(out.wrong, "left behind (-before +after):\n"+diff)
	}
	out.wrong = append(out.wrong, w.found...)
	return out
}

// revive starts a new realizer if the last one died.
func (l *lab) revive() {
	select {
	case <-l.done:
		l.start()
	default:
	}
}

// seeded returns the source of a sample and its seed.
func seeded() (*rand.Rand, uint64) {
	seed := *faultSeed
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	return rand.New(rand.NewPCG(seed, 0)), seed
}

// TestFaults disturbs single calls of a history in every way. The end must be the same, and no state in between may allow what
// neither the old nor the new policies allow, or cut what both allow.
func TestFaults(t *testing.T) {
	t.Parallel()
	clean := live(t, labConfig{})
	if len(clean.wrong) > 0 || clean.calls == 0 {
		t.Fatalf("undisturbed, %d calls: %v", clean.calls, clean.wrong)
	}
	random, seed := seeded()
	var table strings.Builder
	fmt.Fprintf(&table, "%d calls, seed %d\n%-32s %8s %8s\n", clean.calls, seed, "disturbance", "runs", "survived")
	for _, d := range disturbances() {
		at := random.Perm(clean.calls)
		if !*allFaults {
			at = at[:1]
		}
		survived := 0
		for _, k := range at {
			if got := live(t, labConfig{}, d.at(k+1)); len(got.wrong) == 0 {
				survived++
			} else {
				t.Errorf("%s, call %d: %s", d.name, k+1, got)
			}
		}
		fmt.Fprintf(&table, "%-32s %8d %8d\n", d.name, len(at), survived)
	}
	t.Log("\n" + table.String())
}

// TestSlowlyVisible: what was created is not found for a while.
func TestSlowlyVisible(t *testing.T) {
	t.Parallel()
	for _, delay := range []time.Duration{time.Second, 10 * time.Second, time.Minute} {
		if got := live(t, labConfig{visible: delay}); len(got.wrong) > 0 {
			t.Errorf("%s: %s", delay, got)
		}
	}
}

// TestManyFaults disturbs many calls of one history.
func TestManyFaults(t *testing.T) {
	t.Parallel()
	random, seed := seeded()
	runs := 2
	if *allFaults {
		runs = 200
	}
	kinds := disturbances()
	for run := range runs {
		var faults []func(*lab)
		for range 15 {
			d := kinds[random.IntN(len(kinds)-1)]
			faults = append(faults, d.at(1+random.IntN(120)))
		}
		faults = append(faults, kinds[len(kinds)-1].at(1+random.IntN(120)))
		if got := live(t, labConfig{}, faults...); len(got.wrong) > 0 {
			t.Errorf("seed %d, run %d: %s", seed, run, got)
		}
	}
}
