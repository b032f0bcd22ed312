package realize

import (
	"sync/atomic"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	cloudv1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud/plan"
)

// deaf swallows what the accounts tell of while it is.
type deaf struct {
	*labAccounts
	is atomic.Bool
}

func (d *deaf) Subscribe(changed func(string)) (cancel func()) {
	return d.labAccounts.Subscribe(func(key string) {
		if !d.is.Load() {
			changed(key)
		}
	})
}

// TestHeartbeat: what nobody told of is seen at the next heartbeat: another account, a change, the
// end.
func TestHeartbeat(t *testing.T) {
	t.Parallel()
	clk := clocktesting.NewFakeClock(time.Now())
	l := newLab(t, labConfig{clock: clk})
	d := &deaf{labAccounts: l.accounts}
	l.options.Accounts, l.options.Heartbeat = d, time.Minute
	beats := func(condition func() bool) func() bool {
		return func() bool { clk.Step(10 * time.Second); return condition() }
	}
	l.engine.PutPolicy(webIn())
	l.publish()
	l.accounts.gone = true
	l.start()
	l.until("the realizer waits", clk.HasWaiters)
	d.is.Store(true)
	l.accounts.change(func(*Account) { l.accounts.gone = false })
	l.until("the account is noticed", beats(func() bool { return l.realizer.worker(labAccount) != nil }))
	l.until("it is as planned", beats(func() bool { return l.unsettled() == "" }))
	l.setModes(plan.Released, "web-1")
	l.until("web-1 is given back", beats(func() bool { return l.unsettled() == "" }))
	// The cloud has a clock of its own here; what it shows must not seem to be older than what was
	// done.
	l.accounts.change(func(a *Account) {
		for region, snap := range a.Snapshots {
			later := *snap
			later.ObservedAt = clk.Now().Add(time.Hour)
			a.Snapshots[region] = &later
		}
	})
	calls := l.count()
	seen := len(l.sink.list())
	l.until("two heartbeats go by", beats(func() bool { return len(l.sink.list()) > seen+1 }))
	if n := calls(); n > 0 {
		t.Errorf("%d calls to the cloud without a reason", n)
	}
	l.accounts.remove()
	l.until("the end is noticed", beats(func() bool { return l.realizer.worker(labAccount) == nil }))
}

// TestStatusWrittenOver: somebody writes over the status of a VM, and it is put right although
// there is no new report.
func TestStatusWrittenOver(t *testing.T) {
	t.Parallel()
	d := newDesk(t, interceptor.Funcs{})
	d.write(reportOf(nil, nil, onVM("a", 1, true, "")))
	right := d.vm()
	d.events()
	spoilt := func() bool {
		d.writer.mu.Lock()
		defer d.writer.mu.Unlock()
		return d.writer.spoilt[labAccount]
	}
	// told tells of a VM that is as it should be.
	told := func(what string, vm *cloudv1.VirtualMachine) {
		d.writer.Changed(vm)
		if spoilt() {
			t.Errorf("%s: taken for written over", what)
		}
	}
	for name, spoil := range map[string]func(*cloudv1.VirtualMachineStatus){
		"everything": func(s *cloudv1.VirtualMachineStatus) { *s = cloudv1.VirtualMachineStatus{} },
		"a phase":    func(s *cloudv1.VirtualMachineStatus) { s.Policies[0].Phase = cloudv1.PolicyPhaseFailed },
		"summary":    func(s *cloudv1.VirtualMachineStatus) { s.PolicySummary = "7/7" },
		"condition":  func(s *cloudv1.VirtualMachineStatus) { s.Conditions[0].Message = "all is well" },
	} {
		vm := d.vm()
		spoil(&vm.Status)
		if err := d.client.Status().Update(t.Context(), &vm); err != nil {
			t.Fatal(err)
		}
		d.writer.Changed(&vm)
		if !eventually(func() bool {
			if d.clock.HasWaiters() {
				d.clock.Step(correctPause)
			}
			vm = d.vm()
			now, _ := subjectOf(&vm)
			wanted, _ := subjectOf(&right)
			return d.writer.sum(now) == d.writer.sum(wanted) && !spoilt()
		}) {
			t.Errorf("%s: not put right: %+v", name, vm.Status)
		}
		told(name+", put right", &vm)
	}
	if got := d.events(); len(got) > 0 {
		t.Errorf("told again: %v", got)
	}
	vm := d.vm()
	vm.Status.CloudId = "i-9"
	told("somebody else's part of the status", &vm)
	vm.Name, vm.Status = "web-9", cloudv1.VirtualMachineStatus{}
	told("a VM of somebody else", &vm)
}
