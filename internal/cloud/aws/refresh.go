package aws

import (
	"context"
	"errors"
	"slices"

	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/aws/values"
)

// Refresh implements cloud.Refresher.
func (p *Provider) Refresh(ctx context.Context, last *cloud.Snapshot, ids []string) (*cloud.Snapshot, error) {
	if p.dearer(last, ids) {
		return p.Observe(ctx, last.Scope)
	}
	return p.refresh(ctx, last, ids, nil)
}

// refreshRounds bounds how often objects lead to further objects. A VM leads to its interfaces,
// these to groups and to other VMs that had them before; more than this only happens while somebody
// moves interfaces about, and then everything is read.
const refreshRounds = 6

// dearer reports whether it takes no fewer calls to read these objects one by one than to read the
// region whole, as far as that can be told before. Where they fit into one filter it never is.
func (p *Provider) dearer(last *cloud.Snapshot, ids []string) bool {
	if len(ids) <= filterValues {
		return false
	}
	n, distinct := map[values.IDKind]int{}, map[string]bool{}
	for _, id := range ids {
		if !distinct[id] {
			distinct[id] = true
			n[values.KindOf(id)]++
		}
	}
	page := int(p.cfg.PageSize)
	whole, parts := 0, calls(n[values.InstanceID], filterValues) // which are read with their interfaces
	for kind, all := range map[values.IDKind]int{
		values.NetworkID: len(last.Networks), values.PeeringID: len(last.Peerings), values.InstanceID: len(last.VMs),
		values.InterfaceID: len(last.Interfaces), values.GroupID: len(last.Groups),
	} {
		whole += max(1, calls(all, page))
		parts += calls(n[kind], filterValues)
	}
	return parts >= whole
}

// calls is how many calls it takes to read n objects, so many by each.
func calls(n, each int) int { return (n + each - 1) / each }

func (p *Provider) refresh(ctx context.Context, last *cloud.Snapshot, ids []string, only map[string]bool) (*cloud.Snapshot, error) {
	r := p.reader(last.Region)
	r.only = only
	f := newRefreshing(r, last)
	for _, id := range ids {
		f.want(id)
	}
	for range refreshRounds {
		if !f.pending() {
			out := f.snapshot(last)
			if err := p.kept.Renew(last.Region, out); err != nil {
				return nil, &cloud.Error{Class: cloud.Terminal, Call: "Refresh", Err: err}
			}
			return out, nil
		}
		if err := f.round(ctx); err != nil {
			p.kept.End(last.Region, false)
			return nil, p.explainAuth(ctx, last.Region, err)
		}
	}
	p.kept.End(last.Region, false)
	return nil, &cloud.Error{Class: cloud.Conflict, Call: "Refresh", Err: errors.New("what was read kept leading to more; the region must be read whole")}
}

// refreshing is a snapshot that is being brought up to date. The rule that makes the result a whole
// one: whenever an object is read, everything is read with it that says the same fact from its own
// side, until nothing new turns up.
//
//   - A VM is read with all interfaces that it has now or had in the last snapshot.
//   - An interface that is attached to another VM than in the last snapshot is read with both.
//   - A group that an interface holds and that is not known yet is read; so is a network that is
//     not known yet.
//   - A network that was not known is read with all its groups, and the groups of one that is gone
//     are gone. The prefix lists that groups refer to are read if they are new.
type refreshing struct {
	r        *reader
	networks overlay[cloud.Network]
	peerings overlay[cloud.Peering]
	vms      overlay[cloud.VM]
	nics     overlay[cloud.Interface]
	groups   overlay[cloud.Group]
	lists    overlay[cloud.PrefixList]
	// open are the ids that are still to be read, done those that were.
	open, done map[string]bool
	devices    map[string]int32
}

func newRefreshing(r *reader, last *cloud.Snapshot) *refreshing {
	return &refreshing{
		r:        r,
		networks: over(last.Networks, func(x *cloud.Network) string { return x.ID }),
		peerings: over(last.Peerings, func(x *cloud.Peering) string { return x.ID }),
		vms:      over(last.VMs, func(x *cloud.VM) string { return x.ID }),
		nics:     over(last.Interfaces, func(x *cloud.Interface) string { return x.ID }),
		groups:   over(last.Groups, func(x *cloud.Group) string { return x.ID }),
		lists:    over(last.PrefixLists, func(x *cloud.PrefixList) string { return x.ID }),
		open:     map[string]bool{}, done: map[string]bool{}, devices: map[string]int32{},
	}
}

// want asks for an object to be read, once.
func (f *refreshing) want(id string) {
	if values.KindOf(id) != values.OtherID && !f.done[id] {
		f.open[id] = true
	}
}

func (f *refreshing) pending() bool { return len(f.open) > 0 }

