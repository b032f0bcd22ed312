package realize

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/nephele-io/nephele/internal/cloud/plan"
	seeds "github.com/nephele-io/nephele/internal/seed"
	"github.com/nephele-io/nephele/internal/sim/aws"
	"github.com/nephele-io/nephele/internal/sim/ec2"
	"github.com/nephele-io/nephele/internal/tier"
)

var (
	allFaults = flag.Bool("all-faults", false, "disturb every call in every way instead of a sample")
	faultSeed = flag.Uint64("fault-seed", 0, "seed of the sample of disturbed calls; 0 takes that of internal/seed")
	// With -all-faults this is a part of the matrix, for example DBInstance|DBCluster.
	faultCalls = flag.String("fault-calls", "", "regular expression of the actions whose calls are disturbed; empty disturbs all")
)

// disturbance is one way in which a call can go wrong.
type disturbance struct {
	name  string
	fault ec2.Fault
	// dies ends the realizer when the call is on its way; a new one begins with nothing but the
	// cloud.
	dies bool
}

// at returns the fault that disturbs the k-th call, for the lab.
func (d disturbance) at(k int) func(*lab) {
	return func(l *lab) {
		f := d.fault
		f.Action, f.Match = "*", l.disturbed
		if !d.dies {
			f.Nth = k
			l.server.Faults().Add(f)
			return
		}
		seen := 0
		f.Match = func(c ec2.Call) bool {
			if !l.disturbed(c) {
				return false
			}
			if seen++; seen == k {
				l.stop()
			}
			return seen == k
		}
		l.server.Faults().Add(f)
	}
}

// disturbances lists the ways, those that may end the realizer last.
func disturbances() []disturbance {
	return []disturbance{
		{name: "server error, not executed", fault: ec2.Fault{Code: "InternalError", Status: 500}},
		{name: "connection cut, not executed", fault: ec2.Fault{Drop: true}},
		{name: "unavailable for 3 calls", fault: ec2.Fault{Code: "Unavailable", Status: 503, Times: 3}},
		{name: "answer lost after execution", fault: ec2.Fault{LoseAnswer: true}},
		{name: "answers of 4 calls lost", fault: ec2.Fault{LoseAnswer: true, Times: 4}},
		{name: "throttled for 3 calls", fault: ec2.Fault{Code: "RequestLimitExceeded", Status: 503, Times: 3}},
		{name: "delayed behind later calls", fault: ec2.Fault{Delay: 30 * time.Millisecond}},
		{name: "credentials refused, 5 calls", fault: ec2.Fault{Code: "AuthFailure", Times: 5}},
		{name: "group not found", fault: ec2.Fault{Code: "InvalidGroup.NotFound"}},
		{name: "rule quota", fault: ec2.Fault{Code: "RulesPerSecurityGroupLimitExceeded"}},
		{name: "controller dies before execution", fault: ec2.Fault{Drop: true}, dies: true},
		{name: "controller dies after execution", fault: ec2.Fault{LoseAnswer: true}, dies: true},
	}
}

// witness checks every state of the cloud against what was wanted before and after the event that
// is being realized.
type witness struct {
	l *lab

	mu sync.Mutex
	// states are what was wanted before the event, because of it, and since it was changed
	// midway.
	states []verdicts
	hurry  bool // a VM is released at once, which may cut others for a moment
	found  []string
}

func (w *witness) expect(states ...verdicts) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.states = states
	w.hurry = slices.Contains(slices.Collect(maps.Values(w.l.modes)), plan.BreakGlass)
}

