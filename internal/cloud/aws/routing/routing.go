// Package routing reads and writes the route tables of a VPC, and whether interfaces take packets
// for other addresses, by the API of EC2.
//
// It owns the translation between the SDK's routes and the port's. It promises that a route to
// anything but an interface is never changed or removed, and that a route is removed only while it
// leads where the caller says. It keeps no state; a Router may be used from any number of
// goroutines.
package routing

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/nephele-io/nephele/internal/cloud"
)

// Operation is one operation of a client of EC2.
type Operation[In, Out any] func(context.Context, *In, ...func(*ec2.Options)) (*Out, error)

// Calls are the operations of EC2 in one region that are needed.
type Calls struct {
	CreateRoute                     Operation[ec2.CreateRouteInput, ec2.CreateRouteOutput]
	CreateTags                      Operation[ec2.CreateTagsInput, ec2.CreateTagsOutput]
	DeleteRoute                     Operation[ec2.DeleteRouteInput, ec2.DeleteRouteOutput]
	DeleteTags                      Operation[ec2.DeleteTagsInput, ec2.DeleteTagsOutput]
	DescribeNetworkInterfaces       Operation[ec2.DescribeNetworkInterfacesInput, ec2.DescribeNetworkInterfacesOutput]
	DescribeRouteTables             Operation[ec2.DescribeRouteTablesInput, ec2.DescribeRouteTablesOutput]
	ModifyNetworkInterfaceAttribute Operation[ec2.ModifyNetworkInterfaceAttributeInput, ec2.ModifyNetworkInterfaceAttributeOutput]
	ReplaceRoute                    Operation[ec2.ReplaceRouteInput, ec2.ReplaceRouteOutput]
}

// Router works on one region.
type Router struct {
	Calls Calls
	// Classify makes the port's error of one of the SDK.
	Classify func(call string, err error) error
	// Pages bounds the pages of a listing.
	Pages int
}

// most is how many values EC2 takes in a filter.
const most = 200

// Tables returns the route tables that have one of the ids.
func (r Router) Tables(ctx context.Context, ids []string) (out []cloud.RouteTable, err error) {
	const name = "DescribeRouteTables"
	for chunk := range slices.Chunk(ids, most) {
		// By a filter: an id that is not there is no error then.
		in := &ec2.DescribeRouteTablesInput{Filters: []types.Filter{{Name: awssdk.String("route-table-id"), Values: chunk}}}
		err := r.pages(name, func() (*string, error) {
			page, err := r.Calls.DescribeRouteTables(ctx, in)
			if err != nil {
				return nil, err
			}
			for i := range page.RouteTables {
				t, err := table(&page.RouteTables[i])
				if err != nil {
					return nil, &cloud.Error{Class: cloud.Terminal, Call: name, Err: err}
				}
				out = append(out, t)
			}
			in.NextToken = page.NextToken
			return page.NextToken, nil
		})
		if err != nil {
			return nil, err
		}
	}
	slices.SortFunc(out, func(a, b cloud.RouteTable) int { return cmp.Compare(a.ID, b.ID) })
	return out, nil
}

// pages calls next until it returns no token.
func (r Router) pages(name string, next func() (*string, error)) error {
	for range r.Pages {
		token, err := next()
		if err != nil {
			return r.Classify(name, err)
		}
		if awssdk.ToString(token) == "" {
			return nil
		}
	}
	return &cloud.Error{Class: cloud.Terminal, Call: name, Err: fmt.Errorf("the listing has more than %d pages", r.Pages)}
}

func table(t *types.RouteTable) (cloud.RouteTable, error) {
	out := cloud.RouteTable{ID: awssdk.ToString(t.RouteTableId), NetworkID: awssdk.ToString(t.VpcId)}
	for _, tag := range t.Tags {
		if awssdk.ToString(tag.Key) == cloud.TagNodeRoutes {
			out.Tags = map[string]string{cloud.TagNodeRoutes: awssdk.ToString(tag.Value)}
		}
	}
	for i := range t.Routes {
		route := &t.Routes[i]
		text := cmp.Or(awssdk.ToString(route.DestinationCidrBlock), awssdk.ToString(route.DestinationIpv6CidrBlock))
		if text == "" || awssdk.ToString(route.GatewayId) == "local" {
			continue // a prefix list, or the network itself
		}
		to, err := netip.ParsePrefix(text)
		if err != nil {
			return out, fmt.Errorf("route table %s: %w", out.ID, err)
		}
		c := cloud.Route{Destination: to.Masked(), Interface: awssdk.ToString(route.NetworkInterfaceId)}
		if c.Interface == "" {
			c.Other = other(route)
		}
		out.Routes = append(out.Routes, c)
	}
	return out, nil
}

