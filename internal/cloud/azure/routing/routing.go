// Package routing reads and writes the route tables of an Azure subscription, and whether
// interfaces take packets for other addresses.
//
// It owns the translation between Azure's routes, which lead to addresses, and the port's, which
// lead to interfaces, and the names of the routes that it writes. It promises that a route of
// another name is never changed or removed, that what has changed since it was read is not
// overwritten, and that a route is removed only while it leads where the caller says. Tables and
// interfaces are read directly: Resource Graph, which is behind, only says where there are any. It
// keeps no state; a Router may be used from any number of goroutines.
package routing

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/arm"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/network/armnetwork/v8"

	"github.com/nephele-io/nephele/internal/cloud"
)

const (
	callTable      = "Microsoft.Network/routeTables/read"
	callPut        = "Microsoft.Network/routeTables/routes/write"
	callDelete     = "Microsoft.Network/routeTables/routes/delete"
	callInterfaces = "Microsoft.Network/networkInterfaces/read"
	callTags       = "Microsoft.Resources/tags/write"

	typeTable = "Microsoft.Network/routeTables"
	typeNIC   = "Microsoft.Network/networkInterfaces"
	typeInSet = "Microsoft.Compute/virtualMachineScaleSets/virtualMachines/networkInterfaces"
)

// Clients are the clients of the SDK that are needed.
type Clients struct {
	tables     *armnetwork.RouteTablesClient
	routes     *armnetwork.RoutesClient
	interfaces *armnetwork.InterfacesClient
}

// NewClients makes the clients for a subscription.
func NewClients(subscription string, credential azcore.TokenCredential, o *arm.ClientOptions) (c Clients, err error) {
	if c.tables, err = armnetwork.NewRouteTablesClient(subscription, credential, o); err != nil {
		return c, fmt.Errorf("client of RouteTables: %w", err)
	}
	if c.routes, err = armnetwork.NewRoutesClient(subscription, credential, o); err != nil {
		return c, fmt.Errorf("client of Routes: %w", err)
	}
	if c.interfaces, err = armnetwork.NewInterfacesClient(subscription, credential, o); err != nil {
		return c, fmt.Errorf("client of Interfaces: %w", err)
	}
	return c, nil
}

// Router implements cloud.Router for a subscription.
type Router struct {
	Clients      Clients
	Subscription string
	// Where are the resource groups of a region that have interfaces, and the ids of its scale sets
	// in Uniform orchestration.
	Where func(ctx context.Context, region string) (groups, sets []string, err error)
	// Change changes an interface as it is at that moment, if change says that this is needed.
	Change func(ctx context.Context, id string, change func(armnetwork.Interface) (next armnetwork.Interface, changed bool, err error)) error
	// Tag and Untag write and remove tags of the port, and Tags reads them.
	Tag   func(ctx context.Context, ids []string, tags map[string]string) error
	Untag func(ctx context.Context, ids, names []string) error
	Tags  func(map[string]*string) map[string]string
	// Begin says for what the calls of an operation are.
	Begin func(ctx context.Context, s cloud.Scope, o cloud.Op) context.Context
	// Classify makes the port's error of one of the SDK.
	Classify func(call string, err error) error
	// Poll is how long to wait between two looks at an operation, Pages bounds the pages of a
	// listing.
	Poll  time.Duration
	Pages int
}

var _ cloud.Router = Router{}

// Name is the name of the route for a destination. No other route of a table has it.
func Name(destination netip.Prefix) string {
	return cloud.NamePrefix + strings.ReplaceAll(destination.Addr().String(), ":", "-") + "_" + fmt.Sprint(destination.Bits())
}

// place takes the id of a resource of the subscription apart.
func (r Router) place(call, id, kind string) (*arm.ResourceID, error) {
	at, err := arm.ParseResourceID(id)
	if err != nil || !strings.EqualFold(at.SubscriptionID, r.Subscription) || !strings.EqualFold(at.ResourceType.String(), kind) {
		return nil, &cloud.Error{Class: cloud.Terminal, Call: call, Err: fmt.Errorf("%s is not the id of one of the %s of the subscription %s", cloud.Words(id), kind, r.Subscription)}
	}
	return at, nil
}

