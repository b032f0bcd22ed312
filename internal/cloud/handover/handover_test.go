package handover_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/nephele-io/nephele/internal/cloud/handover"
)

var (
	both    = handover.Directions{true, true}
	ingress = handover.Directions{true, false}
	now     = time.Date(2026, 11, 23, 0, 0, 0, 0, time.UTC)
)

func well() handover.Agent {
	return handover.Agent{Told: now, Healthy: true, Connected: true, Heeds: true, Isolates: both}
}

func realized(isolates handover.Directions) handover.Policy {
	return handover.Policy{Name: "vms/web", Generation: 2, Isolates: isolates, Reported: true, Realized: 2}
}

func TestDecide(t *testing.T) {
	handed := handover.State{Handed: true, Open: both}
	pendingSince := handed
	pendingSince.Pending = now.Add(-handover.Patience - time.Second)
	for _, c := range []struct {
		name   string
		former handover.State
		agent  func(*handover.Agent)
		policy func(*handover.Policy)
		handed bool
		open   handover.Directions
		reason string
	}{
		{name: "all is well", handed: true, open: both, reason: handover.ReasonEnforcing},
		{name: "isolates in part", agent: func(a *handover.Agent) { a.Isolates = ingress }, handed: true, open: ingress, reason: handover.ReasonEnforcing},
		{name: "only drops", policy: func(p *handover.Policy) { p.Isolates = handover.Directions{} }, handed: true, reason: handover.ReasonEnforcing},
		{name: "denied", former: handed, agent: func(a *handover.Agent) { a.Denied = "two namespaces" }, reason: handover.ReasonDenied},
		{name: "never came", agent: func(a *handover.Agent) { *a = handover.Agent{} }, reason: handover.ReasonNoAgent},
		{name: "silent", former: handed, agent: func(a *handover.Agent) { a.Told = now.Add(-handover.Silence - time.Second) }, reason: handover.ReasonSilent},
		{name: "of Antrea", agent: func(a *handover.Agent) { a.Heeds = false }, reason: handover.ReasonUnsupported},
		{name: "not well", former: handed, agent: func(a *handover.Agent) { a.Healthy = false }, reason: handover.ReasonUnhealthy},
		{name: "cut off", former: handed, agent: func(a *handover.Agent) { a.Connected = false }, reason: handover.ReasonUnhealthy},
		{name: "failed", former: handed, policy: func(p *handover.Policy) { p.Failure = "layer 7" }, reason: handover.ReasonFailed},
		{name: "not reported", policy: func(p *handover.Policy) { p.Reported = false }, reason: handover.ReasonPending},
		{name: "older generation", policy: func(p *handover.Policy) { p.Realized = 1 }, reason: handover.ReasonPending},
		{name: "newer generation", policy: func(p *handover.Policy) { p.Realized = 3 }, reason: handover.ReasonPending},
		{name: "pending after it was handed", former: handed, policy: func(p *handover.Policy) { p.Realized = 1 }, handed: true, open: both, reason: handover.ReasonEnforcing},
		{name: "pending, and less was let in", former: handover.State{Handed: true, Open: ingress}, policy: func(p *handover.Policy) { p.Realized = 1 },
			handed: true, open: ingress, reason: handover.ReasonEnforcing},
		{name: "pending too long", former: pendingSince, policy: func(p *handover.Policy) { p.Realized = 1 }, reason: handover.ReasonPending},
	} {
		a, p := well(), realized(both)
		if c.agent != nil {
			c.agent(&a)
		}
		if c.policy != nil {
			c.policy(&p)
		}
		s := handover.Decide(c.former, a, []handover.Policy{p}, now)
		if s.Handed != c.handed || s.Open != c.open || s.Reason != c.reason || s.Message == "" {
			t.Errorf("%s: %+v", c.name, s)
		}
	}
}

func TestDirections(t *testing.T) {
	for _, d := range []handover.Directions{{}, ingress, {false, true}, both} {
		if got := handover.ParseDirections(d.String()); got != d {
			t.Errorf("%q is read as %v", d, got)
		}
	}
	if d := handover.ParseDirections("ingress-not,EGRESS,"); d.Any() {
		t.Errorf("read %v", d)
	}
}

// shared is the object that agent and controller agree by: a writer must have read it as it is.
type shared struct {
	version  int
	isolates handover.Directions
	lets     handover.Directions
}

