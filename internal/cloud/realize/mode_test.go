package realize

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan"
	"github.com/nephele-io/nephele/internal/sim/ec2"
)

// setModes gives the named VMs a mode, and all others none.
func (l *lab) setModes(m plan.Mode, names ...string) {
	l.since = l.options.Clock.Now()
	l.accounts.change(func(a *Account) {
		a.Modes = map[plan.VMRef]VMMode{}
		for _, name := range names {
			a.Modes[plan.VMRef{Region: l.vms[name].region, ID: l.vms[name].id}] = VMMode{m, "CloudEntitySelector vms/all"}
		}
	})
}

// TestModesOfALife takes VMs through all modes, in a careful order, and back.
func TestModesOfALife(t *testing.T) {
	t.Parallel()
	l := newLab(t, labConfig{})
	before := l.holdings()
	all := []string{"web-1", "web-2", "db-1", "ops-1"}
	l.setModes(plan.Planned, all...)
	l.engine.PutPolicy(webIn())
	l.publish()
	l.start()
	l.settle()
	if n := l.mutations(); n != 0 {
		t.Errorf("mode plan: %d calls that change something", n)
	}
	r, _ := l.realizer.Report(labAccount)
	if len(r.Would) < 2 || r.Would[0].Plan.Empty() || !r.Would[len(r.Would)-1].Plan.Empty() || len(r.Result.Policies[0].Suspended) != 2 {
		t.Errorf("mode plan says %+v of %+v", r.Would, r.Result.Policies)
	}
	enforced := func(when string) {
		l.setModes(plan.Enforce)
		l.settle()
		if d := compare(l.actual(), l.wanted()); d != "" {
			t.Errorf("%s: %s", when, d)
		}
	}
	enforced("after plan")
	held := l.holdings()
	l.setModes(plan.Planned, all...)
	l.engine.PutPolicy(webInEdited())
	l.publish()
	l.settle()
	if d := gocmp.Diff(held, l.holdings()); d != "" {
		t.Errorf("planned while held: changed\n%s", d)
	}
	enforced("after the edit")
	for _, m := range []plan.Mode{plan.Released, plan.BreakGlass} {
		l.setModes(m, all...)
		l.settle()
		if d := gocmp.Diff(before, l.holdings()); d != "" {
			t.Errorf("%s: not as before\n%s", m, d)
		}
		enforced("after " + string(m))
	}
}

// turn gives VMs a mode when the first operation after it was armed is on its way, and lets that go
// on once the worker has heard of it.
type turn struct {
	cloud.Provider
	l     *lab
	mode  plan.Mode
	vms   []string
	armed atomic.Bool
}

func (s *turn) Apply(ctx context.Context, scope cloud.Scope, op cloud.Op) (string, error) {
	if s.armed.CompareAndSwap(true, false) {
		s.l.setModes(s.mode, s.vms...)
		w := s.l.realizer.worker(labAccount)
		s.l.until("the worker hears of it", func() bool {
			w.work.mu.Lock()
			defer w.work.mu.Unlock()
			return w.work.current == nil
		})
	}
	return s.Provider.Apply(ctx, scope, op)
}

// newTurn puts itself before the provider of a lab that has not begun: a round that has read the
// account before the provider was exchanged would do the work with the former.
func newTurn(l *lab, m plan.Mode, vms ...string) *turn {
	s := &turn{Provider: l.accounts.account.Provider, l: l, mode: m, vms: vms}
	l.accounts.account.Provider = s
	return s
}

// TestPlannedMidway: a plan that is being applied does not go on when it is only to be planned, so
// that no interface is taken over.
func TestPlannedMidway(t *testing.T) {
	t.Parallel()
	l := newLab(t, labConfig{})
	s := newTurn(l, plan.Planned, slices.Sorted(maps.Keys(l.vms))...)
	l.publish()
	l.start()
	l.settle()
	before := l.holdings().NICs
	s.armed.Store(true)
	l.engine.PutPolicy(inside())
	l.engine.PutPolicy(dbNoShell())
	l.publish()
	l.settle()
	if d := gocmp.Diff(before, l.holdings().NICs); d != "" {
		t.Errorf("interfaces were changed:\n%s", d)
	}
}

// TestBreakGlassBeforeAll: an interface to be released waits neither for waves nor for what has to
// be claimed first.
func TestBreakGlassBeforeAll(t *testing.T) {
	t.Parallel()
	l := newLab(t, labConfig{maxPerWave: 1})
	before := l.holdings().NICs
	l.engine.PutPolicy(webIn())
	l.publish()
	l.start()
	l.settle()
	from := len(l.server.Journal().Calls(0))
	l.setModes(plan.BreakGlass, "web-1", "web-2")
	l.settle()
	if d := gocmp.Diff(before[l.vms["web-1"].nic], l.holdings().NICs[l.vms["web-1"].nic]); d != "" {
		t.Errorf("web-1 is not as before:\n%s", d)
	}
	var first []string
	for _, c := range l.server.Journal().Calls(0)[from:] {
		if len(first) > 0 || mutating(c) {
			first = append(first, c.Action)
		}
	}
	if len(first) < 2 || first[0] != "ModifyNetworkInterfaceAttribute" || first[1] != first[0] {
		t.Errorf("the first calls that change something: %v, want the interfaces of both VMs one after the other", first)
	}
}

// TestBreakGlassWhileThrottled: an operation that the cloud throttles for ever delays no interface
// that is to be released.
func TestBreakGlassWhileThrottled(t *testing.T) {
	t.Parallel()
	l := newLab(t, labConfig{})
	l.engine.PutPolicy(webIn())
	l.publish()
	l.start()
	l.settle()
	native := l.groupNamed("web")
	var throttled atomic.Int32
	rules := func(c ec2.Call) bool {
		match := strings.Contains(c.Action, "SecurityGroupIngress") || strings.Contains(c.Action, "SecurityGroupEgress") || c.Action == "ModifySecurityGroupRules"
		if match {
			throttled.Add(1)
		}
		return match
	}
	l.server.Faults().Add(ec2.Fault{Action: "*", Code: "RequestLimitExceeded", Status: 503, Times: -1, Match: rules})
	l.engine.PutPolicy(webInEdited())
	l.publish()
	l.until("a call is throttled", func() bool { return throttled.Load() > 0 })
	l.setModes(plan.BreakGlass, "web-1")
	l.until("web-1 is given back", func() bool { return slices.Contains(l.held("web-1"), native) })
}

// TestBreakGlassBreaksOff: a plan that is being applied does not go on when a VM is to be released.
func TestBreakGlassBreaksOff(t *testing.T) {
	t.Parallel()
	l := newLab(t, labConfig{})
	s := newTurn(l, plan.BreakGlass, "web-1")
	l.engine.PutPolicy(webIn())
	l.publish()
	l.start()
	l.settle()
	native := l.groupNamed("web")
	s.armed.Store(true)
	l.engine.PutPolicy(webInEdited())
	l.engine.PutPolicy(dbNoShell())
	l.publish()
	l.until("web-1 is given back", func() bool { return slices.Contains(l.held("web-1"), native) })
	l.settle()
	r, _ := l.realizer.Report(labAccount)
	web := plan.VMRef{Region: home, ID: l.vms["web-1"].id}
	if i := slices.IndexFunc(r.Result.VMs, func(vm plan.VMStatus) bool { return vm.VM == web }); i < 0 || r.Result.VMs[i].Mode != plan.BreakGlass {
		t.Errorf("VMs %+v", r.Result.VMs)
	}
}
