package ec2

import (
	"github.com/nephele-io/nephele/internal/sim/aws"
	"github.com/nephele-io/nephele/internal/sim/ec2/codec"
	"github.com/nephele-io/nephele/internal/sim/ec2/wire"
)

// vpcActions are those that change VPCs, join them with one another and with the internet.
func vpcActions() map[string]action {
	return map[string]action{
		"DeleteVpc":                  deleteVPC,
		"DescribeVpcAttribute":       describeVPCAttribute,
		"ModifyVpcAttribute":         modifyVPCAttribute,
		"AssociateVpcCidrBlock":      associateVPCCIDRBlock,
		"DisassociateVpcCidrBlock":   disassociateVPCCIDRBlock,
		"DeleteSubnet":               byOneID("SubnetId", func(r *request, id string) error { return r.region.Networks().DeleteSubnet(id) }),
		"ModifySubnetAttribute":      modifySubnetAttribute,
		"CreateVpcPeeringConnection": createPeering,
		"AcceptVpcPeeringConnection": acceptPeering,
		"RejectVpcPeeringConnection": byOneID("VpcPeeringConnectionId", func(r *request, id string) error { return r.region.Peerings().RejectPeering(id) }),
		"DeleteVpcPeeringConnection": byOneID("VpcPeeringConnectionId", func(r *request, id string) error { return r.region.Peerings().DeletePeering(id) }),
		"CreateInternetGateway":      createInternetGateway,
		"DescribeInternetGateways":   describeInternetGateways,
		"AttachInternetGateway": byOneID("InternetGatewayId", func(r *request, id string) error {
			return r.region.Routes().AttachInternetGateway(id, r.params.String("VpcId"))
		}),
		"DetachInternetGateway": byOneID("InternetGatewayId", func(r *request, id string) error {
			return r.region.Routes().DetachInternetGateway(id, r.params.String("VpcId"))
		}),
		"DeleteInternetGateway": byOneID("InternetGatewayId", func(r *request, id string) error { return r.region.Routes().DeleteInternetGateway(id) }),
	}
}

// byOneID is an action that takes an id and says no more than that it worked.
func byOneID(key string, act func(*request, string) error) action {
	return func(r *request) ([]wire.Element, error) {
		id, err := need(r, key)
		if err != nil {
			return nil, err
		}
		return done(act(r, id))
	}
}

func deleteVPC(r *request) ([]wire.Element, error) {
	id, err := need(r, "VpcId")
	if err != nil {
		return nil, err
	}
	return done(r.region.Networks().DeleteVPC(id))
}

func describeVPCAttribute(r *request) ([]wire.Element, error) {
	id, err := need(r, "VpcId")
	if err != nil {
		return nil, err
	}
	vpcs, err := r.region.VPCs(id)
	if err != nil {
		return nil, err
	}
	a := vpcs[0].Attributes
	name := r.params.String("Attribute")
	values := map[string]bool{
		"enableDnsSupport": !a.DNSSupportOff, "enableDnsHostnames": a.DNSHostnames || vpcs[0].IsDefault,
		"enableNetworkAddressUsageMetrics": a.AddressUsage,
	}
	on, ok := values[name]
	if !ok {
		return nil, unknownAttribute(r, name)
	}
	return []wire.Element{wire.Text("vpcId", id), valueOf(name, on)}, nil
}

func modifyVPCAttribute(r *request) ([]wire.Element, error) {
	id, err := need(r, "VpcId")
	if err != nil {
		return nil, err
	}
	given, err := oneAttribute(r, "EnableDnsSupport", "EnableDnsHostnames", "EnableNetworkAddressUsageMetrics")
	if err != nil {
		return nil, err
	}
	on, ok, err := r.params.Bool(given + ".Value")
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, codec.Fail("InvalidParameterCombination", "No attributes specified.")
	}
	return done(r.region.Networks().ModifyVPC(id, func(a *aws.VPCAttributes) {
		switch given {
		case "EnableDnsSupport":
			a.DNSSupportOff = !on
		case "EnableDnsHostnames":
			a.DNSHostnames = on
		default:
			a.AddressUsage = on
		}
	}))
}

