package codec

import (
	"strconv"

	"github.com/nephele-io/nephele/internal/sim/aws"
	"github.com/nephele-io/nephele/internal/sim/ec2/wire"
)

// InstanceAttributes are the filters of DescribeInstances. The filters network-interface.* hold for
// any of the interfaces.
func InstanceAttributes() wire.Attributes[aws.Instance] {
	known := wire.Attributes[aws.Instance]{
		"instance-id":         func(i aws.Instance) []string { return []string{i.ID} },
		"image-id":            func(i aws.Instance) []string { return []string{i.ImageID} },
		"instance-type":       func(i aws.Instance) []string { return []string{i.InstanceType} },
		"key-name":            func(i aws.Instance) []string { return []string{i.KeyName} },
		"client-token":        func(i aws.Instance) []string { return []string{i.ClientToken} },
		"owner-id":            func(i aws.Instance) []string { return []string{i.Account} },
		"reservation-id":      func(i aws.Instance) []string { return []string{i.ReservationID} },
		"availability-zone":   func(i aws.Instance) []string { return []string{i.Zone} },
		"tenancy":             func(i aws.Instance) []string { return []string{i.Tenancy} },
		"vpc-id":              func(i aws.Instance) []string { return []string{i.VPCID} },
		"subnet-id":           func(i aws.Instance) []string { return []string{i.SubnetID} },
		"instance-state-name": func(i aws.Instance) []string { return []string{i.State.String()} },
		"instance-state-code": func(i aws.Instance) []string { return []string{strconv.Itoa(int(i.State))} },
	}
	primary := map[string]string{
		"instance.group-id":   "group-id",
		"instance.group-name": "group-name",
		"source-dest-check":   "source-dest-check",
		"private-ip-address":  "private-ip-address",
		"ip-address":          "association.public-ip",
		"ipv6-address":        "ipv6-addresses.ipv6-address",
	}
	onNIC := InterfaceAttributes()
	for name, attribute := range primary {
		get := onNIC[attribute]
		known[name] = func(i aws.Instance) []string {
			if nic := i.Primary(); nic != nil {
				return get(*nic)
			}
			return nil
		}
	}
	for name, get := range onNIC {
		known["network-interface."+name] = func(i aws.Instance) []string {
			var out []string
			for _, nic := range i.NetworkInterfaces {
				out = append(out, get(nic)...)
			}
			return out
		}
	}
	return known
}

// InterfaceAttributes are the filters of DescribeNetworkInterfaces.
func InterfaceAttributes() wire.Attributes[aws.NetworkInterface] {
	type nic = aws.NetworkInterface
	onAttachment := func(get func(aws.Attachment) string) func(nic) []string {
		return func(n nic) []string {
			if n.Attachment == nil {
				return nil
			}
			return []string{get(*n.Attachment)}
		}
	}
	return wire.Attributes[nic]{
		"network-interface-id": func(n nic) []string { return []string{n.ID} },
		"vpc-id":               func(n nic) []string { return []string{n.VPCID} },
		"subnet-id":            func(n nic) []string { return []string{n.SubnetID} },
		"availability-zone":    func(n nic) []string { return []string{n.Zone} },
		"description":          func(n nic) []string { return []string{n.Description} },
		"owner-id":             func(n nic) []string { return []string{n.Account} },
		"status":               func(n nic) []string { return []string{n.Status} },
		"mac-address":          func(n nic) []string { return []string{n.MAC} },
		"interface-type":       func(n nic) []string { return []string{n.InterfaceType} },
		"requester-id":         func(n nic) []string { return []string{n.RequesterID} },
		"requester-managed":    func(n nic) []string { return []string{strconv.FormatBool(n.RequesterManaged)} },
		"source-dest-check":    func(n nic) []string { return []string{strconv.FormatBool(n.SourceDestCheck)} },
		"group-id":             func(n nic) []string { return groupField(n, func(g aws.GroupName) string { return g.ID }) },
		"group-name":           func(n nic) []string { return groupField(n, func(g aws.GroupName) string { return g.Name }) },
		"private-ip-address":   func(n nic) []string { return addrs(n.PrimaryIP().Addr) },
		"association.public-ip": func(n nic) []string {
			return addrs(n.PrimaryIP().Public)
		},
		"addresses.private-ip-address": func(n nic) []string {
			return addressField(n, func(p aws.PrivateIP) []string { return addrs(p.Addr) })
		},
		"addresses.primary": func(n nic) []string {
			return addressField(n, func(p aws.PrivateIP) []string { return []string{strconv.FormatBool(p.Primary)} })
		},
		"addresses.association.public-ip": func(n nic) []string {
			return addressField(n, func(p aws.PrivateIP) []string { return addrs(p.Public) })
		},
		"ipv6-addresses.ipv6-address": func(n nic) []string { return addrs(n.IPv6...) },
		"attachment.instance-id":      onAttachment(func(a aws.Attachment) string { return a.InstanceID }),
		"attachment.attachment-id":    onAttachment(func(a aws.Attachment) string { return a.ID }),
		"attachment.status":           onAttachment(func(a aws.Attachment) string { return a.Status }),
		"attachment.device-index":     onAttachment(func(a aws.Attachment) string { return strconv.Itoa(a.DeviceIndex) }),
		"attachment.delete-on-termination": onAttachment(func(a aws.Attachment) string {
			return strconv.FormatBool(a.DeleteOnTermination)
		}),
	}
}

