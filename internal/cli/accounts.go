package cli

import (
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/inventory"
	"github.com/nephele-io/nephele/internal/cloud/plan"
	"github.com/nephele-io/nephele/internal/cloud/realize"
)

// accounts shows the inventory to the realizer.
type accounts struct{ *inventory.Inventory }

// Account returns what the inventory knows of an account.
func (a accounts) Account(key string) (realize.Account, bool) {
	known := false
	for _, k := range a.Keys() {
		known = known || k == key
	}
	if !known {
		return realize.Account{}, false
	}
	namespace, name, _ := cutAccount(key)
	out := realize.Account{
		Key: key, EnforcerKey: cloud.EnforcerKey(namespace, name),
		Regions: a.Regions(key), Snapshots: map[string]*cloud.Snapshot{},
		Entities: map[plan.EntityRef]plan.VMRef{}, Releasing: a.Deleting(key),
	}
	if p, ok := a.Provider(key); ok {
		out.Provider = p
	}
	for _, region := range out.Regions {
		if s, _ := a.Latest(key, region); s != nil {
			out.Snapshots[region] = s
		}
	}
	for ref, vm := range a.Entities(key) {
		at := plan.VMRef{Region: vm.Region, ID: vm.VMID}
		out.Entities[plan.EntityRef{Namespace: ref.Namespace, Name: ref.Name}] = at
		if vm.Mode != "" {
			if out.Modes == nil {
				out.Modes = map[plan.VMRef]realize.VMMode{}
			}
			out.Modes[at] = realize.VMMode{Mode: plan.Mode(vm.Mode), Reason: vm.ModeReason}
		}
	}
	settings := a.Settings(key)
	out.MaxPerWave, out.Failsafe = settings.MaxPerWave, plan.ParseFailsafe(settings.Failsafe)
	return out, true
}
