package ec2

import (
	"slices"
	"strconv"

	"github.com/nephele-io/nephele/internal/sim/aws"
	"github.com/nephele-io/nephele/internal/sim/ec2/codec"
	"github.com/nephele-io/nephele/internal/sim/ec2/wire"
)

func describeRegions(r *request) ([]wire.Element, error) {
	regions := r.world.Regions(r.call.Account)
	all, _, err := r.params.Bool("AllRegions")
	if err != nil {
		return nil, err
	}
	if all {
		regions = append(regions, otherRegions(r, regions)...)
	}
	for _, name := range r.params.Strings("RegionName") {
		if !hasRegion(regions, name) {
			return nil, codec.InvalidValue("Invalid region name: '%s'", name)
		}
	}
	if names := r.params.Strings("RegionName"); len(names) > 0 {
		regions = slices.DeleteFunc(regions, func(i aws.RegionInfo) bool { return !slices.Contains(names, i.Name) })
	}
	page, err := list(r, listing[aws.RegionInfo]{
		items: regions,
		key:   func(i aws.RegionInfo) string { return i.Name },
		known: wire.Attributes[aws.RegionInfo]{
			"region-name":   func(i aws.RegionInfo) []string { return []string{i.Name} },
			"endpoint":      func(i aws.RegionInfo) []string { return []string{i.Endpoint} },
			"opt-in-status": func(i aws.RegionInfo) []string { return []string{i.OptInStatus} },
		},
	})
	if err != nil {
		return nil, err
	}
	return []wire.Element{wire.List("regionInfo", page.Items, func(i aws.RegionInfo) []wire.Element {
		return []wire.Element{
			wire.Text("regionName", i.Name),
			wire.Text("regionEndpoint", i.Endpoint),
			wire.Text("optInStatus", i.OptInStatus),
		}
	})}, nil
}

// otherRegions returns the regions that exist in this world but are not enabled for the caller's
// account.
func otherRegions(r *request, own []aws.RegionInfo) []aws.RegionInfo {
	var out []aws.RegionInfo
	for _, a := range r.world.Accounts() {
		for _, i := range r.world.Regions(a.ID) {
			if !hasRegion(own, i.Name) && !hasRegion(out, i.Name) {
				i.OptInStatus = "not-opted-in"
				out = append(out, i)
			}
		}
	}
	return out
}

func describeAvailabilityZones(r *request) ([]wire.Element, error) {
	zones := r.region.AvailabilityZones()
	if _, _, err := r.params.Bool("AllAvailabilityZones"); err != nil {
		return nil, err
	}
	names, ids := r.params.Strings("ZoneName"), r.params.Strings("ZoneId")
	for _, name := range names {
		if !slices.ContainsFunc(zones, func(z aws.Zone) bool { return z.Name == name }) {
			return nil, codec.InvalidValue("Invalid availability zone: [%s]", name)
		}
	}
	for _, id := range ids {
		if !slices.ContainsFunc(zones, func(z aws.Zone) bool { return z.ID == id }) {
			return nil, codec.InvalidValue("Invalid availability zone-id: [%s]", id)
		}
	}
	zones = slices.DeleteFunc(slices.Clone(zones), func(z aws.Zone) bool {
		return len(names) > 0 && !slices.Contains(names, z.Name) || len(ids) > 0 && !slices.Contains(ids, z.ID)
	})
	region := r.region.Name()
	page, err := list(r, listing[aws.Zone]{
		items: zones,
		key:   func(z aws.Zone) string { return z.Name },
		known: wire.Attributes[aws.Zone]{
			"zone-name":     func(z aws.Zone) []string { return []string{z.Name} },
			"zone-id":       func(z aws.Zone) []string { return []string{z.ID} },
			"region-name":   func(aws.Zone) []string { return []string{region} },
			"group-name":    func(aws.Zone) []string { return []string{region} },
			"state":         func(aws.Zone) []string { return []string{"available"} },
			"zone-type":     func(aws.Zone) []string { return []string{"availability-zone"} },
			"opt-in-status": func(aws.Zone) []string { return []string{"opt-in-not-required"} },
		},
	})
	if err != nil {
		return nil, err
	}
	return []wire.Element{wire.List("availabilityZoneInfo", page.Items, func(z aws.Zone) []wire.Element {
		return []wire.Element{
			wire.Text("zoneName", z.Name), wire.Text("zoneId", z.ID), wire.Text("zoneState", "available"),
			wire.Text("regionName", region), wire.Text("groupName", region),
			wire.Text("zoneType", "availability-zone"), wire.Text("optInStatus", "opt-in-not-required"),
		}
	})}, nil
}

func describeVPCs(r *request) ([]wire.Element, error) {
	vpcs, err := r.region.VPCs(r.params.Strings("VpcId")...)
	if err != nil {
		return nil, err
	}
	page, err := list(r, listing[aws.VPC]{
		items: vpcs,
		key:   func(v aws.VPC) string { return v.ID },
		known: codec.VPCAttributes(),
		tags:  func(v aws.VPC) map[string]string { return v.Tags },
		page:  pageRule{min: 5, max: 1000},
	})
	if err != nil {
		return nil, err
	}
	return pageOf("vpcSet", page, codec.VPCBody), nil
}

