package aws

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/aws/bounds"
	"github.com/nephele-io/nephele/internal/cloud/aws/failure"
	"github.com/nephele-io/nephele/internal/cloud/aws/values"
	"github.com/nephele-io/nephele/internal/platform/recovered"
)

// prefixListWorkers bounds the prefix lists that are read at the same time.
const prefixListWorkers = 4

// Observe implements cloud.Provider. Networks and peerings are read beside the rest; VMs,
// interfaces and groups are read in this order, because then what a later answer lacks was really
// gone, and what an earlier one lacks appears in the next snapshot: an interface never names a VM's
// device that nobody has, and every group that an interface holds is there unless it was just let
// go.
func (p *Provider) Observe(ctx context.Context, s cloud.Scope) (*cloud.Snapshot, error) {
	return p.observe(ctx, s, nil)
}

// observe reads a region whole, or if a window is given what lies in the networks that it chooses.
func (p *Provider) observe(ctx context.Context, s cloud.Scope, w window) (*cloud.Snapshot, error) {
	owner, err := p.OwnerID(ctx)
	if err != nil {
		return nil, err
	}
	r := p.reader(s.Region)
	snap := &cloud.Snapshot{Scope: s, OwnerID: owner, ObservedAt: p.cfg.Now()}
	frame := func(ctx context.Context) error {
		return together(ctx,
			func(ctx context.Context) (err error) { snap.Networks, err = r.networks(ctx, nil); return err },
			func(ctx context.Context) (err error) { snap.Peerings, err = r.peerings(ctx, nil); return err })
	}
	content := func(ctx context.Context) error { return r.content(ctx, snap) }
	if w == nil {
		err = together(ctx, frame, content)
	} else if err = r.look(ctx, w, snap, frame); err == nil && !r.blind() {
		err = content(ctx)
	}
	if err == nil {
		snap.References, err = r.references(ctx, snap)
	}
	if err != nil {
		p.kept.End(s.Region, false)
		return nil, p.explainAuth(ctx, s.Region, err)
	}
	p.kept.End(s.Region, true)
	return snap, nil
}

// references asks which groups rules of other accounts refer to. Only those can be that are not
// ours, in networks with a peering to a network of another account in the same region; where there
// are none, nothing is asked.
func (r *reader) references(ctx context.Context, snap *cloud.Snapshot) (all []cloud.Reference, err error) {
	foreign := map[string]cloud.PeeringEnd{} // by peering
	near := map[string]bool{}
	for _, p := range snap.Peerings {
		for _, ends := range [][2]cloud.PeeringEnd{{p.A, p.B}, {p.B, p.A}} {
			if here, there := ends[0], ends[1]; here.Region == there.Region && here.OwnerID == snap.OwnerID && there.OwnerID != snap.OwnerID {
				foreign[p.ID], near[here.NetworkID] = there, true
			}
		}
	}
	var ids []string
	for i := range snap.Groups {
		if g := &snap.Groups[i]; near[g.NetworkID] && g.OwnerID == snap.OwnerID && g.Tags[cloud.TagCluster] == "" {
			ids = append(ids, g.ID)
		}
	}
	for chunk := range slices.Chunk(ids, filterValues) {
		found, err := r.referencesTo(ctx, chunk)
		if err != nil {
			return nil, err
		}
		for _, x := range found {
			if there, ok := foreign[awssdk.ToString(x.VpcPeeringConnectionId)]; ok {
				if all, err = hold(r, all, cloud.Reference{
					GroupID: awssdk.ToString(x.GroupId), NetworkID: awssdk.ToString(x.ReferencingVpcId), OwnerID: there.OwnerID,
					PeeringID: awssdk.ToString(x.VpcPeeringConnectionId),
				}); err != nil {
					return nil, &cloud.Error{Class: cloud.Terminal, Call: "DescribeSecurityGroupReferences", Err: err}
				}
			}
		}
	}
	slices.SortFunc(all, func(a, b cloud.Reference) int {
		return cmp.Or(cmp.Compare(a.GroupID, b.GroupID), cmp.Compare(a.PeeringID, b.PeeringID))
	})
	return all, nil
}