func (w *witness) look(m aws.Mutation) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for p, got := range w.l.actual() {
		other := slices.ContainsFunc(w.states, func(v verdicts) bool { return v[p] == got })
		switch {
		case got && !other:
			w.found = append(w.found, fmt.Sprintf("%s %v opened %s", m.Action, m.Resources, p))
		case !got && !other && !w.hurry:
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

// live runs a story under the faults.
func live(t *testing.T, s story, faults ...func(*lab)) outcome {
	t.Helper()
	l := newLab(t, s.cfg)
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
	l.accounts.account.Propagation = s.cfg.propagation
	now := l.wanted()
	w.expect(now, now)
	l.onTick = func() { w.look(aws.Mutation{Action: "time"}) }
	l.start()
	var out outcome
	for _, e := range s.events {
		reached, goOn := l.pauseAfter(e.after)
		l.passing.Lock()
		next, what := l.happen(e, w, now), ""
		l.passing.Unlock()
		if e.midway != nil && !eventually(func() bool { l.revive(); return reached() }) {
			out.wrong = append(out.wrong, fmt.Sprintf("%s: there were never %d changes", e.name, e.after))
			goOn()
			return out
		}
		if e.midway != nil {
			e.midway(l)
			then := l.wanted()
			w.expect(now, next, then)
			next = then
		}
		goOn()
		if !eventually(func() bool { l.revive(); what = l.unsettled(); return what == "" }) {
			out.wrong = append(out.wrong, fmt.Sprintf("%s: not settled: %s", e.name, what))
			return out
		}
		if s.cfg.effects.Bound > 0 {
			<-l.options.Clock.After(s.cfg.effects.Bound) // what was accepted last comes into force
		}
		if e.midway != nil && slices.Contains(slices.Collect(maps.Values(l.modes)), plan.Planned) {
			next = l.actual() // it stays as it was when it was stopped; the witness has seen every state until then
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
	out.wrong = append(out.wrong, l.unaudited()...)
	return out
}

// happen makes an event happen, and returns what is wanted from then on.
func (l *lab) happen(e event, w *witness, now verdicts) verdicts {
	if e.do != nil {
		e.do(l)
	}
	delta := l.engine.Commit()
	if e.modes != nil {
		l.modes = e.modes
	}
	l.deleted = l.deleted || e.release
	next := l.wanted()
	if slices.Contains(slices.Collect(maps.Values(l.modes)), plan.Planned) {
		next = now // every VM is planned for then, and stays as it is
	}
	w.expect(now, next)
	if len(delta.Policies)+len(delta.AddressGroups)+len(delta.AppliedToGroups) > 0 {
		l.publishDelta(delta)
	}
	if e.modes != nil || e.release {
		l.tellAccount()
	}
	return next
}

// tellAccount makes the account show the modes, and whether it is deleted.
func (l *lab) tellAccount() {
	l.since = l.options.Clock.Now()
	l.accounts.change(func(a *Account) {
		a.Modes, a.Releasing = map[plan.VMRef]VMMode{}, l.deleted
		for name, m := range l.modes {
			a.Modes[plan.VMRef{Region: l.vms[name].region, ID: l.vms[name].id}] = VMMode{m, "the test"}
		}
	})
}

// turn gives the VMs other modes.
func (l *lab) turn(modes map[string]plan.Mode) {
	l.modes = modes
	l.tellAccount()
}

// release deletes the account.
func (l *lab) release() {
	l.deleted = true
	l.tellAccount()
}

// exchange gives the account other credentials.
func (l *lab) exchange() {
	l.since = l.options.Clock.Now()
	l.accounts.change(func(a *Account) { a.Provider = l.newProvider() })
}

// pauseAfter stops the cloud after so many changes until it is to go on; 0 stands for never.
func (l *lab) pauseAfter(changes int) (reached func() bool, goOn func()) {
	if changes == 0 {
		return func() bool { return false }, func() {}
	}
	stopped, resumed := make(chan struct{}), make(chan struct{})
	seen := 0
	remove := l.server.World().OnMutation(func(aws.Mutation) {
		if seen++; seen == changes {
			close(stopped)
			<-resumed
		}
	})
	return func() bool {
			select {
			case <-stopped:
				return true
			default:
				return false
			}
		}, func() {
			close(resumed)
			remove()
		}
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
func seeded(t testing.TB) (*rand.Rand, uint64) {
	seed := *faultSeed
	if seed == 0 {
		seed = seeds.Of(t)
	}
	return rand.New(rand.NewPCG(seed, 0)), seed
}

// TestFaults disturbs single calls of several histories in every way. The end must be the same, and
// no state in between may allow what neither the old nor the new policies allow, or cut what both
// allow.
func TestFaults(t *testing.T) {
	t.Parallel()
	_, seed := seeded(t)
	ways := disturbances()
	m := &matrix{ways: ways}
	t.Run("stories", func(t *testing.T) {
		for i, s := range stories() {
			c := m.column(s.name)
			t.Run(s.name, func(t *testing.T) {
				t.Parallel()
				c.run(t, s, ways, len(stories()), rand.New(rand.NewPCG(seed, uint64(i))))
			})
		}
	})
	t.Logf("seed %d; survived of runs\n%s", seed, m)
}

// matrix counts runs by story and disturbance.
type matrix struct {
	ways    []disturbance
	columns []*column
}

// column is a story's part of the matrix.
type column struct {
	name           string
	at             int // among the stories
	calls          int
	runs, survived []int // by disturbance
}

func (m *matrix) column(name string) *column {
	c := &column{name: name, at: len(m.columns), runs: make([]int, len(m.ways)), survived: make([]int, len(m.ways))}
	m.columns = append(m.columns, c)
	return c
}

// sample returns in which ways one of some stories is disturbed, at one call each, if not every
// call is in every way. The stories take turns, so that together they are disturbed in every way,
// unless that is more than four for each.
func sample(ways, story, stories int) []int {
	out := make([]int, tier.Pick(1, min(4, max(2, (ways+stories-1)/stories)), 4))
	for i := range out {
		out[i] = (story*len(out) + i) % ways
	}
	return out
}

// TestSampleHasEveryWay: no way to go wrong is left to make matrix alone.
func TestSampleHasEveryWay(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		return // the stories that are disturbed once do not go round
	}
	for name, n := range map[string]struct{ ways, stories int }{"TestFaults": {len(disturbances()), len(stories())},
		"TestServiceFaults": {len(disturbances()), len(servedStories())}, "TestAzureFaults": {len(azureDisturbances()), len(azureStories())}} {
		seen := map[int]bool{}
		for story := range n.stories {
			for _, way := range sample(n.ways, story, n.stories) {
				seen[way] = true
			}
		}
		if len(seen) != n.ways {
			t.Errorf("%s: %d of %d ways", name, len(seen), n.ways)
		}
	}
}

// run plays each life in a test of its own, so that its lab is freed when it ends, and one can be
// played alone by its name, beside the undisturbed one: .../(undisturbed|rule_quota,_call_195)$.
func (c *column) run(t *testing.T, s story, ways []disturbance, stories int, random *rand.Rand) {
	play := func(name string, faults ...func(*lab)) (calls int, survived bool) {
		survived = t.Run(name, func(t *testing.T) {
			got := live(t, s, faults...)
			if calls = got.calls; len(got.wrong) > 0 {
				t.Errorf("%s", got)
			}
		})
		return calls, survived
	}
	all, well := play("undisturbed")
	if c.calls = all; !well || all == 0 {
		t.Fatalf("undisturbed, %d calls", all)
	}
	chosen, calls := random.Perm(len(ways)), all
	if !*allFaults {
		chosen, calls = sample(len(ways), c.at, stories), 1
	}
	for _, w := range chosen {
		d := ways[w]
		for _, k := range random.Perm(all)[:calls] {
			switch calls, well := play(fmt.Sprintf("%s, call %d", d.name, k+1), d.at(k+1)); {
			case !well:
				c.runs[w]++
			case calls > 0: // else it was not asked for
				c.runs[w]++
				c.survived[w]++
			}
		}
	}
	if *allFaults {
		t.Logf("survived of runs\n%s", &matrix{ways: ways, columns: []*column{c}})
	}
}

// String is the table, for people.
func (m *matrix) String() string {
	var b strings.Builder
	head, line, calls := "| disturbance of a call |", "|---|", "| calls of the history |"
	for _, c := range m.columns {
		head, line, calls = head+" "+c.name+" |", line+"---|", fmt.Sprintf("%s %d |", calls, c.calls)
	}
	fmt.Fprintf(&b, "%s\n%s\n%s\n", head, line, calls)
	for w, d := range m.ways {
		fmt.Fprintf(&b, "| %s |", d.name)
		for _, c := range m.columns {
			fmt.Fprintf(&b, " %d of %d |", c.survived[w], c.runs[w])
		}
		b.WriteString("\n")
	}
	return b.String()
}

// TestSlowlyVisible: what was created is not found for a while.
func TestSlowlyVisible(t *testing.T) {
	t.Parallel()
	for _, delay := range []time.Duration{time.Second, 10 * time.Second, time.Minute} {
		if got := live(t, story{"two policies", labConfig{visible: delay}, history()}); len(got.wrong) > 0 {
			t.Errorf("%s: %s", delay, got)
		}
	}
}

// TestManyFaults disturbs many calls of one history.
func TestManyFaults(t *testing.T) {
	t.Parallel()
	random, seed := seeded(t)
	runs := 2
	if *allFaults {
		runs = 200
	}
	kinds := disturbances()
	for run := range runs {
		s := stories()[run%len(stories())]
		var faults []func(*lab)
		for range 15 {
			d := kinds[random.IntN(len(kinds)-2)]
			faults = append(faults, d.at(1+random.IntN(120)))
		}
		faults = append(faults, kinds[len(kinds)-1-run%2].at(1+random.IntN(120)))
		if got := live(t, s, faults...); len(got.wrong) > 0 {
			t.Errorf("seed %d, run %d, %s: %s", seed, run, s.name, got)
		}
	}
}