// RouteTables implements cloud.Router. The ID of a table is told as it was asked for.
func (r Router) RouteTables(ctx context.Context, s cloud.Scope, ids []string) ([]cloud.RouteTable, error) {
	var out []cloud.RouteTable
	var nics []cloud.Forwarder
	for _, id := range slices.Compact(slices.Sorted(slices.Values(ids))) {
		t, err := r.table(ctx, id)
		if cloud.ClassOf(err) == cloud.NotFound || err == nil && regionName(deref(t.Location)) != regionName(s.Region) {
			continue
		}
		if err == nil && nics == nil && slices.ContainsFunc(routesOf(t), ours) {
			nics, err = r.interfacesOf(ctx, s.Region)
		}
		if err != nil {
			return nil, err
		}
		out = append(out, r.told(id, t, nics))
	}
	return out, nil
}

// table reads a table.
func (r Router) table(ctx context.Context, id string) (armnetwork.RouteTable, error) {
	at, err := r.place(callTable, id, typeTable)
	if err != nil {
		return armnetwork.RouteTable{}, err
	}
	t, err := r.Clients.tables.Get(ctx, at.ResourceGroupName, at.Name, nil)
	return t.RouteTable, r.Classify(callTable, err)
}

// regionName is the name of a region as resources have it.
func regionName(text string) string { return strings.ToLower(strings.ReplaceAll(text, " ", "")) }

func deref[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}

// routesOf are the routes of a table that have properties.
func routesOf(t armnetwork.RouteTable) (out []*armnetwork.Route) {
	if t.Properties == nil {
		return nil
	}
	for _, x := range t.Properties.Routes {
		if x != nil && x.Properties != nil {
			out = append(out, x)
		}
	}
	return out
}

// destination is what a route is about; false if that is a service tag.
func destination(x *armnetwork.Route) (netip.Prefix, bool) {
	p, err := netip.ParsePrefix(deref(x.Properties.AddressPrefix))
	return p.Masked(), err == nil
}

// hop is the address that a route leads to; invalid if it leads to something else.
func hop(x *armnetwork.Route) netip.Addr {
	if !strings.EqualFold(string(deref(x.Properties.NextHopType)), string(armnetwork.RouteNextHopTypeVirtualAppliance)) {
		return netip.Addr{}
	}
	a, _ := netip.ParseAddr(deref(x.Properties.NextHopIPAddress)) // what is none is told as something else
	return a
}

// ours reports whether a route is one that we write.
func ours(x *armnetwork.Route) bool {
	p, ok := destination(x)
	return ok && hop(x).IsValid() && strings.EqualFold(deref(x.Name), Name(p))
}

// told is a table in the words of the port.
func (r Router) told(id string, t armnetwork.RouteTable, nics []cloud.Forwarder) cloud.RouteTable {
	out := cloud.RouteTable{ID: id, NetworkID: networkOf(t)}
	if by := r.Tags(t.Tags)[cloud.TagNodeRoutes]; by != "" {
		out.Tags = map[string]string{cloud.TagNodeRoutes: by}
	}
	for _, x := range routesOf(t) {
		p, ok := destination(x)
		if !ok {
			continue
		}
		c := cloud.Route{Destination: p}
		if ours(x) {
			c.Interface = hop(x).String() // which no interface has, unless one is found
			for i := range nics {
				if nics[i].NetworkID == out.NetworkID && slices.Contains(nics[i].Addresses, hop(x)) {
					c.Interface = nics[i].ID
				}
			}
		} else {
			c.Other = cmp.Or(deref(x.Properties.NextHopIPAddress), string(deref(x.Properties.NextHopType))) + " (route " + cloud.Words(deref(x.Name)) + ")"
		}
		out.Routes = append(out.Routes, c)
	}
	return out
}

