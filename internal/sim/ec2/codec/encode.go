package codec

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/nephele-io/nephele/internal/sim/aws"
	"github.com/nephele-io/nephele/internal/sim/ec2/wire"
)

// Every function here writes one shape of the EC2 answers; the names of the elements are the
// elements of the service.

func tagSet(tags aws.Tags) wire.Element {
	return wire.List("tagSet", tags.Keys(), func(k string) []wire.Element {
		// An empty value is written as an empty element, unlike an absent one.
		return []wire.Element{{Name: "key", Text: k}, {Name: "value", Text: tags[k]}}
	})
}

// SomeTags is tagSet for the things that the service answers without a list when they have no tags:
// VPCs, subnets, groups and instances.
func SomeTags(tags aws.Tags) wire.Element {
	if len(tags) == 0 {
		return wire.Element{}
	}
	return tagSet(tags)
}

// CIDRText is a block as the value of a filter; none if there is no block.
func CIDRText(p netip.Prefix) []string {
	if !p.IsValid() {
		return nil
	}
	return []string{p.String()}
}

// CIDR is a block of addresses as an element; none if it is not valid.
func CIDR(name string, p netip.Prefix) wire.Element {
	if !p.IsValid() {
		return wire.Element{}
	}
	return wire.Text(name, p.String())
}

// VPCBody is a VPC as DescribeVpcs shows it.
func VPCBody(v aws.VPC) []wire.Element {
	var v4, v6 []aws.CIDRBlock
	for _, b := range v.CIDRs {
		if b.Prefix.Addr().Is4() {
			v4 = append(v4, b)
		} else {
			v6 = append(v6, b)
		}
	}
	body := []wire.Element{
		wire.Text("vpcId", v.ID),
		wire.Text("ownerId", v.Account),
		wire.Text("state", v.State),
		wire.Text("dhcpOptionsId", v.DHCPOptionsID),
		wire.Text("instanceTenancy", v.Tenancy),
		wire.Bool("isDefault", v.IsDefault),
		SomeTags(v.Tags),
	}
	if len(v4) > 0 {
		body = append(body, CIDR("cidrBlock", v4[0].Prefix))
	}
	body = append(body, wire.List("cidrBlockAssociationSet", v4, func(b aws.CIDRBlock) []wire.Element {
		return association(b, "cidrBlock", "cidrBlockState")
	}))
	return append(body, ipv6Associations(v6))
}

func ipv6Associations(blocks []aws.CIDRBlock) wire.Element {
	return wire.List("ipv6CidrBlockAssociationSet", blocks, func(b aws.CIDRBlock) []wire.Element {
		return association(b, "ipv6CidrBlock", "ipv6CidrBlockState")
	})
}

func association(b aws.CIDRBlock, block, state string) []wire.Element {
	return []wire.Element{
		wire.Text("associationId", b.AssociationID),
		CIDR(block, b.Prefix),
		wire.Node(state, wire.Text("state", "associated")),
	}
}

// SubnetBody is a subnet as DescribeSubnets shows it.
func SubnetBody(region string, s aws.Subnet) []wire.Element {
	return []wire.Element{
		wire.Text("subnetId", s.ID),
		wire.Text("subnetArn", aws.ARN(region, s.Account, s.ID)),
		wire.Text("vpcId", s.VPCID),
		wire.Text("ownerId", s.Account),
		wire.Text("state", s.State),
		CIDR("cidrBlock", s.CIDR),
		ipv6Associations(s.IPv6),
		wire.Bool("ipv6Native", !s.CIDR.IsValid()),
		wire.Text("availabilityZone", s.Zone.Name),
		wire.Text("availabilityZoneId", s.Zone.ID),
		wire.Int("availableIpAddressCount", s.AvailableIPs),
		wire.Bool("defaultForAz", s.DefaultForAZ),
		wire.Bool("mapPublicIpOnLaunch", s.MapPublicIPOnLaunch),
		SomeTags(s.Tags),
	}
}

// GroupSet are the groups of an interface.
func GroupSet(groups []aws.GroupName) wire.Element {
	return wire.List("groupSet", groups, func(g aws.GroupName) []wire.Element {
		return []wire.Element{wire.Text("groupId", g.ID), wire.Text("groupName", g.Name)}
	})
}

// InstanceState is a state of an instance, by number and name.
func InstanceState(name string, s aws.InstanceState) wire.Element {
	return wire.Node(name, wire.Int("code", int(s)), wire.Text("name", s.String()))
}

