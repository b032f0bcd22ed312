package status

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	cloudv1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan"
	"github.com/nephele-io/nephele/internal/cloud/plan/render"
)

// writePolicies posts the statuses of all policies of a report.
func (s *Writer) writePolicies(ctx context.Context, a *accountStatus, r Report) error {
	modes, others := map[plan.VMRef]plan.Mode{}, map[plan.VMRef]bool{}
	for i := range r.Result.VMs {
		vm := &r.Result.VMs[i]
		modes[vm.VM], others[vm.VM] = vm.Mode, !vm.IsVM()
	}
	would := wouldBe(r, modes)
	before := a.told.suspended
	now := map[string]bool{}
	a.told.suspended = now
	var errs []error
	for _, p := range r.Result.Policies {
		node, known := nodeStatus(r, p, modes, others, would[p.UID])
		if !known && before[p.UID] {
			node, known = retraction(r), true
		}
		if !known {
			continue
		}
		now[p.UID] = len(p.Pending) == 0 && len(p.Suspended) > 0
		err := s.Policies.Report(ctx, &v1beta2.NetworkPolicyStatus{
			ObjectMeta: metav1.ObjectMeta{Name: p.UID}, Nodes: []v1beta2.NetworkPolicyNodeStatus{node},
		})
		if err != nil {
			now[p.UID] = now[p.UID] || before[p.UID]
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// nodeStatus is what to post of a policy once it is decided: realized everywhere, or not enforced
// somewhere and pending nowhere; false before.
//
// That a mode does not let it be enforced is reported as a failure: of what an Antrea Controller
// knows, only that tells that it is not in force, that waiting does not change it, and why. A
// controller of ours knows from the numbers where it is only planned for, and where it is
// suspended. Others are those that are no VMs.
func nodeStatus(r Report, p plan.PolicyStatus, modes map[plan.VMRef]plan.Mode, others map[plan.VMRef]bool, would wouldBecome) (v1beta2.NetworkPolicyNodeStatus, bool) {
	node := v1beta2.NetworkPolicyNodeStatus{NodeName: r.EnforcerKey, Generation: p.Generation}
	if len(p.Pending) > 0 && r.Err == nil {
		return node, false
	}
	vms := len(p.Failed) + len(p.Realized) + len(p.Pending) + len(p.Suspended)
	all := vms + len(p.Unguarded)
	var planned, suspended []plan.VMRef
	for _, vm := range p.Suspended {
		if modes[vm] == plan.Planned {
			planned = append(planned, vm)
		} else {
			suspended = append(suspended, vm)
		}
	}
	noun := "VM"
	if onOthers(p, others) {
		noun = "workload"
	}
	node.Workloads, node.WorkloadsRealized, node.WorkloadsPlanned, node.WorkloadsSuspended = int32(all), int32(len(p.Realized)), int32(len(planned)), int32(len(suspended))
	var why []string
	if len(suspended) > 0 { // first, for it is short, and long messages are cut
		why = append(why, fmt.Sprintf("not enforced on %d of %d %ss: %s", len(suspended), vms, noun, countModes(suspended, modes)))
	}
	if len(planned) > 0 {
		why = append(why, would.text(len(planned), noun))
	}
	switch {
	case len(p.Failed) > 0:
		why = append(why, fmt.Sprintf("refused on %d of %d %ss: %s", len(p.Failed), vms, noun, p.Failed[0].Message))
	case len(p.Pending) > 0:
		why = append(why, cloud.FailureText(r.Err))
	}
	if len(p.Unguarded) > 0 {
		why = append(why, render.Unguarded(p.Unguarded))
	}
	node.RealizationFailure, node.Message = len(why) > 0, strings.Join(why, "; ")
	return node, true
}

// onOthers reports whether a policy is about something besides VMs.
func onOthers(p plan.PolicyStatus, others map[plan.VMRef]bool) bool {
	is := func(vm plan.VMRef) bool { return others[vm] }
	return slices.ContainsFunc(p.Realized, is) || slices.ContainsFunc(p.Pending, is) || slices.ContainsFunc(p.Suspended, is) ||
		slices.ContainsFunc(p.Failed, func(f plan.FailedVM) bool { return others[f.VM] })
}

// countModes says how many of the VMs are in which mode.
func countModes(vms []plan.VMRef, modes map[plan.VMRef]plan.Mode) string {
	count := map[plan.Mode]int{}
	for _, vm := range vms {
		count[modes[vm]]++
	}
	var parts []string
	for _, m := range slices.Sorted(maps.Keys(count)) {
		if m == plan.Braked {
			parts = append(parts, fmt.Sprintf("%d waiting for a confirmation, see the condition %s of the account", count[m], cloudv1.ConditionBraked))
			continue
		}
		parts = append(parts, fmt.Sprintf("%d in mode %s", count[m], m))
	}
	return strings.Join(parts, ", ")
}

// retraction takes back what was reported of a policy: it is about no generation that there is, so
// the policy is being realized.
func retraction(r Report) v1beta2.NetworkPolicyNodeStatus {
	return v1beta2.NetworkPolicyNodeStatus{NodeName: r.EnforcerKey}
}