// world is a VM, its agent, its cloud and a controller. Everything may take any time, and what one
// knows of another is as old as chance wants. policy is what its author wants now.
type world struct {
	r      *rand.Rand
	now    time.Time
	policy handover.Policy
	object shared

	// The agent: what it has received and enforces, and what it has read and not written yet.
	received, enforced handover.Policy
	isolates           handover.Directions
	agentRead          *shared
	reported           int64

	// The controller: what it knows of the policy, and of the object; what it has decided and
	// announced, and what the cloud does.
	known     handover.Policy
	seen      shared
	told      time.Time
	state     handover.State
	announced bool
	cloud     handover.Directions
	steps     []string
}

func (w *world) step() {
	w.now = w.now.Add(time.Duration(w.r.IntN(20)) * time.Second)
	moves := []struct {
		name string
		do   func()
	}{
		{"the policy changes", func() {
			w.policy.Generation++
			w.policy.Isolates = handover.Directions{w.r.IntN(2) == 0, w.r.IntN(2) == 0}
		}},
		{"the agent receives", func() { w.received = w.policy }},
		{"the agent enforces", w.enforce},
		{"the agent reads", func() { o := w.object; w.agentRead = &o }},
		{"the agent yields", w.yield},
		{"the agent tells", func() {
			w.object.version++
			w.object.isolates = w.isolates
			w.agentRead = nil
		}},
		{"the agent reports", func() { w.reported = w.enforced.Generation }},
		{"the controller hears of the policy", func() { w.known = w.policy }},
		{"the controller hears of the agent", func() { w.seen, w.told = w.object, w.now }},
		{"the controller decides", w.decide},
		{"the controller announces", w.announce},
		{"the cloud changes", func() {
			if w.announced || !w.widens() {
				w.cloud = w.state.Open
			}
		}},
		{"the controller takes back", func() {
			if w.cloud == w.state.Open {
				w.object.lets, w.announced = w.cloud, false
				w.object.version++
			}
		}},
		{"the controller restarts", func() { // the cloud and the object are all it has
			w.state, w.announced = handover.State{Handed: w.object.lets.Any(), Open: w.object.lets}, false
			w.seen = w.object
		}},
	}
	m := moves[w.r.IntN(len(moves))]
	w.steps = append(w.steps, m.name)
	m.do()
}

func (w *world) widens() bool { return w.state.Open.And(w.cloud) != w.state.Open }

// enforce brings in force what was received, unless that would end an isolation: see yield.
func (w *world) enforce() {
	if w.isolates.And(w.received.Isolates) == w.isolates {
		w.enforced, w.isolates = w.received, w.received.Isolates
	}
}

// yield ends an isolation if the object, as the agent has read it, does not forbid that, and is
// still so.
func (w *world) yield() {
	if w.agentRead == nil || w.agentRead.version != w.object.version || w.agentRead.lets.And(w.received.Isolates) != w.agentRead.lets {
		return
	}
	w.object.version++
	w.object.isolates = w.received.Isolates.And(w.isolates)
	w.enforced, w.isolates, w.agentRead = w.received, w.received.Isolates, nil
}

func (w *world) decide() {
	a := handover.Agent{Told: w.told, Healthy: true, Connected: true, Heeds: true, Isolates: w.seen.isolates}
	p := w.known
	p.Name, p.Reported, p.Realized = "p", w.reported > 0, w.reported
	w.state, w.announced = handover.Decide(w.state, a, []handover.Policy{p}, w.now), false
}

func (w *world) announce() {
	open := w.state.Open.Or(w.cloud).Or(w.object.lets)
	if open == w.object.lets {
		w.announced = true
		return
	}
	if w.seen.version != w.object.version || w.seen.isolates.And(open) != open {
		return
	}
	w.object.lets, w.announced = open, true
	w.object.version++
}

// TestOrder plays random histories in which messages come late and processes are slow: at no time
// does the cloud let in what the agent does not keep out. And the cloud does let in what it may,
// else the test would show nothing.
func TestOrder(t *testing.T) {
	opened := 0
	for seed := range uint64(3000) {
		w := &world{r: rand.New(rand.NewPCG(seed, 7)), now: now}
		for range 400 {
			w.step()
			if w.cloud.Any() {
				opened++
			}
			if w.cloud.And(w.isolates) != w.cloud {
				t.Fatalf("seed %d: the cloud lets in %q and the agent isolates %q:\n%s", seed, w.cloud, w.isolates, strings.Join(w.steps, "\n"))
			}
		}
	}
	if opened < 50000 {
		t.Errorf("the cloud let something in after %d steps only", opened)
	}
	t.Log(fmt.Sprint(opened, " steps with something let in"))
}
