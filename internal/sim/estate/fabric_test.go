package estate

import (
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nephele-io/nephele/internal/sim/aws"
	"github.com/nephele-io/nephele/internal/sim/aws/packet"
	"github.com/nephele-io/nephele/internal/sim/world"
)

// TestACLsOfADump holds a flow that the groups let through against the network ACL that the dump
// tells: the default one of a VPC that lets in one address only.
func TestACLsOfADump(t *testing.T) {
	s, _, err := HybridCloud()
	if err != nil {
		t.Fatal(err)
	}
	r := &s.Regions[0]
	if len(r.NetworkACLs) != 4 || len(r.RouteTables) != 5 || len(r.InternetGateways) != 3 {
		t.Fatalf("%d ACLs, %d route tables, %d gateways", len(r.NetworkACLs), len(r.RouteTables), len(r.InternetGateways))
	}
	// The VPC has no instance; one is put behind its ACL, in a group that lets everybody in.
	subnet, group := "subnet-1f315846", aws.GroupName{}
	for i := range r.SecurityGroups {
		if g := &r.SecurityGroups[i]; g.VPCID == "vpc-f8fad69d" && g.Name == "default" {
			group = aws.GroupName{ID: g.ID, Name: g.Name}
			g.Rules = append(g.Rules, aws.SecurityGroupRule{
				ID: "sgr-00000000000000001", GroupID: g.ID, Account: g.Account, Protocol: "tcp", FromPort: 0, ToPort: 65535,
				CIDR: netip.MustParsePrefix("0.0.0.0/0"),
			})
		}
	}
	r.NetworkInterfaces = append(r.NetworkInterfaces, aws.NetworkInterface{
		ID: "eni-00000000000000001", Account: r.Account, VPCID: "vpc-f8fad69d", SubnetID: subnet, Status: aws.StatusAvailable,
		Groups: []aws.GroupName{group}, PrivateIPs: []aws.PrivateIP{{Addr: netip.MustParseAddr("172.31.0.10"), Primary: true}},
	})
	w, err := world.New(s, world.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for from, want := range map[string]bool{"162.243.144.192": true, "203.0.113.7": false} {
		flow := packet.Flow{Src: packet.End{Addr: netip.MustParseAddr(from)}, Dst: packet.End{NIC: "eni-00000000000000001"}, Protocol: 6, Port: 3306}
		if passes, err := w.Passes(flow); err != nil || passes != want {
			t.Errorf("%s: passes: %t, %v", flow, passes, err)
		}
		v, err := w.Allowed(flow)
		if err != nil || v.Allowed != want || !want && !strings.Contains(v.Obstacle, "entry * of network ACL acl-4db39c28") {
			t.Errorf("from %s: %+v, %v", from, v, err)
		}
	}
}

// TestRoutesOfADump takes the routes of a dump: those that lead nowhere stop a flow, whatever the
// groups say.
func TestRoutesOfADump(t *testing.T) {
	load := func(routes string) *world.World {
		t.Helper()
		dir := t.TempDir()
		region := filepath.Join(dir, "eu-west-1")
		if err := os.Mkdir(region, 0o700); err != nil {
			t.Fatal(err)
		}
		for name, text := range map[string]string{
			"Vpcs.json":    `{"Vpcs": [{"VpcId": "vpc-00000001", "OwnerId": "111122223333", "CidrBlock": "10.0.0.0/16"}]}`,
			"Subnets.json": `{"Subnets": [{"SubnetId": "subnet-00000001", "VpcId": "vpc-00000001", "CidrBlock": "10.0.1.0/24", "AvailabilityZone": "eu-west-1a"}]}`,
			"SecurityGroups.json": `{"SecurityGroups": [{"GroupId": "sg-00000001", "GroupName": "default", "Description": "d", "VpcId": "vpc-00000001",
				"IpPermissionsEgress": [{"IpProtocol": "-1", "IpRanges": [{"CidrIp": "0.0.0.0/0"}]}]}]}`,
			"NetworkInterfaces.json": `{"NetworkInterfaces": [{"NetworkInterfaceId": "eni-00000001", "SubnetId": "subnet-00000001", "VpcId": "vpc-00000001",
				"Groups": [{"GroupId": "sg-00000001", "GroupName": "default"}], "PrivateIpAddresses": [{"PrivateIpAddress": "10.0.1.4", "Primary": true}]}]}`,
			"RouteTables.json": `{"RouteTables": [{"RouteTableId": "rtb-00000001", "VpcId": "vpc-00000001", "Associations": [{"Main": true, "RouteTableAssociationId": "rtbassoc-00000001"}],
				"Routes": [{"DestinationCidrBlock": "10.0.0.0/16", "GatewayId": "local"}` + routes + `]}]}`,
		} {
			if err := os.WriteFile(filepath.Join(region, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		s, _, err := Load(dir)
		if err != nil {
			t.Fatal(err)
		}
		w, err := world.New(s, world.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return w
	}
	for routes, want := range map[string]string{
		``: "has no route to 203.0.113.7",
		`, {"DestinationCidrBlock": "0.0.0.0/0", "NatGatewayId": "nat-00000001"}`:                                                                                                "",
		`, {"DestinationCidrBlock": "0.0.0.0/0", "NatGatewayId": "nat-00000001"}, {"DestinationCidrBlock": "203.0.113.0/24", "TransitGatewayId": "tgw-1", "State": "blackhole"}`: "is a black hole: tgw-1",
	} {
		v, err := load(routes).Allowed(packet.Flow{Src: packet.End{NIC: "eni-00000001"}, Dst: packet.End{Addr: netip.MustParseAddr("203.0.113.7")}, Protocol: 6, Port: 443})
		if err != nil || v.Allowed != (want == "") || !strings.Contains(v.Obstacle, want) {
			t.Errorf("%s: %+v, %v", routes, v, err)
		}
	}
}

// TestFoldersOfAccounts reads ACCOUNT/REGION: each account has its folder, and a key of its own.
func TestFoldersOfAccounts(t *testing.T) {
	dir := t.TempDir()
	for account, vpc := range map[string]string{"111122223333": "vpc-00000001", "444455556666": "vpc-00000002"} {
		for _, region := range []string{"eu-west-1", "us-east-1"} {
			at := filepath.Join(dir, account, region)
			if err := os.MkdirAll(at, 0o700); err != nil {
				t.Fatal(err)
			}
			text := `{"Vpcs": []}`
			if region == "eu-west-1" {
				text = `{"Vpcs": [{"VpcId": "` + vpc + `", "CidrBlock": "10.0.0.0/16"}]}`
			}
			if err := os.WriteFile(filepath.Join(at, "describe-vpcs.json"), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	s, _ := mustLoad(t, dir)
	if len(s.Accounts) != 2 || len(s.Regions) != 4 || len(s.Credentials) != 2 || s.Credentials[1].AccessKeyID != DefaultAccessKeyID+"2" {
		t.Fatalf("%+v", s)
	}
	for _, r := range s.Regions {
		if want := r.Name == "eu-west-1"; (len(r.VPCs) == 1) != want || want && r.VPCs[0].Account != r.Account {
			t.Errorf("%s %s: %+v", r.Account, r.Name, r.VPCs)
		}
	}
	if err := os.MkdirAll(filepath.Join(dir, "eu-west-1"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "eu-west-1", "Vpcs.json"), []byte(`{"Vpcs": []}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := Load(dir); err == nil || !strings.Contains(err.Error(), "found both") {
		t.Errorf("regions beside accounts: %v", err)
	}
}
