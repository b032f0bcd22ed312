package redact

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nephele-io/nephele/api/antrea/v1beta1"
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/selection"
	"github.com/nephele-io/nephele/internal/convert"
	"github.com/nephele-io/nephele/internal/explain/input"
)

// Objects leaves out the objects that represent an entity that may not be seen. Policies, tiers and
// groups stay: what they do to entities that may be seen is shown.
func (v *View) Objects(in *input.Objects) *input.Objects {
	if v == nil {
		return in
	}
	out := *in
	out.Namespaces = keep(in.Namespaces, func(o *corev1.Namespace) bool { return v.entitiesIn(o.Name) })
	out.Nodes = keep(in.Nodes, func(*corev1.Node) bool { return v.Cluster })
	out.Leaving.Egresses = keep(in.Leaving.Egresses, func(*v1beta1.Egress) bool { return v.Cluster })
	out.Leaving.Pools = keep(in.Leaving.Pools, func(*v1beta1.ExternalIPPool) bool { return v.Cluster })
	out.TrimmedPods = keep(in.TrimmedPods, func(p *convert.TrimmedPod) bool { return v.Entity(p.Ref()) })
	out.Pods, out.Services, out.Slices = visible(v, in.Pods), visible(v, in.Services), visible(v, in.Slices)
	out.Entities, out.ExternalNodes = visible(v, in.Entities), visible(v, in.ExternalNodes)
	out.VMs, out.NativeServices, out.Interfaces = visible(v, in.VMs), visible(v, in.NativeServices), visible(v, in.Interfaces)
	out.Observed = v.accounts(in.Observed)
	return &out
}

func keep[T any](list []T, wanted func(T) bool) []T {
	return slices.DeleteFunc(slices.Clone(list), func(o T) bool { return !wanted(o) })
}

// visible keeps the objects of Namespaces that may be seen.
func visible[T interface{ GetNamespace() string }](v *View, list []T) []T {
	return keep(list, func(o T) bool { return v.entitiesIn(o.GetNamespace()) })
}

// inCloud names a machine, service or interface of a cloud.
type inCloud struct{ region, id string }

// accounts leaves of what was read of clouds what an entity represents that may be seen, and for a
// caller that may see the cluster what no entity represents.
func (v *View) accounts(accounts []input.Account) []input.Account {
	imported, shown := map[inCloud]bool{}, map[inCloud]bool{}
	note := func(name types.NamespacedName, at inCloud) bool {
		imported[at] = true
		shown[at] = shown[at] || v.entitiesIn(name.Namespace)
		return v.entitiesIn(name.Namespace)
	}
	out := make([]input.Account, len(accounts))
	for i, a := range accounts {
		out[i] = a
		out[i].VMs, out[i].Services = map[types.NamespacedName]selection.VMRef{}, map[types.NamespacedName]selection.ServiceRef{}
		for name, vm := range a.VMs {
			if note(name, inCloud{vm.Region, vm.VMID}) {
				out[i].VMs[name] = vm
			}
		}
		for name, s := range a.Services {
			if note(name, inCloud{s.Region, s.ID}) {
				out[i].Services[name] = s
			}
		}
	}
	for i, a := range accounts {
		out[i].Snapshots = make([]*cloud.Snapshot, len(a.Snapshots))
		for k, s := range a.Snapshots {
			out[i].Snapshots[k] = snapshot(s, func(ids ...string) bool {
				among := func(of map[inCloud]bool) bool {
					return slices.ContainsFunc(ids, func(id string) bool { return id != "" && of[inCloud{s.Region, id}] })
				}
				return among(shown) || v.Cluster && !among(imported)
			})
		}
	}
	return out
}

// snapshot leaves the machines, services and interfaces that are shown by any of their ids.
func snapshot(s *cloud.Snapshot, shown func(ids ...string) bool) *cloud.Snapshot {
	service := map[string]string{}
	for i := range s.Services {
		for _, id := range s.Services[i].Interfaces {
			service[id] = s.Services[i].ID
		}
	}
	out := *s
	out.VMs = keep(s.VMs, func(vm cloud.VM) bool { return shown(vm.ID) })
	out.Interfaces = keep(s.Interfaces, func(n cloud.Interface) bool { return shown(n.ID, n.VMID, service[n.ID]) })
	out.Services = keep(s.Services, func(x cloud.Service) bool { return shown(x.ID) })
	return &out
}
