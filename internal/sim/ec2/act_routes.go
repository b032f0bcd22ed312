package ec2

import (
	"cmp"
	"strconv"
	"strings"

	"github.com/nephele-io/nephele/internal/sim/aws"
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

// routeTargets are the parameters that say where a route leads, with the element that says it in an
// answer. It is never written to.
var routeTargets = []struct{ key, element, prefix string }{
	{"GatewayId", "gatewayId", ""}, {"NatGatewayId", "natGatewayId", "nat-"}, {"NetworkInterfaceId", "networkInterfaceId", "eni-"},
	{"InstanceId", "instanceId", "i-"}, {"VpcPeeringConnectionId", "vpcPeeringConnectionId", "pcx-"},
	{"TransitGatewayId", "transitGatewayId", "tgw-"}, {"EgressOnlyInternetGatewayId", "egressOnlyInternetGatewayId", "eigw-"},
	{"VpcEndpointId", "gatewayId", "vpce-"}, {"LocalGatewayId", "localGatewayId", "lgw-"}, {"CarrierGatewayId", "carrierGatewayId", "cagw-"},
	{"CoreNetworkArn", "coreNetworkArn", "arn:aws:networkmanager"},
}

// targetElement is the element for a target by its id; that of gateways for all others, "local"
// among them.
func targetElement(id string) wire.Element {
	for _, t := range routeTargets {
		if t.prefix != "" && strings.HasPrefix(id, t.prefix) {
			return wire.Text(t.element, id)
		}
	}
	return wire.Text("gatewayId", id)
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
		for _, t := range routeTargets {
			v := r.params.String(t.key)
			if v != "" && in.Target != "" {
				return nil, fail("InvalidParameterCombination", "Only one target of a route can be specified, not %s and %s", in.Target, v)
			}
			in.Target = cmp.Or(in.Target, v)
		}
		return done(act(r, in))
	}
}

func createRouteTable(r *request) ([]wire.Element, error) {
	tags, err := tagSpec(r.params, "route-table")
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
	return []wire.Element{wire.Node("routeTable", tableBody(t)...)}, nil
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
	return []wire.Element{wire.Text("associationId", id), associated()}, nil
}

func associated() wire.Element {
	return wire.Node("associationState", wire.Text("state", "associated"))
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
	return []wire.Element{wire.Text("newAssociationId", id), associated()}, nil
}

func describeRouteTables(r *request) ([]wire.Element, error) {
	tables, err := r.region.Routes().RouteTables(r.params.Strings("RouteTableId")...)
	if err != nil {
		return nil, err
	}
	page, err := list(r, listing[aws.RouteTable]{
		items: tables,
		key:   func(t aws.RouteTable) string { return t.ID },
		known: tableAttributes(),
		tags:  func(t aws.RouteTable) map[string]string { return t.Tags },
		page:  pageRule{min: 5, max: 100},
	})
	if err != nil {
		return nil, err
	}
	return pageOf("routeTableSet", page, tableBody), nil
}

func tableAttributes() wire.Attributes[aws.RouteTable] {
	type table = aws.RouteTable
	known := wire.Attributes[table]{
		"route-table-id":             func(t table) []string { return []string{t.ID} },
		"vpc-id":                     func(t table) []string { return []string{t.VPCID} },
		"owner-id":                   func(t table) []string { return []string{t.Account} },
		"association.main":           boolField(func(t table) bool { return t.Main != "" }),
		"association.route-table-id": func(t table) []string { return onAssociations(t, func(aws.SubnetAssociation) string { return t.ID }) },
		"association.subnet-id": func(t table) []string {
			return onAssociations(t, func(a aws.SubnetAssociation) string { return a.SubnetID })
		},
		"association.route-table-association-id": func(t table) []string {
			return onAssociations(t, func(a aws.SubnetAssociation) string { return a.ID })
		},
	}
	onRoutes := func(get func(aws.Route) string) func(table) []string {
		return func(t table) []string {
			var out []string
			for _, r := range t.Routes {
				if v := get(r); v != "" {
					out = append(out, v)
				}
			}
			return out
		}
	}
	known["route.state"] = onRoutes(func(r aws.Route) string { return r.State })
	known["route.destination-prefix-list-id"] = onRoutes(func(r aws.Route) string { return r.PrefixListID })
	known["route.destination-cidr-block"] = onRoutes(func(r aws.Route) string { return blockText(r, true) })
	known["route.destination-ipv6-cidr-block"] = onRoutes(func(r aws.Route) string { return blockText(r, false) })
	for _, t := range routeTargets {
		name := map[string]string{"gatewayId": "gateway-id", "natGatewayId": "nat-gateway-id", "vpcPeeringConnectionId": "vpc-peering-connection-id",
			"transitGatewayId": "transit-gateway-id", "instanceId": "instance-id"}[t.element]
		if name != "" {
			known["route."+name] = onRoutes(func(r aws.Route) string {
				if e := targetElement(r.Target); e.Name == t.element {
					return e.Text
				}
				return ""
			})
		}
	}
	return known
}

// onAssociations reads the associations of a table, that with the VPC included.
func onAssociations(t aws.RouteTable, get func(aws.SubnetAssociation) string) []string {
	var out []string
	for _, a := range tableAssociations(t) {
		if v := get(a); v != "" {
			out = append(out, v)
		}
	}
	return out
}

func tableAssociations(t aws.RouteTable) []aws.SubnetAssociation {
	if t.Main == "" {
		return t.Associations
	}
	return append([]aws.SubnetAssociation{{ID: t.Main}}, t.Associations...)
}

func blockText(r aws.Route, v4 bool) string {
	if !r.Destination.IsValid() || r.Destination.Addr().Is4() != v4 {
		return ""
	}
	return r.Destination.String()
}

func tableBody(t aws.RouteTable) []wire.Element {
	return []wire.Element{
		wire.Text("routeTableId", t.ID), wire.Text("vpcId", t.VPCID), wire.Text("ownerId", t.Account),
		wire.List("routeSet", t.Routes, func(r aws.Route) []wire.Element {
			return []wire.Element{
				wire.Text("destinationCidrBlock", blockText(r, true)), wire.Text("destinationIpv6CidrBlock", blockText(r, false)),
				wire.Text("destinationPrefixListId", r.PrefixListID), targetElement(r.Target), wire.Text("state", r.State),
				wire.Text("origin", cmp.Or(r.Origin, "CreateRoute")),
			}
		}),
		wire.List("associationSet", tableAssociations(t), func(a aws.SubnetAssociation) []wire.Element {
			return []wire.Element{
				wire.Text("routeTableAssociationId", a.ID), wire.Text("routeTableId", t.ID), wire.Text("subnetId", a.SubnetID),
				wire.Text("main", strconv.FormatBool(a.SubnetID == "")), associated(),
			}
		}),
		wire.Node("propagatingVgwSet"),
		tagSet(t.Tags),
	}
}