// other is what a route leads to that does not lead to an interface.
func other(r *types.Route) string {
	for _, id := range []*string{
		r.GatewayId, r.NatGatewayId, r.TransitGatewayId, r.VpcPeeringConnectionId, r.EgressOnlyInternetGatewayId, r.LocalGatewayId, r.CarrierGatewayId,
		r.CoreNetworkArn, r.InstanceId,
	} {
		if s := awssdk.ToString(id); s != "" {
			return s
		}
	}
	return "nothing that is known here"
}

// Forwarders returns the interfaces that have one of the addresses or one of the ids.
func (r Router) Forwarders(ctx context.Context, addresses []netip.Addr, ids []string) ([]cloud.Forwarder, error) {
	found := map[string]cloud.Forwarder{}
	values := map[string][]string{"network-interface-id": ids}
	for _, a := range addresses {
		name := "addresses.private-ip-address"
		if a.Is6() {
			name = "ipv6-addresses.ipv6-address"
		}
		values[name] = append(values[name], a.String())
	}
	for name, all := range values {
		for chunk := range slices.Chunk(all, most) {
			if err := r.interfaces(ctx, types.Filter{Name: awssdk.String(name), Values: chunk}, found); err != nil {
				return nil, err
			}
		}
	}
	out := make([]cloud.Forwarder, 0, len(found))
	for _, f := range found {
		out = append(out, f)
	}
	slices.SortFunc(out, func(a, b cloud.Forwarder) int { return cmp.Compare(a.ID, b.ID) })
	return out, nil
}

func (r Router) interfaces(ctx context.Context, f types.Filter, into map[string]cloud.Forwarder) error {
	const name = "DescribeNetworkInterfaces"
	in := &ec2.DescribeNetworkInterfacesInput{Filters: []types.Filter{f}}
	return r.pages(name, func() (*string, error) {
		page, err := r.Calls.DescribeNetworkInterfaces(ctx, in)
		if err != nil {
			return nil, err
		}
		for i := range page.NetworkInterfaces {
			n, err := forwarder(&page.NetworkInterfaces[i])
			if err != nil {
				return nil, &cloud.Error{Class: cloud.Terminal, Call: name, Err: err}
			}
			into[n.ID] = n
		}
		in.NextToken = page.NextToken
		return page.NextToken, nil
	})
}

func forwarder(n *types.NetworkInterface) (cloud.Forwarder, error) {
	out := cloud.Forwarder{
		ID: awssdk.ToString(n.NetworkInterfaceId), NetworkID: awssdk.ToString(n.VpcId),
		// What the cloud does not say is checked.
		Forwards: n.SourceDestCheck != nil && !*n.SourceDestCheck,
	}
	if n.Attachment != nil {
		out.VMID = awssdk.ToString(n.Attachment.InstanceId)
	}
	var texts []string
	for _, a := range n.PrivateIpAddresses {
		texts = append(texts, awssdk.ToString(a.PrivateIpAddress))
	}
	for _, a := range n.Ipv6Addresses {
		texts = append(texts, awssdk.ToString(a.Ipv6Address))
	}
	for _, text := range texts {
		a, err := netip.ParseAddr(text)
		if err != nil {
			return out, fmt.Errorf("interface %s: %w", out.ID, err)
		}
		out.Addresses = append(out.Addresses, a)
	}
	return out, nil
}

// Do does one operation.
func (r Router) Do(ctx context.Context, op cloud.RouteOp) error {
	switch op.Kind {
	case cloud.RouteOpForward:
		_, err := r.Calls.ModifyNetworkInterfaceAttribute(ctx, &ec2.ModifyNetworkInterfaceAttributeInput{
			NetworkInterfaceId: awssdk.String(op.Interface), SourceDestCheck: &types.AttributeBooleanValue{Value: awssdk.Bool(!op.Forwards)},
		})
		err = r.Classify("ModifyNetworkInterfaceAttribute", err)
		if !op.Forwards && cloud.ClassOf(err) == cloud.NotFound {
			return nil
		}
		return err
	case cloud.RouteOpPut:
		return r.put(ctx, op)
	case cloud.RouteOpDelete:
		return r.remove(ctx, op)
	case cloud.RouteOpClaim, cloud.RouteOpUnclaim:
		return r.claim(ctx, op)
	}
	return &cloud.Error{Class: cloud.Terminal, Call: string(op.Kind), Err: fmt.Errorf("%q is not a kind of operation on routes", op.Kind)}
}