// content reads what lies in the networks.
func (r *reader) content(ctx context.Context, snap *cloud.Snapshot) (err error) {
	view := r.filters()
	if snap.VMs, err = r.instances(ctx, view); err != nil {
		return err
	}
	devices := map[string]int32{}
	if snap.Interfaces, err = r.interfaces(ctx, view, devices); err != nil {
		return err
	}
	attach(snap.VMs, snap.Interfaces, devices)
	// Groups of all networks, because all of them count against the quota.
	if snap.Groups, err = r.groupsAndRest(ctx, nil, func() { snap.GroupsBeside++ }); err != nil {
		return err
	}
	snap.PrefixLists, err = r.prefixLists(ctx, referredLists(snap.Groups))
	return err
}

// explainAuth tells wrong credentials from a region that does not accept them: EC2 answers
// AuthFailure in both cases, so we ask whether the same credentials are good for something else.
func (p *Provider) explainAuth(ctx context.Context, region string, err error) error {
	var e *cloud.Error
	if failure.CodeOf(err) != failure.CodeAuthFailure || region == p.cfg.Region || !errors.As(err, &e) {
		return err
	}
	out, probe := p.region(p.cfg.Region).DescribeRegions(ctx, &ec2.DescribeRegionsInput{AllRegions: awssdk.Bool(true)})
	if probe != nil {
		return err
	}
	for _, known := range out.Regions {
		if awssdk.ToString(known.RegionName) == region && awssdk.ToString(known.OptInStatus) != "not-opted-in" {
			return err
		}
	}
	return &cloud.Error{Class: e.Class, Call: e.Call, Code: e.Code, Err: fmt.Errorf("%w: %w", cloud.ErrRegionUnknown, e.Err)}
}

// together runs the functions at the same time and returns the first error, having stopped and
// awaited the others.
func together(ctx context.Context, fns ...func(context.Context) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var wg sync.WaitGroup
	var once sync.Once
	var first error
	for _, fn := range fns {
		wg.Go(func() {
			if err := recovered.Call(func() error { return fn(ctx) }); err != nil {
				once.Do(func() { first = err; cancel() })
			}
		})
	}
	wg.Wait()
	return first
}

// reader reads one region.
type reader struct {
	p      *Provider
	region string
	api    *operations
	page   *int32
	// only are the networks whose content is read; nil means all.
	only map[string]bool
}

// reader begins a reading of a region; its end is to be told to p.kept.
func (p *Provider) reader(region string) *reader {
	p.kept.Begin(region)
	return &reader{p: p, region: region, api: p.region(region), page: awssdk.Int32(p.cfg.PageSize)}
}

// pages is what the SDK's paginators have in common.
type pages[Out any] interface {
	HasMorePages() bool
	NextPage(ctx context.Context, opts ...func(*ec2.Options)) (Out, error)
}

// each hands every page to use, up to the bound of pages; the first error ends it.
func each[Out any](ctx context.Context, p *Provider, call string, pager pages[Out], use func(Out) error) error {
	for n := 0; pager.HasMorePages(); n++ {
		if bound := p.cfg.Bounds.Pages; n == bound {
			return &cloud.Error{Class: cloud.Terminal, Call: call, Err: &cloud.BoundError{What: "the listing has", Bound: int64(bound), Unit: "pages", Flag: bounds.FlagPages}}
		}
		out, err := pager.NextPage(ctx)
		if err != nil {
			return failure.Classify(call, err, p.cfg.Now())
		}
		err = use(out)
		var bound *cloud.BoundError
		switch {
		case errors.As(err, &bound):
			return &cloud.Error{Class: cloud.Terminal, Call: call, Err: bound}
		case err != nil:
			return &cloud.Error{Class: cloud.Terminal, Call: call, Err: fmt.Errorf("the answer cannot be understood: %w", err)}
		}
	}
	return nil
}

// hold appends what was read; it fails if the account has too much.
func hold[T any](r *reader, all []T, x T) ([]T, error) {
	all = append(all, x)
	return all, r.p.kept.Add(r.region, bounds.Weight(&all[len(all)-1]))
}

func filter(name string, values ...string) types.Filter {
	return types.Filter{Name: awssdk.String(name), Values: values}
}

// referencesTo asks about groups, except those that are gone by now.
func (r *reader) referencesTo(ctx context.Context, ids []string) ([]types.SecurityGroupReference, error) {
	const call = "DescribeSecurityGroupReferences"
	out, err := r.api.DescribeSecurityGroupReferences(ctx, &ec2.DescribeSecurityGroupReferencesInput{GroupId: ids})
	if err == nil {
		return out.SecurityGroupReferenceSet, nil
	}
	if err = failure.Classify(call, err, r.p.cfg.Now()); cloud.ClassOf(err) != cloud.NotFound {
		return nil, err
	}
	if len(ids) == 1 {
		return nil, nil
	}
	first, err := r.referencesTo(ctx, ids[:len(ids)/2])
	if err != nil {
		return nil, err
	}
	second, err := r.referencesTo(ctx, ids[len(ids)/2:])
	return append(first, second...), err
}

