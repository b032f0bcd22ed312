package estate

import (
	"net/netip"
	"testing"

	"github.com/nephele-io/nephele/internal/sim/aws"
	"github.com/nephele-io/nephele/internal/sim/aws/packet"
	"github.com/nephele-io/nephele/internal/sim/world"
)

const (
	aDefaultGroup = `{"SecurityGroups": [{"GroupId": "sg-00000000000000001", "GroupName": "default", "VpcId": "vpc-00000000000000001",
		"IpPermissions": [{"IpProtocol": "-1", "UserIdGroupPairs": [{"GroupId": "sg-00000000000000001"}]}],
		"IpPermissionsEgress": [{"IpProtocol": "-1", "IpRanges": [{"CidrIp": "0.0.0.0/0"}]}]}]}`
	inSubnet = `"VpcId": "vpc-00000000000000001", "SubnetId": "subnet-00000000000000001", "OwnerId": "111122223333", `
)

// loadedWorld brings the region folder to life.
func loadedWorld(t *testing.T, change map[string]string) (*world.World, aws.RegionState) {
	t.Helper()
	s, _, err := LoadFS(regionFiles(change), ".")
	if err != nil {
		t.Fatal(err)
	}
	w, err := world.New(s, world.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return w, s.Regions[0]
}

func passes(t *testing.T, w *world.World, from, to string) bool {
	t.Helper()
	end := func(text string) packet.End {
		return packet.End{Addr: netip.MustParseAddr(text), VPC: "vpc-00000000000000001"}
	}
	v, err := w.Allowed(packet.Flow{Src: end(from), Dst: end(to), Protocol: 6, Port: 5432})
	if err != nil {
		t.Fatalf("%s to %s: %v", from, to, err)
	}
	return v.Allowed
}

// TestInterfacesWithoutGroups: interfaces of services that hold no group are no members of the
// default group, and nothing filters them; every other one holds a group.
func TestInterfacesWithoutGroups(t *testing.T) {
	w, r := loadedWorld(t, map[string]string{"SecurityGroups": aDefaultGroup, "NetworkInterfaces": `{"NetworkInterfaces": [
		{` + inSubnet + `"NetworkInterfaceId": "eni-00000000000000001", "InterfaceType": "nat_gateway", "PrivateIpAddress": "10.0.0.11", "Groups": []},
		{` + inSubnet + `"NetworkInterfaceId": "eni-00000000000000002", "InterfaceType": "transit_gateway", "PrivateIpAddress": "10.0.0.12", "Groups": null},
		{` + inSubnet + `"NetworkInterfaceId": "eni-00000000000000003", "InterfaceType": "interface", "RequesterManaged": true, "PrivateIpAddress": "10.0.0.13", "Groups": []},
		{` + inSubnet + `"NetworkInterfaceId": "eni-00000000000000004", "InterfaceType": "interface", "PrivateIpAddress": "10.0.0.14"},
		{` + inSubnet + `"NetworkInterfaceId": "eni-00000000000000005", "PrivateIpAddress": "10.0.0.15", "Groups": [{"GroupId": "sg-00000000000000001", "GroupName": "default"}]}
	]}`})
	for _, n := range r.NetworkInterfaces {
		want := 0
		if n.ID >= "eni-00000000000000004" {
			want = 1
		}
		if len(n.Groups) != want {
			t.Errorf("%s (%s) holds %v", n.ID, n.InterfaceType, n.Groups)
		}
	}
	for from, want := range map[string]bool{"10.0.0.11": false, "10.0.0.12": false, "10.0.0.13": false, "10.0.0.14": true} {
		if got := passes(t, w, from, "10.0.0.15"); got != want {
			t.Errorf("from %s by the default group: %v", from, got)
		}
	}
	if !passes(t, w, "10.0.0.15", "10.0.0.11") {
		t.Error("something filters a NAT gateway")
	}
}

// TestDelegatedBlocks: the blocks that are delegated to an interface are its addresses.
func TestDelegatedBlocks(t *testing.T) {
	w, r := loadedWorld(t, map[string]string{"SecurityGroups": aDefaultGroup, "NetworkInterfaces": `{"NetworkInterfaces": [
		{` + inSubnet + `"NetworkInterfaceId": "eni-00000000000000001", "PrivateIpAddress": "10.0.0.11", "Groups": [{"GroupId": "sg-00000000000000001", "GroupName": "default"}],
			"Ipv4Prefixes": [{"Ipv4Prefix": "10.0.0.128/28"}], "Ipv6Prefixes": [{"Ipv6Prefix": "2001:db8:1::/80"}]},
		{` + inSubnet + `"NetworkInterfaceId": "eni-00000000000000002", "PrivateIpAddress": "10.0.0.15", "Groups": [{"GroupId": "sg-00000000000000001", "GroupName": "default"}]}
	]}`})
	if got := r.NetworkInterfaces[0].Prefixes; len(got) != 2 {
		t.Fatalf("delegated: %v", got)
	}
	for from, want := range map[string]bool{"10.0.0.11": true, "10.0.0.128": true, "10.0.0.143": true, "10.0.0.144": false} {
		if got := passes(t, w, from, "10.0.0.15"); got != want {
			t.Errorf("from %s: %v", from, got)
		}
	}
	_, _, err := LoadFS(regionFiles(map[string]string{"NetworkInterfaces": `{"NetworkInterfaces": [{` + inSubnet +
		`"NetworkInterfaceId": "eni-00000000000000001", "PrivateIpAddress": "10.0.0.11", "Ipv4Prefixes": [{"Ipv4Prefix": "2001:db8::/80"}]}]}`}), ".")
	if err == nil {
		t.Error("a block of the other family is taken")
	}
}

// TestIPv6Alone: a subnet and an instance may have no IPv4 address at all.
func TestIPv6Alone(t *testing.T) {
	_, r := loadedWorld(t, map[string]string{
		"SecurityGroups": aDefaultGroup,
		"Vpcs": `{"Vpcs": [{"VpcId": "vpc-00000000000000001", "OwnerId": "111122223333", "CidrBlock": "10.0.0.0/16",
			"Ipv6CidrBlockAssociationSet": [{"Ipv6CidrBlock": "2001:db8:1::/56"}]}]}`,
		"Subnets": `{"Subnets": [{"SubnetId": "subnet-00000000000000001", "VpcId": "vpc-00000000000000001",
			"Ipv6CidrBlockAssociationSet": [{"Ipv6CidrBlock": "2001:db8:1:6::/64"}]}]}`,
		"Reservations": `{"Reservations": [{"Instances": [
			{"InstanceId": "i-00000000000000001", "VpcId": "vpc-00000000000000001", "SubnetId": "subnet-00000000000000001", "Ipv6Address": "2001:db8:1:6::5"},
			{"InstanceId": "i-00000000000000002", "VpcId": "vpc-00000000000000001", "SubnetId": "subnet-00000000000000009", "Ipv6Address": "2001:db8:1:7::5"}]}]}`,
	})
	if r.Subnets[0].CIDR.IsValid() || len(r.Subnets[0].IPv6) != 1 {
		t.Errorf("subnet %+v", r.Subnets[0])
	}
	if len(r.NetworkInterfaces) != 2 {
		t.Fatalf("%d interfaces", len(r.NetworkInterfaces))
	}
	for _, n := range r.NetworkInterfaces {
		if len(n.PrivateIPs) != 0 || len(n.IPv6) != 1 {
			t.Errorf("%s has %v and %v", n.ID, n.PrivateIPs, n.IPv6)
		}
	}
}
