package realize

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/aws"
	"github.com/nephele-io/nephele/internal/policy"
	"github.com/nephele-io/nephele/internal/sim/estatetest"
)

const (
	fleetRoles = 10
	// policyPause is how long after a policy the next one comes.
	policyPause = 3 * time.Second
)

// newFleet is an account with VMs of one VPC in some roles, and pages of answers so small that to
// read it whole takes as many calls as with ten times the VMs.
func newFleet(t *testing.T, vms int, throttle bool) *lab {
	t.Helper()
	state := estatetest.Fleet(t, home, vms, fleetRoles)
	l := newLab(t, labConfig{state: &state, throttle: throttle, pageSize: 100})
	l.findVMs([]string{home})
	return l
}

// fleetPolicy applies to one role.
func fleetPolicy(i int) policy.Policy {
	p := clusterPolicy(fmt.Sprintf("p%02d", i), 1, float64(i))
	p.AppliedTo = applied(fmt.Sprintf("r%d", i%fleetRoles))
	next := from(fmt.Sprintf("r%d", (i+1)%fleetRoles))
	p.Ingress = []policy.Rule{{Action: policy.Allow, Peers: next, Ports: ports(int32(8000 + i))}}
	if i%3 == 0 {
		p.Egress = []policy.Rule{{Action: policy.Allow, Peers: next, Ports: ports(int32(9000 + i))}}
	}
	return p
}

// oneByOne publishes a further policy whenever its time has come while operations are applied.
type oneByOne struct {
	cloud.Provider
	cloud.Refresher
	l        *lab
	policies int

	mu    sync.Mutex
	begun time.Time
	came  int
}

// comeOneByOne begins with one policy.
func comeOneByOne(l *lab, provider interface {
	cloud.Provider
	cloud.Refresher
}, policies int) *oneByOne {
	o := &oneByOne{Provider: provider, Refresher: provider, l: l, policies: policies, came: 1}
	l.accounts.account.Provider = o
	l.engine.PutPolicy(fleetPolicy(0))
	l.publish()
	return o
}

func (o *oneByOne) Apply(ctx context.Context, s cloud.Scope, op cloud.Op) (string, error) {
	o.come()
	return o.Provider.Apply(ctx, s, op)
}

func (o *oneByOne) come() {
	o.mu.Lock()
	defer o.mu.Unlock()
	now := o.l.options.Clock.Now()
	if o.begun.IsZero() {
		o.begun = now
	}
	mirror := o.l.realizer.worker(o.l.key()).mirror
	for o.came < o.policies && now.Sub(o.begun) >= time.Duration(o.came)*policyPause {
		_, before, _ := mirror.Current()
		o.l.engine.PutPolicy(fleetPolicy(o.came))
		o.l.publish()
		o.came++
		if !eventually(func() bool { _, version, err := mirror.Current(); return err == nil && version > before }) {
			o.l.Error("a policy does not reach the worker")
		}
	}
}

// settle waits until all policies have come and are in force, and returns how many plans were
// begun.
func (o *oneByOne) settle() (plans int) {
	o.l.Helper()
	o.l.until("all policies have come", func() bool {
		o.mu.Lock()
		defer o.mu.Unlock()
		return o.came == o.policies
	})
	o.l.settle()
	for _, r := range o.l.sink.list() {
		if r.Underway {
			plans++
		}
	}
	return plans
}

// TestPoliciesDuringTakeOver: policies that come one by one while thousands of calls are under way
// make the plan a new one again and again, but do not make the worker read the account whole for
// each.
func TestPoliciesDuringTakeOver(t *testing.T) {
	t.Parallel()
	l := newFleet(t, 1000, true)
	o := comeOneByOne(l, l.accounts.account.Provider.(*aws.Provider), 40)
	l.start()
	l.server.Journal().Reset()
	plans := o.settle()
	describing := 0
	for action, n := range l.server.Journal().Counts() {
		if strings.HasPrefix(action, "Describe") {
			describing += n
		}
	}
	t.Logf("%d describing calls for %d plans: %v", describing, plans, l.server.Journal().Counts())
	// A whole reading is 23 calls. There is one in the beginning, one in the end, and one every
	// half a minute of the two minutes in which policies come. After each plan what it touched
	// takes three calls, and a new group takes one. To read all after each plan would be 380.
	if plans < 10 {
		t.Errorf("only %d plans: the policies do not disturb the take-over", plans)
	}
	if describing > 240 {
		t.Errorf("%d describing calls for %d plans", describing, plans)
	}
}

// throttledMidway does some operations and then says that it was throttled, as one of several calls
// may be, and goes on saying so for longer than a plan is given.
type throttledMidway struct {
	*proofreader
	mu  sync.Mutex
	ops int
	// left is how often each of these operations is still refused.
	left map[string]int
}

func (m *throttledMidway) Apply(ctx context.Context, s cloud.Scope, op cloud.Op) (string, error) {
	throttled := &cloud.Error{Class: cloud.Throttled, Err: errors.New("one of its calls is throttled")}
	m.mu.Lock()
	defer m.mu.Unlock()
	left, begun := m.left[op.String()]
	switch {
	case begun && left > 0:
		m.left[op.String()]--
		return "", throttled
	case begun || op.Kind == cloud.OpCreateGroup:
		return m.Provider.Apply(ctx, s, op)
	}
	if m.ops++; m.ops%7 != 0 {
		return m.Provider.Apply(ctx, s, op)
	}
	m.left[op.String()] = 8
	if _, err := m.Provider.Apply(ctx, s, op); err != nil {
		return "", err
	}
	return "", throttled
}

// TestReadAfterBreakingOff: of an operation that is given up when a plan is broken off, something
// may have been done. What is read in part after that is all that there is to know.
func TestReadAfterBreakingOff(t *testing.T) {
	t.Parallel()
	l := newFleet(t, 60, false)
	m := &throttledMidway{proofreader: &proofreader{Provider: l.accounts.account.Provider, T: t}, left: map[string]int{}}
	o := comeOneByOne(l, m, 40)
	l.start()
	plans := o.settle()
	t.Logf("%d plans, %d readings of parts", plans, m.parts.Load())
	if plans < 8 || m.parts.Load() < 4 {
		t.Errorf("%d plans and %d readings of parts: not many plans are broken off", plans, m.parts.Load())
	}
}
