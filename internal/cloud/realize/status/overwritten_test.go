package status

import (
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	cloudv1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
)

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
		return d.writer.of(labAccount).spoilt
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
