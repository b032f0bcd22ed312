package controller

import (
	"slices"

	"github.com/nephele-io/nephele/internal/cloud/inventory"
	"github.com/nephele-io/nephele/internal/cloud/plan"
	"github.com/nephele-io/nephele/internal/cloud/realize"
	"github.com/nephele-io/nephele/internal/controller/clouds"
	"github.com/nephele-io/nephele/internal/preview"
)

// Accounts shows the inventory to the realizer.
type Accounts struct {
	*inventory.Inventory
	// Others returns the VMs of accounts that other replicas work on, by region; nil if there are
	// none.
	Others func(region string) []ForeignVM
	// Yields are the regions that other members of the set work on.
	Yields *yields
}

// ForeignVM is a VM of an account that another replica works on.
type ForeignVM struct{ Account, Namespace, Name, Network string }

// Account returns what the inventory knows of an account.
func (a Accounts) Account(key string) (realize.Account, bool) {
	if !slices.Contains(a.Keys(), key) {
		return realize.Account{}, false
	}
	pending := a.Pending(key) // before the snapshots, which may only be younger than it says
	out := preview.Describe(a, key, clouds.LowererOf)
	out.Pending = pending
	if a.Others != nil {
		a.sharedElsewhere(&out)
	}
	if p, ok := a.Provider(key); ok {
		out.Provider = p
	}
	a.Yields.apply(&out)
	return out, true
}

// sharedElsewhere adds to Shared what other replicas have imported.
func (a Accounts) sharedElsewhere(out *realize.Account) {
	for region, snap := range out.Snapshots {
		networks := preview.SharedNetworks(snap)
		if len(networks) == 0 {
			continue
		}
		for _, vm := range a.Others(region) {
			if vm.Account == out.Key || !networks[vm.Network] {
				continue
			}
			if out.Shared == nil {
				out.Shared = map[plan.EntityRef]string{}
			}
			out.Shared[plan.EntityRef{Namespace: vm.Namespace, Name: vm.Name}] = vm.Network
		}
	}
}