func groupField(n aws.NetworkInterface, get func(aws.GroupName) string) []string {
	var out []string
	for _, g := range n.Groups {
		out = append(out, get(g))
	}
	return out
}

func addressField(n aws.NetworkInterface, get func(aws.PrivateIP) []string) []string {
	var out []string
	for _, p := range n.PrivateIPs {
		out = append(out, get(p)...)
	}
	return out
}

// GroupAttributes are the filters of DescribeSecurityGroups. Each of several filters on rules may
// be met by another rule of the group.
func GroupAttributes() wire.Attributes[aws.SecurityGroup] {
	type group = aws.SecurityGroup
	known := wire.Attributes[group]{
		"group-id":    func(g group) []string { return []string{g.ID} },
		"group-name":  func(g group) []string { return []string{g.Name} },
		"description": func(g group) []string { return []string{g.Description} },
		"owner-id":    func(g group) []string { return []string{g.Account} },
		"vpc-id":      func(g group) []string { return []string{g.VPCID} },
	}
	type rule = aws.SecurityGroupRule
	block := func(v4 bool) func(rule) string {
		return func(r rule) string {
			if !r.CIDR.IsValid() || r.CIDR.Addr().Is4() != v4 {
				return ""
			}
			return r.CIDR.String()
		}
	}
	port := func(get func(rule) int32) func(rule) string {
		return func(r rule) string {
			if r.Protocol == "-1" {
				return ""
			}
			return strconv.Itoa(int(get(r)))
		}
	}
	peer := func(get func(aws.GroupPeer) string) func(rule) string {
		return func(r rule) string {
			if r.Group == nil {
				return ""
			}
			return get(*r.Group)
		}
	}
	fields := map[string]func(rule) string{
		"cidr":           block(true),
		"ipv6-cidr":      block(false),
		"protocol":       func(r rule) string { return r.Protocol },
		"from-port":      port(func(r rule) int32 { return r.FromPort }),
		"to-port":        port(func(r rule) int32 { return r.ToPort }),
		"group-id":       peer(func(p aws.GroupPeer) string { return p.GroupID }),
		"user-id":        peer(func(p aws.GroupPeer) string { return p.UserID }),
		"prefix-list-id": func(r rule) string { return r.PrefixListID },
	}
	for name, get := range fields {
		known["ip-permission."+name] = ruleField(false, get)
		known["egress.ip-permission."+name] = ruleField(true, get)
	}
	return known
}

func ruleField(egress bool, get func(aws.SecurityGroupRule) string) func(aws.SecurityGroup) []string {
	return func(g aws.SecurityGroup) []string {
		var out []string
		for _, r := range g.Rules {
			if v := get(r); r.Egress == egress && v != "" {
				out = append(out, v)
			}
		}
		return out
	}
}

// VPCAttributes are the filters of DescribeVpcs.
func VPCAttributes() wire.Attributes[aws.VPC] {
	return wire.Attributes[aws.VPC]{
		"vpc-id":     func(v aws.VPC) []string { return []string{v.ID} },
		"owner-id":   func(v aws.VPC) []string { return []string{v.Account} },
		"state":      func(v aws.VPC) []string { return []string{v.State} },
		"is-default": func(v aws.VPC) []string { return []string{strconv.FormatBool(v.IsDefault)} },
		// "cidr" is the primary block only.
		"cidr":            func(v aws.VPC) []string { return Blocks(v.CIDRs[:min(1, len(v.CIDRs))], true) },
		"dhcp-options-id": func(v aws.VPC) []string { return []string{v.DHCPOptionsID} },
		"cidr-block-association.cidr-block": func(v aws.VPC) []string {
			return Blocks(v.CIDRs, true)
		},
		"cidr-block-association.association-id": func(v aws.VPC) []string { return associationIDs(v.CIDRs, true) },
		"ipv6-cidr-block-association.ipv6-cidr-block": func(v aws.VPC) []string {
			return Blocks(v.CIDRs, false)
		},
		"ipv6-cidr-block-association.association-id": func(v aws.VPC) []string { return associationIDs(v.CIDRs, false) },
	}
}

// TableAttributes are the filters of DescribeRouteTables.
func TableAttributes() wire.Attributes[aws.RouteTable] {
	type table = aws.RouteTable
	known := wire.Attributes[table]{
		"route-table-id":             func(t table) []string { return []string{t.ID} },
		"vpc-id":                     func(t table) []string { return []string{t.VPCID} },
		"owner-id":                   func(t table) []string { return []string{t.Account} },
		"association.main":           BoolField(func(t table) bool { return t.Main != "" }),
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
	for _, t := range RouteTargets {
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

// BoolField is a filter on a switch of an object.
func BoolField[T any](get func(T) bool) func(T) []string {
	return func(t T) []string { return []string{strconv.FormatBool(get(t))} }
}