func modifySubnetAttribute(r *request) ([]wire.Element, error) {
	id, err := need(r, "SubnetId")
	if err != nil {
		return nil, err
	}
	if _, err := oneAttribute(r, "MapPublicIpOnLaunch"); err != nil {
		return nil, err
	}
	on, ok, err := r.params.Bool("MapPublicIpOnLaunch.Value")
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, codec.Fail("InvalidParameterCombination", "No attributes specified.")
	}
	return done(r.region.Networks().ModifySubnet(id, on))
}

func associateVPCCIDRBlock(r *request) ([]wire.Element, error) {
	id, err := need(r, "VpcId")
	if err != nil {
		return nil, err
	}
	provided, _, err := r.params.Bool("AmazonProvidedIpv6CidrBlock")
	if err != nil {
		return nil, err
	}
	b, err := r.region.Networks().AssociateVPCCIDRBlock(id, r.params.String("CidrBlock"), provided)
	if err != nil {
		return nil, err
	}
	return codec.BlockAnswer(id, b, "associating"), nil
}

func disassociateVPCCIDRBlock(r *request) ([]wire.Element, error) {
	association, err := need(r, "AssociationId")
	if err != nil {
		return nil, err
	}
	vpc, b, err := r.region.Networks().DisassociateVPCCIDRBlock(association)
	if err != nil {
		return nil, err
	}
	return codec.BlockAnswer(vpc, b, "disassociating"), nil
}

func createPeering(r *request) ([]wire.Element, error) {
	tags, err := codec.TagSpec(r.params, "vpc-peering-connection")
	if err != nil {
		return nil, err
	}
	vpc, err := need(r, "VpcId")
	if err != nil {
		return nil, err
	}
	p, err := r.region.Peerings().CreatePeering(vpc, aws.PeeringVPC{
		VPCID: r.params.String("PeerVpcId"), Account: r.params.String("PeerOwnerId"), Region: r.params.String("PeerRegion"),
	}, tags)
	if err != nil {
		return nil, err
	}
	if p.Status == "pending-acceptance" {
		// The answer says what the connection is about to be.
		p.Status, p.Message = "initiating-request", "Initiating Request to "+p.Accepter.Account
	}
	return []wire.Element{wire.Node("vpcPeeringConnection", codec.PeeringBody(p)...)}, nil
}

func acceptPeering(r *request) ([]wire.Element, error) {
	id, err := need(r, "VpcPeeringConnectionId")
	if err != nil {
		return nil, err
	}
	p, err := r.region.Peerings().AcceptPeering(id)
	if err != nil {
		return nil, err
	}
	p.Status, p.Message = "provisioning", "Provisioning"
	return []wire.Element{wire.Node("vpcPeeringConnection", codec.PeeringBody(p)...)}, nil
}

func createInternetGateway(r *request) ([]wire.Element, error) {
	tags, err := codec.TagSpec(r.params, "internet-gateway")
	if err != nil {
		return nil, err
	}
	g, err := r.region.Routes().CreateInternetGateway(tags)
	if err != nil {
		return nil, err
	}
	return []wire.Element{wire.Node("internetGateway", codec.GatewayBody(g)...)}, nil
}

func describeInternetGateways(r *request) ([]wire.Element, error) {
	gateways, err := r.region.Routes().InternetGateways(r.params.Strings("InternetGatewayId")...)
	if err != nil {
		return nil, err
	}
	attached := func(v string) func(aws.InternetGateway) []string {
		return func(g aws.InternetGateway) []string {
			switch {
			case g.VPCID == "":
				return nil
			case v != "":
				return []string{v}
			}
			return []string{g.VPCID}
		}
	}
	page, err := list(r, listing[aws.InternetGateway]{
		items: gateways,
		key:   func(g aws.InternetGateway) string { return g.ID },
		known: wire.Attributes[aws.InternetGateway]{
			"internet-gateway-id": func(g aws.InternetGateway) []string { return []string{g.ID} },
			"owner-id":            func(g aws.InternetGateway) []string { return []string{g.Account} },
			"attachment.vpc-id":   attached(""),
			"attachment.state":    attached("available"),
		},
		tags: func(g aws.InternetGateway) map[string]string { return g.Tags },
		page: pageRule{min: 5, max: 1000},
	})
	if err != nil {
		return nil, err
	}
	return pageOf("internetGatewaySet", page, codec.GatewayBody), nil
}