func (r *reader) networks(ctx context.Context, f []types.Filter) (all []cloud.Network, err error) {
	pager := ec2.NewDescribeVpcsPaginator(r.api, &ec2.DescribeVpcsInput{MaxResults: r.page, Filters: f})
	err = each(ctx, r.p, "DescribeVpcs", pager, func(out *ec2.DescribeVpcsOutput) error {
		for _, v := range out.Vpcs {
			n, err := values.Network(v)
			if err != nil {
				return err
			}
			if all, err = hold(r, all, n); err != nil {
				return err
			}
		}
		return nil
	})
	slices.SortFunc(all, func(a, b cloud.Network) int { return cmp.Compare(a.ID, b.ID) })
	return all, err
}

// peerings returns the active ones.
func (r *reader) peerings(ctx context.Context, f []types.Filter) (all []cloud.Peering, err error) {
	pager := ec2.NewDescribeVpcPeeringConnectionsPaginator(r.api, &ec2.DescribeVpcPeeringConnectionsInput{MaxResults: r.page, Filters: f})
	err = each(ctx, r.p, "DescribeVpcPeeringConnections", pager, func(out *ec2.DescribeVpcPeeringConnectionsOutput) error {
		for _, c := range out.VpcPeeringConnections {
			if c.Status == nil || c.Status.Code != types.VpcPeeringConnectionStateReasonCodeActive {
				continue
			}
			var err error
			if all, err = hold(r, all, cloud.Peering{
				ID: awssdk.ToString(c.VpcPeeringConnectionId), A: values.PeeringEnd(c.RequesterVpcInfo), B: values.PeeringEnd(c.AccepterVpcInfo),
			}); err != nil {
				return err
			}
		}
		return nil
	})
	slices.SortFunc(all, func(a, b cloud.Peering) int { return cmp.Compare(a.ID, b.ID) })
	return all, err
}

// instances returns the VMs that are not terminated, without their interfaces.
func (r *reader) instances(ctx context.Context, f []types.Filter) (all []cloud.VM, err error) {
	pager := ec2.NewDescribeInstancesPaginator(r.api, &ec2.DescribeInstancesInput{MaxResults: r.page, Filters: f})
	err = each(ctx, r.p, "DescribeInstances", pager, func(out *ec2.DescribeInstancesOutput) error {
		for _, res := range out.Reservations {
			for _, i := range res.Instances {
				v := values.VM(i)
				if i.State != nil && i.State.Name == types.InstanceStateNameTerminated || !r.sees(v.NetworkID) {
					continue
				}
				var err error
				if all, err = hold(r, all, v); err != nil {
					return err
				}
			}
		}
		return nil
	})
	slices.SortFunc(all, func(a, b cloud.VM) int { return cmp.Compare(a.ID, b.ID) })
	return all, err
}

// interfaces returns the interfaces and notes in devices the places of those that are attached.
func (r *reader) interfaces(ctx context.Context, f []types.Filter, devices map[string]int32) (all []cloud.Interface, err error) {
	pager := ec2.NewDescribeNetworkInterfacesPaginator(r.api, &ec2.DescribeNetworkInterfacesInput{MaxResults: r.page, Filters: f})
	err = each(ctx, r.p, "DescribeNetworkInterfaces", pager, func(out *ec2.DescribeNetworkInterfacesOutput) error {
		for _, n := range out.NetworkInterfaces {
			i, err := values.Interface(n)
			if err != nil {
				return err
			}
			if !r.sees(i.NetworkID) {
				continue
			}
			if all, err = hold(r, all, i); err != nil {
				return err
			}
			if i.VMID != "" {
				devices[i.ID] = awssdk.ToInt32(n.Attachment.DeviceIndex)
			}
		}
		return nil
	})
	slices.SortFunc(all, func(a, b cloud.Interface) int { return cmp.Compare(a.ID, b.ID) })
	return all, err
}