func describeSubnets(r *request) ([]wire.Element, error) {
	subnets, err := r.region.Subnets(r.params.Strings("SubnetId")...)
	if err != nil {
		return nil, err
	}
	region := r.region.Name()
	page, err := list(r, listing[aws.Subnet]{
		items: subnets,
		key:   func(s aws.Subnet) string { return s.ID },
		known: wire.Attributes[aws.Subnet]{
			"subnet-id":            func(s aws.Subnet) []string { return []string{s.ID} },
			"subnet-arn":           func(s aws.Subnet) []string { return []string{aws.ARN(region, s.Account, s.ID)} },
			"vpc-id":               func(s aws.Subnet) []string { return []string{s.VPCID} },
			"owner-id":             func(s aws.Subnet) []string { return []string{s.Account} },
			"state":                func(s aws.Subnet) []string { return []string{s.State} },
			"availability-zone":    func(s aws.Subnet) []string { return []string{s.Zone.Name} },
			"availability-zone-id": func(s aws.Subnet) []string { return []string{s.Zone.ID} },
			"cidr-block":           func(s aws.Subnet) []string { return codec.CIDRText(s.CIDR) },
			"default-for-az":       func(s aws.Subnet) []string { return []string{strconv.FormatBool(s.DefaultForAZ)} },
			"available-ip-address-count": func(s aws.Subnet) []string {
				return []string{strconv.Itoa(s.AvailableIPs)}
			},
			"map-public-ip-on-launch": func(s aws.Subnet) []string {
				return []string{strconv.FormatBool(s.MapPublicIPOnLaunch)}
			},
			"ipv6-cidr-block-association.ipv6-cidr-block": func(s aws.Subnet) []string { return codec.Blocks(s.IPv6, false) },
		},
		tags: func(s aws.Subnet) map[string]string { return s.Tags },
		page: pageRule{min: 5, max: 1000},
	})
	if err != nil {
		return nil, err
	}
	return pageOf("subnetSet", page, func(s aws.Subnet) []wire.Element { return codec.SubnetBody(region, s) }), nil
}

func createVPC(r *request) ([]wire.Element, error) {
	tags, err := codec.TagSpec(r.params, "vpc")
	if err != nil {
		return nil, err
	}
	provided, _, err := r.params.Bool("AmazonProvidedIpv6CidrBlock")
	if err != nil {
		return nil, err
	}
	cidr, err := need(r, "CidrBlock")
	if err != nil {
		return nil, err
	}
	vpc, err := r.region.Networks().CreateVPC(aws.CreateVPCInput{
		CIDR: cidr, AmazonProvidedIPv6: provided, IPv6CIDR: r.params.String("Ipv6CidrBlock"), Tags: tags,
	})
	if err != nil {
		return nil, err
	}
	return []wire.Element{wire.Node("vpc", codec.VPCBody(vpc)...)}, nil
}

func createSubnet(r *request) ([]wire.Element, error) {
	tags, err := codec.TagSpec(r.params, "subnet")
	if err != nil {
		return nil, err
	}
	vpc, err := need(r, "VpcId")
	if err != nil {
		return nil, err
	}
	cidr, err := need(r, "CidrBlock")
	if err != nil {
		return nil, err
	}
	subnet, err := r.region.Networks().CreateSubnet(aws.CreateSubnetInput{
		VPCID: vpc, CIDR: cidr, IPv6CIDR: r.params.String("Ipv6CidrBlock"),
		Zone: r.params.String("AvailabilityZone"), Tags: tags,
	})
	if err != nil {
		return nil, err
	}
	return []wire.Element{wire.Node("subnet", codec.SubnetBody(r.region.Name(), subnet)...)}, nil
}

func describePeerings(r *request) ([]wire.Element, error) {
	peerings, err := r.region.Peerings().PeeringConnections(r.params.Strings("VpcPeeringConnectionId")...)
	if err != nil {
		return nil, err
	}
	known := wire.Attributes[aws.PeeringConnection]{
		"vpc-peering-connection-id": func(p aws.PeeringConnection) []string { return []string{p.ID} },
		"status-code":               func(p aws.PeeringConnection) []string { return []string{p.Status} },
		"status-message":            func(p aws.PeeringConnection) []string { return []string{p.Message} },
	}
	sides := map[string]func(aws.PeeringConnection) aws.PeeringVPC{
		"requester": func(p aws.PeeringConnection) aws.PeeringVPC { return p.Requester },
		"accepter":  func(p aws.PeeringConnection) aws.PeeringVPC { return p.Accepter },
	}
	for name, side := range sides {
		known[name+"-vpc-info.vpc-id"] = func(p aws.PeeringConnection) []string { return []string{side(p).VPCID} }
		known[name+"-vpc-info.owner-id"] = func(p aws.PeeringConnection) []string { return []string{side(p).Account} }
		known[name+"-vpc-info.cidr-block"] = func(p aws.PeeringConnection) []string {
			var out []string
			for _, c := range side(p).CIDRs {
				out = append(out, c.String())
			}
			return out
		}
	}
	page, err := list(r, listing[aws.PeeringConnection]{
		items: peerings,
		key:   func(p aws.PeeringConnection) string { return p.ID },
		known: known,
		tags:  func(p aws.PeeringConnection) map[string]string { return p.Tags },
		page:  pageRule{min: 5, max: 1000},
	})
	if err != nil {
		return nil, err
	}
	return pageOf("vpcPeeringConnectionSet", page, codec.PeeringBody), nil
}