// take returns the ids of a kind that are to be read now, sorted.
func (f *refreshing) take(kind values.IDKind) []string {
	var ids []string
	for id := range f.open {
		if values.KindOf(id) == kind {
			ids = append(ids, id)
			f.done[id] = true
			delete(f.open, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// round reads what is open, in the order of Observe: VMs before interfaces before groups.
func (f *refreshing) round(ctx context.Context) error {
	for _, step := range []func(context.Context) error{
		f.readNetworks, f.readPeerings, f.readVMs, f.readInterfaces, f.readGroups, f.readLists,
	} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// renew reads the objects of these ids by a filter and puts them over the old ones; those that do
// not come back are gone.
func renew[T any](ctx context.Context, o *overlay[T], ids []string, name string, read func(context.Context, []types.Filter) ([]T, error)) error {
	for chunk := range slices.Chunk(ids, filterValues) {
		found, err := read(ctx, []types.Filter{filter(name, chunk...)})
		if err != nil {
			return err
		}
		for _, id := range chunk {
			o.changed[id] = nil
		}
		o.put(found)
	}
	return nil
}

func (f *refreshing) readNetworks(ctx context.Context) error {
	ids := f.take(values.NetworkID)
	fresh := slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return f.networks.get(id) != nil })
	if err := renew(ctx, &f.networks, ids, "vpc-id", f.r.networks); err != nil {
		return err
	}
	for i := range f.groups.base {
		if g := &f.groups.base[i]; slices.Contains(ids, g.NetworkID) && f.networks.get(g.NetworkID) == nil {
			f.groups.changed[g.ID] = nil
		}
	}
	for chunk := range slices.Chunk(fresh, filterValues) {
		found, err := f.r.groups(ctx, []types.Filter{filter("vpc-id", chunk...)})
		if err != nil {
			return err
		}
		f.groups.put(found)
	}
	return nil
}

func (f *refreshing) readPeerings(ctx context.Context) error {
	return renew(ctx, &f.peerings, f.take(values.PeeringID), "vpc-peering-connection-id", f.r.peerings)
}

func (f *refreshing) readVMs(ctx context.Context) error {
	ids := f.take(values.InstanceID)
	if len(ids) == 0 {
		return nil
	}
	if err := renew(ctx, &f.vms, ids, "instance-id", f.r.instances); err != nil {
		return err
	}
	for i := range f.nics.base {
		// What is asked for is done; a VM that is done now was asked for in this round or before.
		if n := &f.nics.base[i]; n.VMID != "" && f.done[n.VMID] {
			f.want(n.ID)
		}
	}
	for chunk := range slices.Chunk(ids, filterValues) {
		found, err := f.r.interfaces(ctx, []types.Filter{filter("attachment.instance-id", chunk...)}, f.devices)
		if err != nil {
			return err
		}
		for i := range found {
			n := &found[i]
			f.done[n.ID] = true
			delete(f.open, n.ID)
			f.follow(f.nics.get(n.ID), n)
		}
		f.nics.put(found)
	}
	for _, id := range ids {
		if v := f.vms.get(id); v != nil {
			f.wantNetwork(v.NetworkID)
		}
	}
	return nil
}

func (f *refreshing) readInterfaces(ctx context.Context) error {
	ids := f.take(values.InterfaceID)
	before := make([]*cloud.Interface, len(ids))
	for i, id := range ids {
		before[i] = f.nics.get(id)
	}
	read := func(ctx context.Context, by []types.Filter) ([]cloud.Interface, error) {
		return f.r.interfaces(ctx, by, f.devices)
	}
	if err := renew(ctx, &f.nics, ids, "network-interface-id", read); err != nil {
		return err
	}
	for i, id := range ids {
		f.follow(before[i], f.nics.get(id))
	}
	return nil
}

// follow asks for what an interface leads to, as it was and as it is; nil is an interface that does
// not exist.
func (f *refreshing) follow(was, is *cloud.Interface) {
	stays := was != nil && is != nil && was.VMID == is.VMID && f.vms.get(is.VMID) != nil
	for _, n := range []*cloud.Interface{was, is} {
		if n == nil {
			continue
		}
		if n.VMID != "" && !stays {
			f.want(n.VMID)
		}
		f.wantNetwork(n.NetworkID)
		for _, g := range n.GroupIDs {
			if f.groups.get(g) == nil {
				f.want(g)
			}
		}
	}
}

func (f *refreshing) wantNetwork(id string) {
	if id != "" && f.networks.get(id) == nil {
		f.want(id)
	}
}

func (f *refreshing) readGroups(ctx context.Context) error {
	ids := f.take(values.GroupID)
	if err := renew(ctx, &f.groups, ids, "group-id", f.r.groups); err != nil {
		return err
	}
	for _, id := range ids {
		if g := f.groups.get(id); g != nil {
			f.wantNetwork(g.NetworkID)
		}
	}
	return nil
}

// readLists reads the lists that are named, and unknown lists that groups refer to. Lists without
// references are left out, as in Observe.
func (f *refreshing) readLists(ctx context.Context) error {
	named := f.take(values.PrefixListID)
	if len(named) == 0 && len(f.groups.changed) == 0 {
		return nil
	}
	referred := referredLists(f.groups.merged())
	var ids []string
	for _, id := range referred {
		if slices.Contains(named, id) || f.lists.get(id) == nil && !f.done[id] {
			ids = append(ids, id)
			f.done[id] = true
		}
	}
	for _, l := range f.lists.merged() {
		if _, found := slices.BinarySearch(referred, l.ID); !found {
			f.lists.changed[l.ID] = nil
		}
	}
	found, err := f.r.prefixLists(ctx, ids)
	if err != nil {
		return err
	}
	for _, id := range ids {
		f.lists.changed[id] = nil
	}
	f.lists.put(found)
	return nil
}

// snapshot puts the parts together.
func (f *refreshing) snapshot(last *cloud.Snapshot) *cloud.Snapshot {
	out := *last
	out.Networks, out.Peerings, out.Groups = f.networks.merged(), f.peerings.merged(), f.groups.merged()
	out.Interfaces, out.PrefixLists = f.nics.merged(), f.lists.merged()
	byVM := map[string][]cloud.Interface{}
	for i := range out.Interfaces {
		if n := &out.Interfaces[i]; n.VMID != "" && f.vms.changed[n.VMID] != nil {
			byVM[n.VMID] = append(byVM[n.VMID], *n)
		}
	}
	for id, v := range f.vms.changed {
		if v == nil {
			continue
		}
		one := []cloud.VM{*v}
		attach(one, byVM[id], f.devices)
		f.vms.changed[id] = &one[0]
	}
	out.VMs = f.vms.merged()
	return &out
}
