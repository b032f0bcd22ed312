package preview

import (
	"slices"

	analysis "github.com/nephele-io/nephele/api/analysis/v1alpha1"
	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
	"github.com/nephele-io/nephele/internal/cloud/plan"
	"github.com/nephele-io/nephele/internal/kinds"
)

// narrow reports whether what is planned with is nothing but policies and groups. Then what is to
// be said about VMs that none of them touches is no part of the answer.
func (in *Inputs) narrow() bool {
	rule := func(group, kind string) bool {
		k, known := kinds.Find(group, kind)
		return known && (k.Policy != "" || k.Kind == "Group" || k.Kind == "ClusterGroup")
	}
	for _, d := range in.Documents {
		if !rule(d.Group, d.Kind) {
			return false
		}
	}
	for _, ref := range in.Gone {
		if !rule(ref.Group, ref.Kind) {
			return false
		}
	}
	return len(in.Documents)+len(in.Gone) > 0
}

// given reports whether a policy is one of those that are planned with.
func (in *Inputs) given(ref plan.PolicyRef) bool {
	for _, k := range kinds.All() {
		if k.Policy != v1beta2.NetworkPolicyType(ref.Kind) || k.Policy == "" {
			continue
		}
		if in.Documents[objectKey(k.Group, k.Kind, ref.Namespace, ref.Name)] != nil {
			return true
		}
		gone := analysis.ObjectReference{Group: k.Group, Kind: k.Kind, Namespace: ref.Namespace, Name: ref.Name}
		return slices.Contains(in.Gone, gone)
	}
	return false
}

// touched are the VMs that policies select, or that a round of planning changes.
func (p plannedAccount) touched(given func(plan.PolicyRef) bool) map[plan.VMRef]bool {
	out := map[plan.VMRef]bool{}
	interfaces := func(region string, is func(id string, groups []string) bool) {
		for i, r := range p.Regions {
			if r.Snapshot.Region != region {
				continue
			}
			for _, s := range [2]int{0, 1} {
				snapshot := r.Snapshot
				if s == 1 {
					snapshot = p.Forecast.After[i]
				}
				for k := range snapshot.Interfaces {
					if n := &snapshot.Interfaces[k]; n.VMID != "" && is(n.ID, n.GroupIDs) {
						out[plan.VMRef{Region: region, ID: n.VMID}] = true
					}
				}
			}
		}
	}
	for _, round := range p.Forecast.Rounds {
		for _, vm := range round.VMs {
			if slices.ContainsFunc(vm.Policies, func(on plan.VMPolicy) bool { return given(on.PolicyRef) }) {
				out[vm.VM] = true
			}
		}
		for _, step := range round.Plan.Steps {
			changed := step.Interfaces()
			interfaces(step.Scope.Region, func(id string, groups []string) bool {
				return slices.Contains(changed, id) || step.Op.Target != "" && slices.Contains(groups, step.Op.Target)
			})
		}
	}
	return out
}

// keepTouched leaves out what is to be said about VMs that the policies do not touch.
func (p plannedAccount) keepTouched(a *analysis.AccountPlan, given func(plan.PolicyRef) bool) {
	touched, vms := p.touched(given), map[string]bool{}
	for _, r := range p.Regions {
		for i := range r.Snapshot.VMs {
			vms[r.Snapshot.VMs[i].ID] = true
		}
	}
	elsewhere := func(n analysis.PlanNote) bool {
		id := n.Object
		if vm := p.vmOf(n.Region, id); vm != "" {
			id = vm
		}
		return vms[id] && !touched[plan.VMRef{Region: n.Region, ID: id}]
	}
	a.Notes = append([]analysis.PlanNote{}, slices.DeleteFunc(a.Notes, elsewhere)...)
	a.Warnings = append([]analysis.PlanNote{}, slices.DeleteFunc(a.Warnings, elsewhere)...)
}

// withoutTold leaves out what of the warnings is said of the policies themselves already.
func withoutTold(a *analysis.AccountPlan, told []string) {
	a.Warnings = slices.DeleteFunc(a.Warnings, func(n analysis.PlanNote) bool {
		r := WarningReason(n.Reason)
		return (r == warnOpensManagement || r == warnOpensToInternet) && slices.Contains(told, n.Reason)
	})
}