// networkOf is the key of the network whose subnets use a table; empty if none does, or subnets of
// several do: there an address names no single interface.
func networkOf(t armnetwork.RouteTable) string {
	found := ""
	if t.Properties == nil {
		return ""
	}
	for _, s := range t.Properties.Subnets {
		if s == nil {
			continue
		}
		network := networkOfSubnet(deref(s.ID))
		if found != "" && network != found {
			return ""
		}
		found = network
	}
	return found
}

func networkOfSubnet(id string) string {
	network, _, _ := strings.Cut(strings.ToLower(id), "/subnets/")
	return network
}

// Forwarders implements cloud.Router.
func (r Router) Forwarders(ctx context.Context, s cloud.Scope, addresses []netip.Addr, ids []string) ([]cloud.Forwarder, error) {
	all, err := r.interfacesOf(ctx, s.Region)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(all, func(f cloud.Forwarder) bool {
		return !slices.Contains(ids, f.ID) && !slices.ContainsFunc(f.Addresses, func(a netip.Addr) bool { return slices.Contains(addresses, a) })
	}), nil
}

// interfacesOf reads the interfaces of a region, by resource groups, because the role may be that
// of single ones.
func (r Router) interfacesOf(ctx context.Context, region string) ([]cloud.Forwarder, error) {
	region = regionName(region)
	groups, sets, err := r.Where(ctx, region)
	if err != nil {
		return nil, err
	}
	out := []cloud.Forwarder{}
	add := func(n *armnetwork.Interface, inSet bool) {
		if n != nil && (inSet || regionName(deref(n.Location)) == region) {
			out = append(out, forwarder(*n))
		}
	}
	for _, group := range groups {
		pages := r.Clients.interfaces.NewListPager(group, nil)
		if err := listed(ctx, r, pages, func(p armnetwork.InterfacesClientListResponse) {
			for _, n := range p.Value {
				add(n, false)
			}
		}); err != nil {
			return nil, err
		}
	}
	for _, set := range sets {
		at, err := arm.ParseResourceID(set)
		if err != nil {
			return nil, &cloud.Error{Class: cloud.Unavailable, Call: callInterfaces, Err: err}
		}
		pages := r.Clients.interfaces.NewListVirtualMachineScaleSetNetworkInterfacesPager(at.ResourceGroupName, at.Name, nil)
		if err := listed(ctx, r, pages, func(p armnetwork.InterfacesClientListVirtualMachineScaleSetNetworkInterfacesResponse) {
			for _, n := range p.Value {
				add(n, true)
			}
		}); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(out, func(a, b cloud.Forwarder) int { return cmp.Compare(a.ID, b.ID) })
	return out, nil
}

// listed takes the pages of a listing. What has gone meanwhile has none.
func listed[T any](ctx context.Context, r Router, pages *runtime.Pager[T], take func(T)) error {
	for n := 0; pages.More(); n++ {
		if n == r.Pages {
			return &cloud.Error{Class: cloud.Terminal, Call: callInterfaces, Err: &cloud.BoundError{What: "the answer has", Bound: int64(r.Pages), Unit: "pages", Flag: "--max-pages"}}
		}
		page, err := pages.NextPage(ctx)
		if err = r.Classify(callInterfaces, err); err != nil {
			if cloud.ClassOf(err) == cloud.NotFound {
				return nil
			}
			return err
		}
		take(page)
	}
	return nil
}

// forwarder is an interface in the words of the port. Its addresses begin with the addresses of the
// primary configuration.
func forwarder(n armnetwork.Interface) cloud.Forwarder {
	out := cloud.Forwarder{ID: strings.ToLower(deref(n.ID))}
	if n.Properties == nil {
		return out
	}
	out.Forwards = deref(n.Properties.EnableIPForwarding)
	if n.Properties.VirtualMachine != nil {
		out.VMID = strings.ToLower(deref(n.Properties.VirtualMachine.ID))
	}
	for _, c := range n.Properties.IPConfigurations {
		if c == nil || c.Properties == nil {
			continue
		}
		if c.Properties.Subnet != nil {
			out.NetworkID = networkOfSubnet(deref(c.Properties.Subnet.ID))
		}
		a, err := netip.ParseAddr(deref(c.Properties.PrivateIPAddress))
		switch {
		case err != nil: // it has none yet
		case deref(c.Properties.Primary):
			out.Addresses = slices.Insert(out.Addresses, 0, a)
		default:
			out.Addresses = append(out.Addresses, a)
		}
	}
	return out
}

// one reads an interface, be it of a scale set or not.
func (r Router) one(ctx context.Context, id string) (cloud.Forwarder, error) {
	if !inSet(id) {
		at, err := r.place(callInterfaces, id, typeNIC)
		if err != nil {
			return cloud.Forwarder{}, err
		}
		n, err := r.Clients.interfaces.Get(ctx, at.ResourceGroupName, at.Name, nil)
		return forwarder(n.Interface), r.Classify(callInterfaces, err)
	}
	at, err := r.place(callInterfaces, id, typeInSet)
	if err != nil {
		return cloud.Forwarder{}, err
	}
	n, err := r.Clients.interfaces.GetVirtualMachineScaleSetNetworkInterface(ctx, at.ResourceGroupName, at.Parent.Parent.Name, at.Parent.Name, at.Name, nil)
	return forwarder(n.Interface), r.Classify(callInterfaces, err)
}

func inSet(id string) bool {
	return strings.Contains(strings.ToLower(id), "/providers/microsoft.compute/virtualmachinescalesets/")
}

// Route implements cloud.Router.
func (r Router) Route(ctx context.Context, s cloud.Scope, op cloud.RouteOp) error {
	ctx = r.Begin(ctx, s, cloud.Op{Target: op.Subject(), Reason: op.Reason})
	switch op.Kind {
	case cloud.RouteOpForward:
		return r.forward(ctx, op)
	case cloud.RouteOpPut:
		return r.put(ctx, op)
	case cloud.RouteOpDelete:
		return r.remove(ctx, op)
	case cloud.RouteOpClaim, cloud.RouteOpUnclaim:
		return r.claim(ctx, op)
	}
	return &cloud.Error{Class: cloud.Terminal, Call: string(op.Kind), Err: fmt.Errorf("%q is not a kind of operation on routes", op.Kind)}
}

// forward sets whether an interface takes packets for other addresses. For scale sets in Uniform
// orchestration, the model of the set decides.
func (r Router) forward(ctx context.Context, op cloud.RouteOp) error {
	if inSet(op.Interface) {
		n, err := r.one(ctx, op.Interface)
		if err != nil || n.Forwards == op.Forwards || !op.Forwards {
			if cloud.ClassOf(err) == cloud.NotFound && !op.Forwards {
				return nil
			}
			return err
		}
		return &cloud.Error{Class: cloud.Terminal, Call: "Microsoft.Network/networkInterfaces/write", Err: fmt.Errorf(
			"%s is an interface of a scale set in Uniform orchestration, whose model says what it takes: set enableIPForwarding there", op.Interface)}
	}
	err := r.Change(ctx, op.Interface, func(n armnetwork.Interface) (armnetwork.Interface, bool, error) {
		if n.Properties == nil || deref(n.Properties.EnableIPForwarding) == op.Forwards {
			return n, false, nil
		}
		n.Properties.EnableIPForwarding = to.Ptr(op.Forwards)
		return n, true, nil
	})
	if !op.Forwards && cloud.ClassOf(err) == cloud.NotFound {
		return nil
	}
	return err
}

// now is the route of a table for a destination; nil if there is none.
func (r Router) now(ctx context.Context, op cloud.RouteOp) (*armnetwork.Route, error) {
	t, err := r.table(ctx, op.Table)
	if err != nil {
		return nil, err
	}
	for _, x := range routesOf(t) {
		if p, ok := destination(x); ok && p == op.Destination {
			return x, nil
		}
	}
	return nil, nil
}

func (r Router) put(ctx context.Context, op cloud.RouteOp) error {
	at, err := r.place(callPut, op.Table, typeTable)
	if err != nil {
		return err
	}
	x, err := r.now(ctx, op)
	if err != nil {
		return err
	}
	if x != nil && !ours(x) {
		return &cloud.Error{Class: cloud.Conflict, Call: callPut, Err: fmt.Errorf("%s is led elsewhere by the route %s, which is not the controller's", op.Destination, cloud.Words(deref(x.Name)))}
	}
	n, err := r.one(ctx, op.Interface)
	if err != nil {
		return err
	}
	if x != nil && slices.Contains(n.Addresses, hop(x)) {
		return nil
	}
	i := slices.IndexFunc(n.Addresses, func(a netip.Addr) bool { return a.Is4() == op.Destination.Addr().Is4() })
	if i < 0 {
		return &cloud.Error{Class: cloud.Terminal, Call: callPut, Err: fmt.Errorf("%s has no address of the family of %s, which a route could lead to", op.Interface, op.Destination)}
	}
	if x != nil {
		ctx = unchanged(ctx, x)
	}
	poller, err := r.Clients.routes.BeginCreateOrUpdate(ctx, at.ResourceGroupName, at.Name, Name(op.Destination), armnetwork.Route{Properties: &armnetwork.RoutePropertiesFormat{
		AddressPrefix: to.Ptr(op.Destination.String()), NextHopType: to.Ptr(armnetwork.RouteNextHopTypeVirtualAppliance), NextHopIPAddress: to.Ptr(n.Addresses[i].String()),
	}}, nil)
	if err == nil {
		_, err = poller.PollUntilDone(ctx, r.polling())
	}
	return r.Classify(callPut, err)
}

// unchanged has what is written refused if it is no longer as it was read.
func unchanged(ctx context.Context, x *armnetwork.Route) context.Context {
	if etag := deref(x.Etag); etag != "" {
		return policy.WithHTTPHeader(ctx, http.Header{"If-Match": []string{etag}})
	}
	return ctx
}

func (r Router) polling() *runtime.PollUntilDoneOptions {
	return &runtime.PollUntilDoneOptions{Frequency: max(r.Poll, time.Second)}
}

func (r Router) remove(ctx context.Context, op cloud.RouteOp) error {
	at, err := r.place(callDelete, op.Table, typeTable)
	if err != nil {
		return err
	}
	x, err := r.now(ctx, op)
	if cloud.ClassOf(err) == cloud.NotFound {
		return nil
	}
	if err != nil || x == nil || !ours(x) {
		return err
	}
	if hop(x).String() != op.Interface {
		n, err := r.one(ctx, op.Interface)
		switch {
		case cloud.ClassOf(err) == cloud.NotFound: // it leads nowhere
		case err != nil:
			return err
		case !slices.Contains(n.Addresses, hop(x)):
			return nil // by now it leads elsewhere
		}
	}
	ctx = unchanged(ctx, x)
	poller, err := r.Clients.routes.BeginDelete(ctx, at.ResourceGroupName, at.Name, deref(x.Name), nil)
	if err == nil {
		_, err = poller.PollUntilDone(ctx, r.polling())
	}
	if err = r.Classify(callDelete, err); cloud.ClassOf(err) == cloud.NotFound {
		return nil
	}
	return err
}

// claim looks once more, immediately before the tag is written, whether it is somebody else's.
func (r Router) claim(ctx context.Context, op cloud.RouteOp) error {
	t, err := r.table(ctx, op.Table)
	if err != nil {
		if op.Kind == cloud.RouteOpUnclaim && cloud.ClassOf(err) == cloud.NotFound {
			return nil
		}
		return err
	}
	by := r.Tags(t.Tags)[cloud.TagNodeRoutes]
	switch {
	case by != "" && by != op.Claim:
		return &cloud.Error{Class: cloud.Conflict, Call: callTags, Err: fmt.Errorf("%s is claimed by the control plane %s", op.Table, cloud.Words(by))}
	case op.Kind == cloud.RouteOpClaim && by == "":
		return r.Tag(ctx, []string{op.Table}, map[string]string{cloud.TagNodeRoutes: op.Claim})
	case op.Kind == cloud.RouteOpUnclaim && by != "":
		return r.Untag(ctx, []string{op.Table}, []string{cloud.TagNodeRoutes})
	}
	return nil
}
