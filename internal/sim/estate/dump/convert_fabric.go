package dump

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/nephele-io/nephele/internal/sim/aws"
	"github.com/nephele-io/nephele/internal/sim/estate/defaults"
	"github.com/nephele-io/nephele/internal/sim/estate/source"
)

type rawSubnetAssociation struct {
	RouteTableAssociationId, NetworkAclAssociationId, SubnetId string
	Main                                                       bool
}

type rawRoute struct {
	DestinationCidrBlock, DestinationIpv6CidrBlock, DestinationPrefixListId                         string
	GatewayId, NatGatewayId, NetworkInterfaceId, InstanceId, VpcPeeringConnectionId                 string
	TransitGatewayId, EgressOnlyInternetGatewayId, LocalGatewayId, CarrierGatewayId, CoreNetworkArn string
	State, Origin                                                                                   string
}

type rawRouteTable struct {
	RouteTableId, VpcId string
	Associations        []rawSubnetAssociation
	Routes              []rawRoute
	Tags                []rawTag
}

type rawACL struct {
	NetworkAclId, VpcId string
	IsDefault           bool
	Associations        []rawSubnetAssociation
	Entries             []struct {
		RuleNumber                                     int
		Egress                                         bool
		Protocol, RuleAction, CidrBlock, Ipv6CidrBlock string
		PortRange                                      struct{ From, To int }
		IcmpTypeCode                                   *struct{ Type, Code int }
	}
	Tags []rawTag
}

type rawGateway struct {
	InternetGatewayId string
	Attachments       []struct{ VpcId string }
	Tags              []rawTag
}

// rawFabric is what a dump says of routes, ACLs and gateways. No one need tell them.
type rawFabric struct {
	tables   []rawRouteTable
	acls     []rawACL
	gateways []rawGateway
}

func (b *builder) buildFabric() error {
	for i := range b.raw.gateways {
		if err := b.buildGateway(i, &b.raw.gateways[i]); err != nil {
			return err
		}
	}
	for i := range b.raw.tables {
		if err := b.buildTable(i, &b.raw.tables[i]); err != nil {
			return err
		}
	}
	for i := range b.raw.acls {
		if err := b.buildACL(i, &b.raw.acls[i]); err != nil {
			return err
		}
	}
	return nil
}

// fabricID is the wire id of a part of the fabric; "" if it appears again, or is of a VPC that is
// not in the dump.
func (b *builder) fabricID(member, prefix, rawID, rawVPC string, i int) (string, error) {
	if rawID == "" {
		return "", b.fault(member, fmt.Sprintf("element %d", i), "id", "expected an id")
	}
	id := b.id(prefix, rawID)
	if b.fabricIDs == nil {
		b.fabricIDs = map[string]bool{}
	}
	switch {
	case b.fabricIDs[id]:
		b.warn(member, rawID, "appears again; the first one is kept")
		return "", nil
	case rawVPC != "" && b.vpcs[b.id("vpc", rawVPC)] == nil:
		b.warn(member, rawID, "is of VPC %q, which is not in the dump; it is left out", rawVPC)
		return "", nil
	}
	b.fabricIDs[id] = true
	return id, nil
}

func (b *builder) buildGateway(i int, raw *rawGateway) error {
	vpc := ""
	if len(raw.Attachments) > 0 {
		vpc = raw.Attachments[0].VpcId
	}
	id, err := b.fabricID("InternetGateways", "igw", raw.InternetGatewayId, vpc, i)
	if id == "" {
		return err
	}
	g := aws.InternetGateway{ID: id, Account: b.account, Tags: tagsOf(raw.Tags)}
	if vpc != "" {
		g.VPCID = b.id("vpc", vpc)
	}
	b.fabric.InternetGateways = append(b.fabric.InternetGateways, g)
	return nil
}

// associations are those with subnets of the dump.
func (b *builder) associations(member, object, vpc string, all []rawSubnetAssociation) []aws.SubnetAssociation {
	var out []aws.SubnetAssociation
	for _, a := range all {
		if a.SubnetId == "" {
			continue
		}
		subnet := b.id("subnet", a.SubnetId)
		if s := b.subnets[subnet]; s == nil || s.VPCID != vpc {
			b.warn(member, object, "is said to be used by subnet %q, which is not in the dump", a.SubnetId)
			continue
		}
		id := cmp.Or(a.RouteTableAssociationId, a.NetworkAclAssociationId, defaults.ID("assoc", object, subnet))
		out = append(out, aws.SubnetAssociation{ID: id, SubnetID: subnet})
	}
	return out
}

