// Package placement says which network interfaces of clouds the entities that policies select have.
//
// It owns the places: made once from the accounts that were read and from the entities, they
// answer where an entity is, which entity an interface or a VM belongs to, and in which mode it
// is. What an interface does with a packet is for internal/cloud/trace.
//
// Everything is pure. Places may be asked by many goroutines at once. A nil *Places, of no account
// that was read, answers that nothing is known.
package placement

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan/addrset"
	"github.com/nephele-io/nephele/internal/cloud/selection"
	"github.com/nephele-io/nephele/internal/cloud/trace"
	"github.com/nephele-io/nephele/internal/explain/input"
	"github.com/nephele-io/nephele/internal/policy"
	"github.com/nephele-io/nephele/internal/reach"
)

// Places is what was read of all accounts, as it is and as it would be without us.
type Places struct {
	Now, Native *trace.Cloud
	Borders     trace.Borders
	// VMs are the machines behind ExternalEntities.
	VMs map[policy.EntityRef]selection.VMRef
	// Delegated are the blocks of addresses that belong to imported machines and interfaces.
	Delegated map[policy.EntityRef]reach.Delegation
	services  map[policy.EntityRef]selection.ServiceRef
	// entities are the entities that represent a VM, sorted.
	entities map[vmKey][]policy.EntityRef
	// points are the interfaces that entities have, with their private addresses there, and owners
	// the first entity that represents what an interface belongs to, by its ID.
	points map[policy.EntityRef][]trace.Point
	owners map[string]policy.EntityRef
}

// vmKey names a VM.
type vmKey struct{ region, id string }

// Of finds out which interfaces of accounts entities have; nil if there are no accounts. With
// partial, there may be more in the clouds than the accounts show.
//
// What is imported from an account has the interfaces of what it represents. A Pod is where its
// Node is; others are where the one interface is that has their address.
func Of(accounts []input.Account, ends map[policy.EntityRef]policy.Entity, partial bool) *Places {
	if len(accounts) == 0 {
		return nil
	}
	out := &Places{
		VMs: map[policy.EntityRef]selection.VMRef{}, services: map[policy.EntityRef]selection.ServiceRef{}, entities: map[vmKey][]policy.EntityRef{},
		points: map[policy.EntityRef][]trace.Point{}, owners: map[string]policy.EntityRef{}, Delegated: map[policy.EntityRef]reach.Delegation{},
	}
	var all []*cloud.Snapshot
	var acls []cloud.NetworkACL
	external := func(name types.NamespacedName) policy.EntityRef {
		return policy.EntityRef{Kind: policy.KindExternalEntity, Namespace: name.Namespace, Name: name.Name}
	}
	for _, a := range accounts {
		all = append(all, a.Snapshots...)
		for _, snap := range a.Snapshots {
			acls = append(acls, snap.ACLs...)
		}
		acls = append(acls, a.ACLs...)
		for name, vm := range a.VMs {
			ref := external(name)
			out.VMs[ref] = vm
			out.entities[vmKey{vm.Region, vm.VMID}] = append(out.entities[vmKey{vm.Region, vm.VMID}], ref)
		}
		for name, s := range a.Services {
			out.services[external(name)] = s
		}
	}
	for _, refs := range out.entities {
		slices.SortFunc(refs, Compare)
	}
	out.Now, out.Native, out.Borders = trace.New(all), trace.Native(all), trace.BordersOf(acls)
	if partial {
		out.Now.Partly()
		out.Native.Partly()
	}
	out.place(ends)
	return out
}

