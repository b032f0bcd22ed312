package codec

import (
	"cmp"
	"net/netip"
	"strconv"
	"strings"

	"github.com/nephele-io/nephele/internal/sim/aws"
	"github.com/nephele-io/nephele/internal/sim/ec2/wire"
	"github.com/nephele-io/nephele/internal/sim/native"
)

// ACLBody is a network ACL as DescribeNetworkAcls shows it.
func ACLBody(a aws.NetworkACL) []wire.Element {
	entries := a.Entries
	v6 := false
	for _, e := range a.Entries {
		v6 = v6 || e.CIDR.Addr().Is6()
	}
	// Every ACL ends with entries that deny, one for each family and direction.
	for i, p := range []netip.Prefix{netip.PrefixFrom(netip.IPv4Unspecified(), 0), netip.PrefixFrom(netip.IPv6Unspecified(), 0)} {
		if i == 0 || v6 {
			for _, egress := range []bool{true, false} {
				entries = append(entries[:len(entries):len(entries)], aws.ACLEntry{Number: aws.LastACLEntry + i, Egress: egress, Protocol: -1, CIDR: p})
			}
		}
	}
	return []wire.Element{
		wire.Text("networkAclId", a.ID), wire.Text("vpcId", a.VPCID), wire.Text("ownerId", a.Account), wire.Bool("default", a.Default),
		wire.List("entrySet", entries, aclEntryBody),
		wire.List("associationSet", a.Associations, func(x aws.SubnetAssociation) []wire.Element {
			return []wire.Element{
				wire.Text("networkAclAssociationId", x.ID), wire.Text("networkAclId", a.ID), wire.Text("subnetId", x.SubnetID),
			}
		}),
		tagSet(a.Tags),
	}
}

func aclEntryBody(e aws.ACLEntry) []wire.Element {
	action, block := "deny", "cidrBlock"
	if e.Allow {
		action = "allow"
	}
	if e.CIDR.Addr().Is6() {
		block = "ipv6CidrBlock"
	}
	out := []wire.Element{
		wire.Int("ruleNumber", e.Number), wire.Text("protocol", strconv.Itoa(e.Protocol)), wire.Text("ruleAction", action),
		wire.Bool("egress", e.Egress), CIDR(block, e.CIDR),
	}
	switch e.Protocol {
	case 6, 17:
		out = append(out, wire.Node("portRange", wire.Int("from", e.FromPort), wire.Int("to", e.ToPort)))
	case 1, 58:
		out = append(out, wire.Node("icmpTypeCode", wire.Int("type", e.FromPort), wire.Int("code", e.ToPort)))
	}
	return out
}

// EndpointBody is an endpoint of a VPC as DescribeVpcEndpoints shows it; names has the names
// of security groups by id.
func EndpointBody(s native.Service, names map[string]string) []wire.Element {
	ids := func(name string, values []string) wire.Element {
		out := wire.Node(name)
		for _, v := range values {
			out.Children = append(out.Children, wire.Text("item", v))
		}
		return out
	}
	held := make([]aws.GroupName, 0, len(s.Groups))
	for _, id := range s.Groups {
		held = append(held, aws.GroupName{ID: id, Name: names[id]})
	}
	return []wire.Element{
		wire.Text("vpcEndpointId", s.Name), wire.Text("vpcEndpointType", "Interface"), wire.Text("vpcId", s.VPCID),
		wire.Text("serviceName", s.Engine), wire.Text("state", "available"), wire.Text("ownerId", s.Account),
		wire.Bool("privateDnsEnabled", false), wire.Bool("requesterManaged", false), wire.Text("ipAddressType", "ipv4"),
		ids("routeTableIdSet", nil), ids("subnetIdSet", s.Subnets), ids("networkInterfaceIdSet", s.NICs()), GroupSet(held),
		wire.List("dnsEntrySet", []string{s.HostName()}, func(host string) []wire.Element { return []wire.Element{wire.Text("dnsName", host)} }),
		wire.Time("creationTimestamp", s.Created), tagSet(s.Tags),
	}
}

// ReservationBody is a reservation with its instances as DescribeInstances shows it.
func ReservationBody(region string, res aws.Reservation) []wire.Element {
	return []wire.Element{
		wire.Text("reservationId", res.ID),
		wire.Text("ownerId", res.OwnerID),
		wire.Node("groupSet"),
		wire.List("instancesSet", res.Instances, func(i aws.Instance) []wire.Element { return instanceBody(region, i) }),
	}
}

func associationIDs(list []aws.CIDRBlock, v4 bool) []string {
	var out []string
	for _, b := range list {
		if b.Prefix.Addr().Is4() == v4 {
			out = append(out, b.AssociationID)
		}
	}
	return out
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

// TableBody is a route table as DescribeRouteTables shows it.
func TableBody(t aws.RouteTable) []wire.Element {
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
				wire.Text("main", strconv.FormatBool(a.SubnetID == "")), Associated(),
			}
		}),
		wire.Node("propagatingVgwSet"),
		tagSet(t.Tags),
	}
}

// BlockAnswer says what has become of a block of a VPC.
func BlockAnswer(vpc string, b aws.CIDRBlock, state string) []wire.Element {
	name, block := "cidrBlockAssociation", "cidrBlock"
	if b.Prefix.Addr().Is6() {
		name, block = "ipv6CidrBlockAssociation", "ipv6CidrBlock"
	}
	return []wire.Element{wire.Text("vpcId", vpc), wire.Node(name,
		wire.Text("associationId", b.AssociationID), CIDR(block, b.Prefix), wire.Node(block+"State", wire.Text("state", state)))}
}

// GatewayBody is a gateway as DescribeInternetGateways shows it.
func GatewayBody(g aws.InternetGateway) []wire.Element {
	var vpcs []string
	if g.VPCID != "" {
		vpcs = []string{g.VPCID}
	}
	return []wire.Element{
		wire.Text("internetGatewayId", g.ID), wire.Text("ownerId", g.Account),
		wire.List("attachmentSet", vpcs, func(v string) []wire.Element {
			return []wire.Element{wire.Text("vpcId", v), wire.Text("state", "available")}
		}),
		tagSet(g.Tags),
	}
}

// RouteTargets are the parameters that say where a route leads, with the element that says it in an
// answer. It is never written to.
var RouteTargets = []struct{ Key, element, prefix string }{
	{"GatewayId", "gatewayId", ""}, {"NatGatewayId", "natGatewayId", "nat-"}, {"NetworkInterfaceId", "networkInterfaceId", "eni-"},
	{"InstanceId", "instanceId", "i-"}, {"VpcPeeringConnectionId", "vpcPeeringConnectionId", "pcx-"},
	{"TransitGatewayId", "transitGatewayId", "tgw-"}, {"EgressOnlyInternetGatewayId", "egressOnlyInternetGatewayId", "eigw-"},
	{"VpcEndpointId", "gatewayId", "vpce-"}, {"LocalGatewayId", "localGatewayId", "lgw-"}, {"CarrierGatewayId", "carrierGatewayId", "cagw-"},
	{"CoreNetworkArn", "coreNetworkArn", "arn:aws:networkmanager"},
}

// targetElement is the element for a target by its id; that of gateways for all others, "local"
// among them.
func targetElement(id string) wire.Element {
	for _, t := range RouteTargets {
		if t.prefix != "" && strings.HasPrefix(id, t.prefix) {
			return wire.Text(t.element, id)
		}
	}
	return wire.Text("gatewayId", id)
}

// Associated is the state of an association that is there.
func Associated() wire.Element {
	return wire.Node("associationState", wire.Text("state", "associated"))
}