func (b *builder) buildTable(i int, raw *rawRouteTable) error {
	id, err := b.fabricID("RouteTables", "rtb", raw.RouteTableId, raw.VpcId, i)
	if id == "" {
		return err
	}
	t := aws.RouteTable{ID: id, Account: b.account, VPCID: b.id("vpc", raw.VpcId), Tags: tagsOf(raw.Tags)}
	t.Associations = b.associations("RouteTables", id, t.VPCID, raw.Associations)
	for _, a := range raw.Associations {
		if a.Main {
			t.Main = cmp.Or(a.RouteTableAssociationId, defaults.ID("rtbassoc", id))
		}
	}
	for _, r := range raw.Routes {
		route := aws.Route{PrefixListID: r.DestinationPrefixListId, Origin: r.Origin}
		if r.State == "blackhole" {
			route.State = r.State
		}
		for _, target := range []string{r.GatewayId, r.NatGatewayId, r.NetworkInterfaceId, r.VpcPeeringConnectionId, r.TransitGatewayId,
			r.EgressOnlyInternetGatewayId, r.LocalGatewayId, r.CarrierGatewayId, r.CoreNetworkArn, r.InstanceId} {
			route.Target = cmp.Or(route.Target, target)
		}
		if route.Target == "local" {
			continue
		}
		if route.Target == "" {
			route.Target, route.State = "unknown", "blackhole"
		}
		for prefix, given := range map[string]string{"igw": r.GatewayId, "eni": r.NetworkInterfaceId, "pcx": r.VpcPeeringConnectionId} {
			if given != "" && route.Target == given && (prefix != "igw" || len(given) > 3 && given[:3] == "igw") {
				route.Target = b.id(prefix, given)
			}
		}
		if text := cmp.Or(r.DestinationCidrBlock, r.DestinationIpv6CidrBlock); text != "" {
			if route.Destination, err = b.block("RouteTables", raw.RouteTableId, "Routes", text); err != nil {
				return err
			}
			route.PrefixListID = ""
		}
		t.Routes = append(t.Routes, route)
	}
	b.fabric.RouteTables = append(b.fabric.RouteTables, t)
	return nil
}

// lastEntry is the number of the entries at the end of every ACL, which need not be kept.
const lastEntry = aws.LastACLEntry

func (b *builder) buildACL(i int, raw *rawACL) error {
	id, err := b.fabricID("NetworkAcls", "acl", raw.NetworkAclId, raw.VpcId, i)
	if id == "" {
		return err
	}
	a := aws.NetworkACL{ID: id, Account: b.account, VPCID: b.id("vpc", raw.VpcId), Default: raw.IsDefault, Tags: tagsOf(raw.Tags)}
	a.Associations = b.associations("NetworkAcls", id, a.VPCID, raw.Associations)
	for _, e := range raw.Entries {
		if e.RuleNumber >= lastEntry {
			continue
		}
		entry := aws.ACLEntry{Number: e.RuleNumber, Egress: e.Egress, Allow: e.RuleAction == "allow", FromPort: e.PortRange.From, ToPort: e.PortRange.To}
		if entry.Protocol, err = strconv.Atoi(e.Protocol); err != nil {
			return b.fault("NetworkAcls", raw.NetworkAclId, "Protocol", "expected a number such as 6, or -1, found %q", e.Protocol)
		}
		if e.IcmpTypeCode != nil {
			entry.FromPort, entry.ToPort = e.IcmpTypeCode.Type, e.IcmpTypeCode.Code
		}
		if entry.CIDR, err = b.block("NetworkAcls", raw.NetworkAclId, "CidrBlock", cmp.Or(e.CidrBlock, e.Ipv6CidrBlock)); err != nil {
			return err
		}
		a.Entries = append(a.Entries, entry)
	}
	b.fabric.NetworkACLs = append(b.fabric.NetworkACLs, a)
	return nil
}

// joinAccounts makes one State of several accounts' ones.
func joinAccounts(all []aws.State) aws.State {
	var out aws.State
	for _, s := range all {
		at := slices.IndexFunc(out.Accounts, func(a aws.Account) bool { return a.ID == s.Accounts[0].ID })
		if at < 0 {
			out.Accounts = append(out.Accounts, s.Accounts...)
		} else {
			out.Accounts[at].Regions = append(out.Accounts[at].Regions, s.Accounts[0].Regions...)
		}
		out.Regions = append(out.Regions, s.Regions...)
		for _, p := range s.Peerings {
			if !slices.ContainsFunc(out.Peerings, func(x aws.PeeringConnection) bool { return x.ID == p.ID }) {
				out.Peerings = append(out.Peerings, p)
			}
		}
	}
	return out
}

// Accounts reads folders that hold one folder for each region: ACCOUNT/REGION.
func Accounts(from *source.Source, byFolder map[string][]Region) (aws.State, error) {
	var all []aws.State
	for _, folder := range slices.Sorted(maps.Keys(byFolder)) {
		account := ""
		if defaults.IsAccount(folder) {
			account = folder
		}
		s, err := Convert(from, byFolder[folder], account)
		if err != nil {
			return s, err
		}
		all = append(all, s)
	}
	return joinAccounts(all), nil
}