// Compare orders entities by kind, Namespace and name.
func Compare(a, b policy.EntityRef) int {
	return cmp.Or(cmp.Compare(a.Kind, b.Kind), strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
}

func (p *Places) place(ends map[policy.EntityRef]policy.Entity) {
	for ref := range ends {
		if vm, is := p.VMs[ref]; is {
			p.points[ref] = p.Now.VM(vm.Region, vm.VMID)
		} else if s, is := p.services[ref]; is {
			if p.points[ref] = p.Now.Service(s.Region, s.ID); len(p.points[ref]) == 0 {
				p.points[ref] = p.Now.PointsOf(s.ID)
			}
		}
		for _, at := range p.points[ref] {
			if len(at.Interface.Prefixes) > 0 {
				d := p.Delegated[ref]
				p.Delegated[ref] = reach.Delegation{Region: at.Region(), Blocks: d.Blocks.Union(addrset.OfPrefixes(at.Interface.Prefixes...))}
			}
			if o, owned := p.owners[at.Interface.ID]; !owned || Compare(ref, o) < 0 {
				p.owners[at.Interface.ID] = ref
			}
		}
	}
	for _, kind := range []policy.EntityKind{policy.KindNode, policy.KindExternalEntity, policy.KindPod} {
		for ref, e := range ends {
			if ref.Kind == kind && !strings.HasPrefix(e.Host, cloud.EnforcerPrefix) {
				p.placeOther(e, ends)
			}
		}
	}
}

// placeOther finds the interfaces of what no account imports, by its addresses.
func (p *Places) placeOther(e policy.Entity, ends map[policy.EntityRef]policy.Entity) {
	machine, visible := "", true
	if node, known := ends[policy.EntityRef{Kind: policy.KindNode, Name: e.Host}]; e.Kind == policy.KindPod && known && len(node.Addresses) > 0 {
		if at := p.points[node.EntityRef]; len(at) > 0 {
			machine = machineOf(at[0])
		} else {
			visible = false
		}
	}
	for _, a := range e.Addresses {
		private, public := p.Now.Holders(a)
		if len(private) == 0 {
			private = public
		}
		if machine != "" {
			private = slices.DeleteFunc(private, func(at trace.Point) bool { return machineOf(at) != machine })
		}
		if visible && len(private) == 1 {
			at := private[0]
			at.Hosted = true
			p.points[e.EntityRef] = append(p.points[e.EntityRef], at)
		}
	}
}

// machineOf is what an interface belongs to.
func machineOf(at trace.Point) string { return cmp.Or(at.Interface.VMID, at.Interface.ID) }

// PointsOf are the interfaces that an entity has, with its private addresses there.
func (p *Places) PointsOf(ref policy.EntityRef) []trace.Point {
	if p == nil {
		return nil
	}
	return p.points[ref]
}

// EntitiesOf are the entities that represent a VM, sorted.
func (p *Places) EntitiesOf(region, vm string) []policy.EntityRef {
	return p.entities[vmKey{region, vm}]
}

// OwnerOf is the first entity that represents what an interface belongs to.
func (p *Places) OwnerOf(networkInterface string) (policy.EntityRef, bool) {
	ref, owned := p.owners[networkInterface]
	return ref, owned
}

// DelegatedTo returns which entities have an address in a block that is delegated to them, in the
// region whose security groups enforce policies at the local end; see
// evaluate.Evaluator.WithDelegated. With no local end, it returns the entities that have it
// anywhere.
func (p *Places) DelegatedTo(local policy.EntityRef, a netip.Addr) (out []policy.EntityRef) {
	if p == nil || len(p.Delegated) == 0 {
		return nil
	}
	region := ""
	if local != (policy.EntityRef{}) {
		if !p.IsImported(local) || len(p.points[local]) == 0 {
			return nil
		}
		region = p.points[local][0].Region()
	}
	for ref, d := range p.Delegated {
		if (region == "" || d.Region == region) && d.Blocks.Contains(a) {
			out = append(out, ref)
		}
	}
	slices.SortFunc(out, Compare)
	return out
}

// PodAmong leaves of the owners of an address the Pod at whose machine's interface it is, if that
// is the interface of all of them.
func (p *Places) PodAmong(owners []policy.EntityRef, a netip.Addr) []policy.EntityRef {
	if p == nil {
		return owners
	}
	var pods []policy.EntityRef
	interfaces := map[string]bool{}
	for _, ref := range owners {
		i := slices.IndexFunc(p.points[ref], func(at trace.Point) bool { return at.Addr == a })
		if i < 0 {
			return owners
		}
		interfaces[p.points[ref][i].Interface.ID] = true
		if ref.Kind == policy.KindPod {
			pods = append(pods, ref)
		}
	}
	if len(pods) != 1 || len(interfaces) != 1 {
		return owners
	}
	return pods
}

// IsImported reports whether an entity represents something in an account that was read.
func (p *Places) IsImported(ref policy.EntityRef) bool {
	_, vm := p.VMs[ref]
	_, service := p.services[ref]
	return vm || service
}

// Mode is how policies are carried out on what an entity represents, and the reason, as far as that
// is known.
func (p *Places) Mode(ref policy.EntityRef) (mode, reason string, known bool) {
	if p == nil {
		return "", "", false
	}
	if vm, is := p.VMs[ref]; is {
		return vm.Mode, vm.ModeReason, true
	}
	s, is := p.services[ref]
	return s.Mode, s.ModeReason, is
}

// WithACLs returns the places with other network ACLs. They share everything else with the
// original.
func (p *Places) WithACLs(acls []cloud.NetworkACL) *Places {
	out := *p
	out.Borders = trace.BordersOf(acls)
	return &out
}
