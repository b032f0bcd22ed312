package preview

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	cloudv1alpha1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/accountspec"
	"github.com/nephele-io/nephele/internal/cloud/plan"
	"github.com/nephele-io/nephele/internal/cloud/realize"
	"github.com/nephele-io/nephele/internal/cloud/selection"
)

// Lowerers returns what makes the rules of a cloud; false if the cloud is not supported.
type Lowerers func(cloudv1alpha1.CloudProvider) (plan.Lowerer, bool)

// Knowledge is what is known of cloud accounts: by the inventory, or by a preview of what it would
// know.
type Knowledge interface {
	Keys() []string
	Regions(key string) []string
	Latest(key, region string) (*cloud.Snapshot, error)
	Entities(key string) map[types.NamespacedName]selection.VMRef
	Services(key string) map[types.NamespacedName]selection.ServiceRef
	Settings(key string) accountspec.Settings
	Deleting(key string) bool
}

// Describe returns what there is to plan for an account, as far as it is known.
func Describe(k Knowledge, key string, lowerers Lowerers) realize.Account {
	namespace, name, _ := strings.Cut(key, "/")
	out := realize.Account{
		Key: key, EnforcerKey: cloud.EnforcerKey(namespace, name),
		Regions: k.Regions(key), Snapshots: map[string]*cloud.Snapshot{},
		Entities: map[plan.EntityRef]plan.VMRef{}, Releasing: k.Deleting(key),
	}
	for _, region := range out.Regions {
		s, err := k.Latest(key, region)
		if s != nil {
			out.Snapshots[region] = s
		}
		if err != nil {
			if out.Unread == nil {
				out.Unread = map[string]error{}
			}
			out.Unread[region] = err
		}
	}
	for ref, vm := range k.Entities(key) {
		at := plan.VMRef{Region: vm.Region, ID: vm.VMID}
		out.Entities[plan.EntityRef{Namespace: ref.Namespace, Name: ref.Name}] = at
		if vm.Agent != "" {
			if out.Agents == nil {
				out.Agents, out.Aliases = map[plan.VMRef]realize.VMAgent{}, map[plan.EntityRef]plan.VMRef{}
			}
			out.Agents[at] = realize.VMAgent{Node: vm.Agent, Denied: vm.AgentDenied}
			out.Aliases[plan.EntityRef{Namespace: ref.Namespace, Name: vm.AgentEntity}] = at
		}
		setMode(&out, at, vm.Mode, vm.ModeReason)
	}
	for ref, service := range k.Services(key) {
		if out.Services == nil {
			out.Services = map[plan.EntityRef]plan.VMRef{}
		}
		at := plan.VMRef{Region: service.Region, ID: service.ID}
		out.Services[plan.EntityRef{Namespace: ref.Namespace, Name: ref.Name}] = at
		setMode(&out, at, service.Mode, service.ModeReason)
	}
	out.Shared = shared(k, key, out.Snapshots)
	settings := k.Settings(key)
	if l, supported := lowerers(settings.Cloud); supported {
		out.Lowerer = l
	}
	out.Propagation = settings.Propagation
	out.MaxPerWave, out.Failsafe = settings.MaxPerWave, plan.ParseFailsafe(settings.Failsafe)
	out.Brake, out.Confirm = &plan.Brake{Percent: settings.BrakePercent, Interfaces: settings.BrakeInterfaces}, settings.Confirm
	out.Force, out.ForcedBy = settings.Force, settings.ForcedBy
	out.Confirmed, out.ConfirmedProblem = plan.ParseConfirmed(settings.FormerGroups)
	out.TakeOver, out.Dependents = settings.TakeOver, plan.ParseDependents(settings.Dependents, settings.DependentGroups)
	return out
}

// setMode notes the mode of a VM or native service, if it is not simply enforced.
func setMode(a *realize.Account, at plan.VMRef, mode, reason string) {
	if mode == "" {
		return
	}
	if a.Modes == nil {
		a.Modes = map[plan.VMRef]realize.VMMode{}
	}
	a.Modes[at] = realize.VMMode{Mode: plan.Mode(mode), Reason: reason}
}

// shared returns the entities of other accounts whose VMs are in networks that these snapshots show
// too.
func shared(k Knowledge, key string, snapshots map[string]*cloud.Snapshot) map[plan.EntityRef]string {
	var out map[plan.EntityRef]string
	for region, snap := range snapshots {
		networks := SharedNetworks(snap)
		if len(networks) == 0 {
			continue
		}
		for _, other := range k.Keys() {
			theirs, _ := k.Latest(other, region)
			if other == key || theirs == nil || !slices.ContainsFunc(theirs.Networks, func(n cloud.Network) bool { return networks[n.ID] }) {
				continue
			}
			for ref, vm := range k.Entities(other) {
				i, found := slices.BinarySearchFunc(theirs.VMs, vm.VMID, func(v cloud.VM, id string) int { return strings.Compare(v.ID, id) })
				if !found || vm.Region != region || !networks[theirs.VMs[i].NetworkID] {
					continue
				}
				if out == nil {
					out = map[plan.EntityRef]string{}
				}
				out[plan.EntityRef{Namespace: ref.Namespace, Name: ref.Name}] = theirs.VMs[i].NetworkID
			}
		}
	}
	return out
}

// SharedNetworks are the networks in which several cloud accounts have interfaces, as far as one of
// them can see.
func SharedNetworks(snap *cloud.Snapshot) map[string]bool {
	out := map[string]bool{}
	for i := range snap.Networks {
		if n := &snap.Networks[i]; n.OwnerID != "" && n.OwnerID != snap.OwnerID {
			out[n.ID] = true
		}
	}
	for i := range snap.Interfaces {
		if n := &snap.Interfaces[i]; n.OwnerID != "" && n.OwnerID != snap.OwnerID {
			out[n.NetworkID] = true
		}
	}
	return out
}