func instanceBody(region string, i aws.Instance) []wire.Element {
	body := []wire.Element{
		wire.Text("instanceId", i.ID),
		wire.Text("imageId", i.ImageID),
		InstanceState("instanceState", i.State),
		{Name: "reason", Text: i.TransitionReason},
		wire.Text("keyName", i.KeyName),
		wire.Text("clientToken", i.ClientToken),
		wire.Int("amiLaunchIndex", i.LaunchIndex),
		wire.Text("instanceType", i.InstanceType),
		wire.Time("launchTime", i.LaunchTime),
		wire.Node("placement", wire.Text("availabilityZone", i.Zone), wire.Text("tenancy", i.Tenancy)),
		wire.Text("subnetId", i.SubnetID),
		wire.Text("vpcId", i.VPCID),
		SomeTags(i.Tags),
	}
	var groups []aws.GroupName
	if nic := i.Primary(); nic != nil {
		groups = nic.Groups
		ip := nic.PrimaryIP()
		body = append(body,
			PrivateDNS("privateDnsName", region, ip.Addr),
			publicDNS("dnsName", region, ip.Public),
			wire.Addr("privateIpAddress", ip.Addr),
			wire.Addr("ipAddress", ip.Public),
			wire.Bool("sourceDestCheck", nic.SourceDestCheck))
		if len(nic.IPv6) > 0 {
			body = append(body, wire.Addr("ipv6Address", nic.IPv6[0]))
		}
	}
	return append(body, GroupSet(groups),
		wire.List("networkInterfaceSet", i.NetworkInterfaces, func(n aws.NetworkInterface) []wire.Element {
			return append(interfaceCore(region, n), Attachment(n, false))
		}))
}

// interfaceCore is what an interface looks like both on its own and inside an instance.
func interfaceCore(region string, n aws.NetworkInterface) []wire.Element {
	primary := n.PrimaryIP()
	return []wire.Element{
		wire.Text("networkInterfaceId", n.ID),
		wire.Text("subnetId", n.SubnetID),
		wire.Text("vpcId", n.VPCID),
		{Name: "description", Text: n.Description},
		wire.Text("ownerId", n.Account),
		wire.Text("status", n.Status),
		wire.Text("macAddress", n.MAC),
		wire.Addr("privateIpAddress", primary.Addr),
		PrivateDNS("privateDnsName", region, primary.Addr),
		wire.Bool("sourceDestCheck", n.SourceDestCheck),
		wire.Text("interfaceType", n.InterfaceType),
		GroupSet(n.Groups),
		publicAssociation(region, n.Account, primary.Public),
		wire.List("privateIpAddressesSet", n.PrivateIPs, func(p aws.PrivateIP) []wire.Element {
			return []wire.Element{
				wire.Addr("privateIpAddress", p.Addr),
				PrivateDNS("privateDnsName", region, p.Addr),
				wire.Bool("primary", p.Primary),
				publicAssociation(region, n.Account, p.Public),
			}
		}),
		wire.List("ipv6AddressesSet", n.IPv6, func(a netip.Addr) []wire.Element {
			return []wire.Element{wire.Addr("ipv6Address", a)}
		}),
		prefixSet("ipv4", n.Prefixes, false),
		prefixSet("ipv6", n.Prefixes, true),
	}
}

// prefixSet shows the delegated blocks of one family.
func prefixSet(family string, all []netip.Prefix, v6 bool) wire.Element {
	var of []netip.Prefix
	for _, p := range all {
		if p.Addr().Is6() == v6 {
			of = append(of, p)
		}
	}
	return wire.List(family+"PrefixSet", of, func(p netip.Prefix) []wire.Element {
		return []wire.Element{CIDR(family+"Prefix", p)}
	})
}

// InterfaceBody is an interface as DescribeNetworkInterfaces shows it.
func InterfaceBody(region string, n aws.NetworkInterface) []wire.Element {
	return append(interfaceCore(region, n),
		wire.Text("availabilityZone", n.Zone),
		wire.Text("requesterId", n.RequesterID),
		wire.Bool("requesterManaged", n.RequesterManaged),
		Attachment(n, true),
		tagSet(n.Tags))
}