// attach hangs the interfaces on the VMs, in the order of their places.
func attach(vms []cloud.VM, nics []cloud.Interface, devices map[string]int32) {
	byVM := make(map[string][]string, len(vms))
	for i := range nics {
		if nics[i].VMID != "" {
			byVM[nics[i].VMID] = append(byVM[nics[i].VMID], nics[i].ID)
		}
	}
	for i := range vms {
		ids := byVM[vms[i].ID]
		slices.SortFunc(ids, func(a, b string) int { return cmp.Or(cmp.Compare(devices[a], devices[b]), cmp.Compare(a, b)) })
		vms[i].Interfaces = ids
	}
}

func (r *reader) groups(ctx context.Context, f []types.Filter) ([]cloud.Group, error) {
	return r.groupsAndRest(ctx, f, func() {})
}

// groupsAndRest reads groups, and reports each group in a network that is not seen.
func (r *reader) groupsAndRest(ctx context.Context, f []types.Filter, rest func()) (all []cloud.Group, err error) {
	pager := ec2.NewDescribeSecurityGroupsPaginator(r.api, &ec2.DescribeSecurityGroupsInput{MaxResults: r.page, Filters: f})
	err = each(ctx, r.p, "DescribeSecurityGroups", pager, func(out *ec2.DescribeSecurityGroupsOutput) error {
		for _, g := range out.SecurityGroups {
			if !r.sees(awssdk.ToString(g.VpcId)) {
				rest()
				continue
			}
			group, err := values.Group(g)
			if err != nil {
				return err
			}
			if all, err = hold(r, all, group); err != nil {
				return err
			}
		}
		return nil
	})
	slices.SortFunc(all, func(a, b cloud.Group) int { return cmp.Compare(a.ID, b.ID) })
	return all, err
}

// referredLists are the prefix lists that the groups refer to, sorted.
func referredLists(groups []cloud.Group) []string {
	var ids []string
	for i := range groups {
		for _, rule := range groups[i].Rules {
			if rule.Peer.PrefixListID != "" {
				ids = append(ids, rule.Peer.PrefixListID)
			}
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// prefixLists reads the lists of these ids with their entries. Lists that are gone are left out.
func (r *reader) prefixLists(ctx context.Context, ids []string) (all []cloud.PrefixList, err error) {
	for chunk := range slices.Chunk(ids, 100) {
		in := &ec2.DescribeManagedPrefixListsInput{
			MaxResults: awssdk.Int32(min(*r.page, 100)), Filters: []types.Filter{filter("prefix-list-id", chunk...)},
		}
		pager := ec2.NewDescribeManagedPrefixListsPaginator(r.api, in)
		err := each(ctx, r.p, "DescribeManagedPrefixLists", pager, func(out *ec2.DescribeManagedPrefixListsOutput) error {
			var err error
			for _, l := range out.PrefixLists {
				if all, err = hold(r, all, values.PrefixList(l)); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	slices.SortFunc(all, func(a, b cloud.PrefixList) int { return cmp.Compare(a.ID, b.ID) })
	return all, r.prefixListEntries(ctx, all)
}

func (r *reader) prefixListEntries(ctx context.Context, lists []cloud.PrefixList) error {
	workers := make([]func(context.Context) error, prefixListWorkers)
	for w := range workers {
		workers[w] = func(ctx context.Context) error {
			for i := w; i < len(lists); i += prefixListWorkers {
				if err := r.entries(ctx, &lists[i]); err != nil {
					return err
				}
			}
			return nil
		}
	}
	return together(ctx, workers...)
}

func (r *reader) entries(ctx context.Context, l *cloud.PrefixList) error {
	in := &ec2.GetManagedPrefixListEntriesInput{PrefixListId: awssdk.String(l.ID), MaxResults: awssdk.Int32(min(*r.page, 100))}
	pager := ec2.NewGetManagedPrefixListEntriesPaginator(r.api, in)
	err := each(ctx, r.p, "GetManagedPrefixListEntries", pager, func(out *ec2.GetManagedPrefixListEntriesOutput) error {
		for _, e := range out.Entries {
			prefix, err := values.ParsePrefix(awssdk.ToString(e.Cidr))
			if err != nil {
				return fmt.Errorf("prefix list %s: %w", l.ID, err)
			}
			l.Entries = append(l.Entries, prefix)
		}
		return r.p.kept.Add(r.region, bounds.Objects(len(out.Entries)*bounds.ListBytes)-1)
	})
	if cloud.ClassOf(err) == cloud.NotFound && err != nil {
		l.Entries = nil
		return nil
	}
	slices.SortFunc(l.Entries, values.ComparePrefix)
	return err
}
