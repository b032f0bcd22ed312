package explain

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/selection"
	"github.com/nephele-io/nephele/internal/convert"
	"github.com/nephele-io/nephele/internal/policy"
)

// For returns the computation as somebody may see it: without whoever he may not see, whose
// addresses are then like any others. Whether they are members of the groups that policies name is
// left open: it would tell him who has an address, with which labels. It shares what it can with
// the original, and is the same whatever there is that he may not see.
func (c *Computation) For(v View) *Computation {
	out := *c
	out.view = &v
	out.Ends = map[policy.EntityRef]policy.Entity{}
	for ref, e := range c.Ends {
		if out.sees(ref) {
			out.Ends[ref] = e
		}
	}
	out.Objects = c.Objects.seen(&out)
	out.Listing = out.seenListing(c.Listing)
	if c.clouds != nil {
		out.clouds = cloudsOf(out.Objects.Observed)
		if out.clouds != nil {
			out.clouds.now.Partly()
			out.clouds.native.Partly()
			out.clouds.place(out.Ends)
		}
	}
	out.vmObjects, out.serviceObjects, out.interfaceObjects = byName(out.Objects.VMs), byName(out.Objects.NativeServices), byName(out.Objects.Interfaces)
	return &out
}

// seenListing leaves out the members of groups that may not be seen, and marks the groups that may
// have some.
func (c *Computation) seenListing(l *policy.Listing) *policy.Listing {
	groups := func(list []policy.ComputedGroup) []policy.ComputedGroup {
		out := make([]policy.ComputedGroup, len(list))
		for i, g := range list {
			out[i] = g
			out[i].Members = slices.DeleteFunc(slices.Clone(g.Members), func(m *policy.Member) bool { return !c.sees(m.EntityRef) })
			out[i].Unseen = g.Within == nil || slices.ContainsFunc(g.Within, func(n string) bool { return !c.seesNamespace(n) })
		}
		return out
	}
	out := &policy.Listing{AddressGroups: groups(l.AddressGroups), AppliedToGroups: groups(l.AppliedToGroups)}
	elsewhere := map[string]bool{}
	for _, g := range out.AppliedToGroups {
		elsewhere[g.Name] = g.Unseen && len(g.Members) == 0
	}
	for _, p := range l.Policies {
		if seen := here(p.ComputedPolicy, elsewhere); len(seen.Rules) > 0 {
			out.Policies = append(out.Policies, policy.PolicySpan{ComputedPolicy: seen, Span: p.Span})
		}
	}
	return out
}

// here leaves of a policy the rules that apply to somebody in sight, or to nobody at all: of which
// Namespaces there are rules is not told.
func here(p *policy.ComputedPolicy, elsewhere map[string]bool) *policy.ComputedPolicy {
	out := *p
	out.Rules = keep(p.Rules, func(r policy.ComputedRule) bool {
		groups := r.AppliedToGroups
		if len(groups) == 0 {
			groups = p.AppliedToGroups
		}
		return len(groups) == 0 || slices.ContainsFunc(groups, func(g string) bool { return !elsewhere[g] })
	})
	return &out
}

// seesNamespace reports whether everybody in a Namespace may be seen, or with an empty name every
// Node.
func (c *Computation) seesNamespace(name string) bool {
	return c.sees(policy.EntityRef{Kind: policy.KindNode, Namespace: name, Name: "any"})
}

// seen are the objects without those that stand for somebody who may not be seen. Policies, tiers
// and groups stay: what they do to those who are seen is told.
func (in *Objects) seen(c *Computation) *Objects {
	out := *in
	out.Namespaces = keep(in.Namespaces, func(o *corev1.Namespace) bool { return c.seesNamespace(o.Name) })
	out.Nodes = keep(in.Nodes, func(*corev1.Node) bool { return c.seesNamespace("") })
	out.TrimmedPods = keep(in.TrimmedPods, func(p *convert.TrimmedPod) bool { return c.sees(p.Ref()) })
	out.Pods, out.Services, out.Slices = inSight(c, in.Pods), inSight(c, in.Services), inSight(c, in.Slices)
	out.Entities, out.ExternalNodes = inSight(c, in.Entities), inSight(c, in.ExternalNodes)
	out.VMs, out.NativeServices, out.Interfaces = inSight(c, in.VMs), inSight(c, in.NativeServices), inSight(c, in.Interfaces)
	out.Observed = c.seenClouds(in.Observed)
	return &out
}

func keep[T any](list []T, wanted func(T) bool) []T {
	return slices.DeleteFunc(slices.Clone(list), func(o T) bool { return !wanted(o) })
}

// inSight keeps the objects of Namespaces that may be seen.
func inSight[T interface{ GetNamespace() string }](c *Computation, list []T) []T {
	return keep(list, func(o T) bool { return c.seesNamespace(o.GetNamespace()) })
}

// inCloud names a machine, service or interface of a cloud.
type inCloud struct{ region, id string }

// seenClouds leaves of what was read of clouds that which somebody stands for who may be seen, and
// for those who see all Nodes what nobody stands for.
func (c *Computation) seenClouds(accounts []ObservedAccount) []ObservedAccount {
	imported, seen := map[inCloud]bool{}, map[inCloud]bool{}
	notes := func(name types.NamespacedName, at inCloud) bool {
		imported[at] = true
		seen[at] = seen[at] || c.seesNamespace(name.Namespace)
		return c.seesNamespace(name.Namespace)
	}
	out := make([]ObservedAccount, len(accounts))
	for i, a := range accounts {
		out[i] = a
		out[i].VMs, out[i].Services = map[types.NamespacedName]selection.VMRef{}, map[types.NamespacedName]selection.ServiceRef{}
		for name, vm := range a.VMs {
			if notes(name, inCloud{vm.Region, vm.VMID}) {
				out[i].VMs[name] = vm
			}
		}
		for name, s := range a.Services {
			if notes(name, inCloud{s.Region, s.ID}) {
				out[i].Services[name] = s
			}
		}
	}
	for i, a := range accounts {
		out[i].Snapshots = make([]*cloud.Snapshot, len(a.Snapshots))
		for k, s := range a.Snapshots {
			out[i].Snapshots[k] = seenSnapshot(s, func(ids ...string) bool {
				here := func(of map[inCloud]bool) bool {
					return slices.ContainsFunc(ids, func(id string) bool { return id != "" && of[inCloud{s.Region, id}] })
				}
				return here(seen) || c.view.Cluster && !here(imported)
			})
		}
	}
	return out
}

// seenSnapshot leaves the machines, services and interfaces that are visible by any of their ids.
func seenSnapshot(s *cloud.Snapshot, visible func(ids ...string) bool) *cloud.Snapshot {
	owner := map[string]string{}
	for i := range s.Services {
		for _, id := range s.Services[i].Interfaces {
			owner[id] = s.Services[i].ID
		}
	}
	out := *s
	out.VMs = keep(s.VMs, func(vm cloud.VM) bool { return visible(vm.ID) })
	out.Interfaces = keep(s.Interfaces, func(n cloud.Interface) bool { return visible(n.ID, n.VMID, owner[n.ID]) })
	out.Services = keep(s.Services, func(v cloud.Service) bool { return visible(v.ID) })
	return &out
}