// Attachment says to which instance an interface is attached; with its owner and id if
// withInstance.
func Attachment(n aws.NetworkInterface, withInstance bool) wire.Element {
	a := n.Attachment
	if a == nil {
		return wire.Element{}
	}
	e := wire.Node("attachment",
		wire.Text("attachmentId", a.ID),
		wire.Int("deviceIndex", a.DeviceIndex),
		wire.Text("status", a.Status),
		wire.Time("attachTime", a.AttachTime),
		wire.Bool("deleteOnTermination", a.DeleteOnTermination))
	if withInstance {
		owner := n.Account
		if a.InstanceID == "" {
			owner = "amazon-aws"
			if strings.HasPrefix(n.RequesterID, "amazon-") {
				owner = n.RequesterID
			}
		}
		e.Children = append(e.Children, wire.Text("instanceId", a.InstanceID), wire.Text("instanceOwnerId", owner))
	}
	return e
}

func publicAssociation(region, owner string, public netip.Addr) wire.Element {
	if !public.IsValid() {
		return wire.Element{}
	}
	return wire.Node("association", wire.Addr("publicIp", public),
		publicDNS("publicDnsName", region, public), wire.Text("ipOwnerId", owner))
}

func dashed(a netip.Addr) string {
	b := a.As4()
	out := ""
	for _, n := range b {
		out += "-" + strconv.Itoa(int(n))
	}
	return out
}

// PrivateDNS is the name of a private address.
func PrivateDNS(name, region string, a netip.Addr) wire.Element {
	if !a.Is4() {
		return wire.Element{}
	}
	if region == "us-east-1" {
		return wire.Text(name, "ip"+dashed(a)+".ec2.internal")
	}
	return wire.Text(name, "ip"+dashed(a)+"."+region+".compute.internal")
}

// publicDNS is written as an empty element when there is no public address, as the service does for
// dnsName.
func publicDNS(name, region string, a netip.Addr) wire.Element {
	if !a.Is4() {
		return wire.Element{Name: name}
	}
	if region == "us-east-1" {
		return wire.Text(name, "ec2"+dashed(a)+".compute-1.amazonaws.com")
	}
	return wire.Text(name, "ec2"+dashed(a)+"."+region+".compute.amazonaws.com")
}

// PeeringBody is a peering connection as DescribeVpcPeeringConnections shows it.
func PeeringBody(p aws.PeeringConnection) []wire.Element {
	return []wire.Element{
		wire.Text("vpcPeeringConnectionId", p.ID),
		wire.Node("status", wire.Text("code", p.Status), wire.Text("message", p.Message)),
		peeringSide("requesterVpcInfo", p.Requester),
		peeringSide("accepterVpcInfo", p.Accepter),
		tagSet(p.Tags),
	}
}

func peeringSide(name string, s aws.PeeringVPC) wire.Element {
	v4 := slices.DeleteFunc(slices.Clone(s.CIDRs), func(p netip.Prefix) bool { return !p.Addr().Is4() })
	v6 := slices.DeleteFunc(slices.Clone(s.CIDRs), func(p netip.Prefix) bool { return p.Addr().Is4() })
	side := wire.Node(name, wire.Text("vpcId", s.VPCID), wire.Text("ownerId", s.Account), wire.Text("region", s.Region))
	if len(v4) > 0 {
		side.Children = append(side.Children, CIDR("cidrBlock", v4[0]))
	}
	side.Children = append(side.Children,
		wire.List("cidrBlockSet", v4, func(p netip.Prefix) []wire.Element { return []wire.Element{CIDR("cidrBlock", p)} }),
		wire.List("ipv6CidrBlockSet", v6, func(p netip.Prefix) []wire.Element {
			return []wire.Element{CIDR("ipv6CidrBlock", p)}
		}))
	return side
}

// PrefixListBody is a list as DescribeManagedPrefixLists shows it.
func PrefixListBody(region string, l aws.PrefixList) []wire.Element {
	body := []wire.Element{
		wire.Text("prefixListId", l.ID),
		wire.Text("prefixListName", l.Name),
		wire.Text("prefixListArn", aws.ARN(region, l.OwnerID, l.ID)),
		wire.Text("addressFamily", l.Family),
		wire.Text("state", l.State),
		wire.Text("ownerId", l.OwnerID),
		tagSet(l.Tags),
	}
	if l.OwnerID != aws.AWSOwned {
		body = append(body, wire.Int("maxEntries", l.MaxEntries), wire.Int("version", l.Version()))
	}
	return body
}
