package ec2

import (
	"cmp"

	"github.com/nephele-io/nephele/internal/sim/aws"
	"github.com/nephele-io/nephele/internal/sim/ec2/codec"
	"github.com/nephele-io/nephele/internal/sim/ec2/wire"
)

// routeActions are those on route tables.
func routeActions() map[string]action {
	return map[string]action{
		"DescribeRouteTables":          describeRouteTables,
		"CreateRouteTable":             createRouteTable,
		"DeleteRouteTable":             byOneID("RouteTableId", func(r *request, id string) error { return r.region.Routes().DeleteRouteTable(id) }),
		"AssociateRouteTable":          associateRouteTable,
		"DisassociateRouteTable":       byOneID("AssociationId", func(r *request, id string) error { return r.region.Routes().DisassociateRouteTable(id) }),
		"ReplaceRouteTableAssociation": replaceRouteTableAssociation,
		"CreateRoute":                  onRoute(func(r *request, in aws.RouteInput) error { return r.region.Routes().CreateRoute(in) }),
		"ReplaceRoute":                 onRoute(func(r *request, in aws.RouteInput) error { return r.region.Routes().ReplaceRoute(in) }),
		"DeleteRoute":                  onRoute(func(r *request, in aws.RouteInput) error { return r.region.Routes().DeleteRoute(in) }),
	}
}

func onRoute(act func(*request, aws.RouteInput) error) action {
	return func(r *request) ([]wire.Element, error) {
		table, err := need(r, "RouteTableId")
		if err != nil {
			return nil, err
		}
		in := aws.RouteInput{
			TableID: table, Destination: r.params.String("DestinationCidrBlock"),
			DestinationIPv6: r.params.String("DestinationIpv6CidrBlock"), PrefixListID: r.params.String("DestinationPrefixListId"),
		}
		for _, t := range codec.RouteTargets {
			v := r.params.String(t.Key)
			if v != "" && in.Target != "" {
				return nil, codec.Fail("InvalidParameterCombination", "Only one target of a route can be specified, not %s and %s", in.Target, v)
			}
			in.Target = cmp.Or(in.Target, v)
		}
		return done(act(r, in))
	}
}

func createRouteTable(r *request) ([]wire.Element, error) {
	tags, err := codec.TagSpec(r.params, "route-table")
	if err != nil {
		return nil, err
	}
	vpc, err := need(r, "VpcId")
	if err != nil {
		return nil, err
	}
	t, err := r.region.Routes().CreateRouteTable(vpc, tags, r.params.String("ClientToken"))
	if err != nil {
		return nil, err
	}
	return []wire.Element{wire.Node("routeTable", codec.TableBody(t)...)}, nil
}

func associateRouteTable(r *request) ([]wire.Element, error) {
	table, err := need(r, "RouteTableId")
	if err != nil {
		return nil, err
	}
	subnet, err := need(r, "SubnetId")
	if err != nil {
		return nil, err
	}
	id, err := r.region.Routes().AssociateRouteTable(table, subnet)
	if err != nil {
		return nil, err
	}
	return []wire.Element{wire.Text("associationId", id), codec.Associated()}, nil
}

func replaceRouteTableAssociation(r *request) ([]wire.Element, error) {
	association, err := need(r, "AssociationId")
	if err != nil {
		return nil, err
	}
	table, err := need(r, "RouteTableId")
	if err != nil {
		return nil, err
	}
	id, err := r.region.Routes().ReplaceRouteTableAssociation(association, table)
	if err != nil {
		return nil, err
	}
	return []wire.Element{wire.Text("newAssociationId", id), codec.Associated()}, nil
}

func describeRouteTables(r *request) ([]wire.Element, error) {
	tables, err := r.region.Routes().RouteTables(r.params.Strings("RouteTableId")...)
	if err != nil {
		return nil, err
	}
	page, err := list(r, listing[aws.RouteTable]{
		items: tables,
		key:   func(t aws.RouteTable) string { return t.ID },
		known: codec.TableAttributes(),
		tags:  func(t aws.RouteTable) map[string]string { return t.Tags },
		page:  pageRule{min: 5, max: 100},
	})
	if err != nil {
		return nil, err
	}
	return pageOf("routeTableSet", page, codec.TableBody), nil
}