// now is what a table has for a destination; false if it has no such route.
func (r Router) now(ctx context.Context, op cloud.RouteOp) (cloud.RouteTable, cloud.Route, bool, error) {
	tables, err := r.Tables(ctx, []string{op.Table})
	if err != nil {
		return cloud.RouteTable{}, cloud.Route{}, false, err
	}
	if len(tables) == 0 {
		return cloud.RouteTable{}, cloud.Route{}, false, &cloud.Error{Class: cloud.NotFound, Call: string(op.Kind), Err: fmt.Errorf("there is no route table %s", op.Table)}
	}
	for _, route := range tables[0].Routes {
		if route.Destination == op.Destination {
			return tables[0], route, true, nil
		}
	}
	return tables[0], cloud.Route{}, false, nil
}

// block says a destination as the API wants it: by one of two fields.
func block(p netip.Prefix) (v4, v6 *string) {
	if p.Addr().Is4() {
		return awssdk.String(p.String()), nil
	}
	return nil, awssdk.String(p.String())
}

func (r Router) put(ctx context.Context, op cloud.RouteOp) error {
	_, route, exists, err := r.now(ctx, op)
	v4, v6 := block(op.Destination)
	switch {
	case err != nil:
		return err
	case exists && route.Interface == op.Interface:
		return nil
	case exists && route.Interface == "":
		return &cloud.Error{Class: cloud.Conflict, Call: "ReplaceRoute", Err: fmt.Errorf("%s leads to %s, which is no interface", op.Destination, route.Other)}
	case exists:
		_, err = r.Calls.ReplaceRoute(ctx, &ec2.ReplaceRouteInput{
			RouteTableId: awssdk.String(op.Table), DestinationCidrBlock: v4, DestinationIpv6CidrBlock: v6, NetworkInterfaceId: awssdk.String(op.Interface),
		})
		return r.Classify("ReplaceRoute", err)
	}
	_, err = r.Calls.CreateRoute(ctx, &ec2.CreateRouteInput{
		RouteTableId: awssdk.String(op.Table), DestinationCidrBlock: v4, DestinationIpv6CidrBlock: v6, NetworkInterfaceId: awssdk.String(op.Interface),
	})
	return r.Classify("CreateRoute", err)
}

func (r Router) remove(ctx context.Context, op cloud.RouteOp) error {
	_, route, exists, err := r.now(ctx, op)
	if err != nil || !exists || route.Interface != op.Interface {
		if cloud.ClassOf(err) == cloud.NotFound {
			return nil
		}
		return err
	}
	v4, v6 := block(op.Destination)
	_, err = r.Calls.DeleteRoute(ctx, &ec2.DeleteRouteInput{RouteTableId: awssdk.String(op.Table), DestinationCidrBlock: v4, DestinationIpv6CidrBlock: v6})
	if err = r.Classify("DeleteRoute", err); cloud.ClassOf(err) == cloud.NotFound {
		return nil
	}
	return err
}

// claim looks once more, immediately before the tag is written, whether it is somebody else's.
func (r Router) claim(ctx context.Context, op cloud.RouteOp) error {
	t, _, _, err := r.now(ctx, op)
	if err != nil {
		if op.Kind == cloud.RouteOpUnclaim && cloud.ClassOf(err) == cloud.NotFound {
			return nil
		}
		return err
	}
	by := t.Tags[cloud.TagNodeRoutes]
	if by != "" && by != op.Claim {
		return &cloud.Error{Class: cloud.Conflict, Call: "CreateTags", Err: fmt.Errorf("%s is claimed by the control plane %s", op.Table, by)}
	}
	tags := []types.Tag{{Key: awssdk.String(cloud.TagNodeRoutes), Value: awssdk.String(op.Claim)}}
	switch {
	case op.Kind == cloud.RouteOpClaim && by == "":
		_, err = r.Calls.CreateTags(ctx, &ec2.CreateTagsInput{Resources: []string{op.Table}, Tags: tags})
		return r.Classify("CreateTags", err)
	case op.Kind == cloud.RouteOpUnclaim && by != "":
		_, err = r.Calls.DeleteTags(ctx, &ec2.DeleteTagsInput{Resources: []string{op.Table}, Tags: tags})
		return r.Classify("DeleteTags", err)
	}
	return nil
}
