package aws

import (
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"
)

func num(n int32) *int32 { return &n }

// TestExpand: permissions come out in the one spelling that the cloud has for them, one rule per
// peer, or are refused with its code.
func TestExpand(t *testing.T) {
	for _, c := range []struct {
		name string
		p    Permission
		want []string
		code string
	}{
		{"a number is a name", Permission{Protocol: "6", FromPort: num(80), ToPort: num(81), CIDRs: []CIDRPeer{{CIDR: "10.1.2.3/16"}}}, []string{"tcp 80-81 from 10.1.0.0/16"}, ""},
		{"one port", Permission{Protocol: "UDP", FromPort: num(53), ToPort: num(53), CIDRs: []CIDRPeer{{CIDR: "::/0", IPv6: true}}}, []string{"udp 53 from ::/0"}, ""},
		{"ports of all protocols are ignored", Permission{Protocol: "all", FromPort: num(1), CIDRs: []CIDRPeer{{CIDR: "0.0.0.0/0"}}}, []string{"all from 0.0.0.0/0"}, ""},
		{"one rule per peer", Permission{Protocol: "-1", CIDRs: []CIDRPeer{{CIDR: "10.0.0.0/8"}}, Groups: []GroupRef{{GroupID: "sg-00000001"}}, PrefixLists: []PrefixListPeer{{PrefixListID: "pl-00000001"}}},
			[]string{"all from 10.0.0.0/8", "all from sg-00000001", "all from pl-00000001"}, ""},
		{"ICMP type and code", Permission{Protocol: "icmp", FromPort: num(3), ToPort: num(4), CIDRs: []CIDRPeer{{CIDR: "0.0.0.0/0"}}}, []string{"icmp 3/4 from 0.0.0.0/0"}, ""},
		{"all of ICMPv6", Permission{Protocol: "58", CIDRs: []CIDRPeer{{CIDR: "::/0", IPv6: true}}}, []string{"icmpv6 from ::/0"}, ""},
		{"no protocol", Permission{CIDRs: []CIDRPeer{{CIDR: "0.0.0.0/0"}}}, nil, "InvalidParameterValue"},
		{"unknown protocol", Permission{Protocol: "256", CIDRs: []CIDRPeer{{CIDR: "0.0.0.0/0"}}}, nil, "InvalidParameterValue"},
		{"no port", Permission{Protocol: "tcp", CIDRs: []CIDRPeer{{CIDR: "0.0.0.0/0"}}}, nil, "InvalidParameterValue"},
		{"ports upside down", Permission{Protocol: "tcp", FromPort: num(2), ToPort: num(1), CIDRs: []CIDRPeer{{CIDR: "0.0.0.0/0"}}}, nil, "InvalidParameterValue"},
		{"other family", Permission{Protocol: "-1", CIDRs: []CIDRPeer{{CIDR: "::/0"}}}, nil, "InvalidParameterValue"},
		{"no peer", Permission{Protocol: "-1"}, nil, "InvalidPermission.Malformed"},
		{"a peer twice", Permission{Protocol: "-1", CIDRs: []CIDRPeer{{CIDR: "10.0.0.0/8"}, {CIDR: "10.1.0.0/8"}}}, nil, "InvalidParameterValue"},
		{"a malformed group", Permission{Protocol: "-1", Groups: []GroupRef{{GroupID: "sg-x"}}}, nil, "InvalidGroupId.Malformed"},
		{"a description with a quote", Permission{Protocol: "-1", CIDRs: []CIDRPeer{{CIDR: "10.0.0.0/8", Description: `"`}}}, nil, "InvalidParameterValue"},
	} {
		t.Run(c.name, func(t *testing.T) {
			rules, err := Expand("sg-00000009", "111111111111", false, []Permission{c.p})
			var refusal *Error
			if errors.As(err, &refusal) != (c.code != "") || refusal != nil && refusal.Code != c.code {
				t.Fatalf("%v, want %q", err, c.code)
			}
			var got []string
			for i := range rules {
				got = append(got, rules[i].String())
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("%v, want %v", got, c.want)
			}
		})
	}
}

// TestIDs: a refusal has the code of the kind of resource.
func TestIDs(t *testing.T) {
	for id, want := range map[string]string{
		"sg-00000001": "InvalidGroup.NotFound: The security group 'sg-00000001' does not exist", "i-0123456789abcdef0": "InvalidInstanceID.NotFound: The instance ID 'i-0123456789abcdef0' does not exist",
		"vol-00000001": "InvalidID: The ID 'vol-00000001' is not valid",
	} {
		if got := NotFound(id).Error(); got != want {
			t.Errorf("%s: %s", id, got)
		}
	}
	for id, good := range map[string]bool{"eni-00000001": true, "eni-0123456789abcdef0": true, "eni-0000000g": false, "eni-000000001": false, "i-00000001": false} {
		if err := CheckID("eni", id); (err == nil) != good {
			t.Errorf("%s: %v", id, err)
		}
	}
}

// TestCheck finds what does not fit together in a State.
func TestCheck(t *testing.T) {
	sound := func() State {
		return State{
			Accounts: []Account{{ID: "111111111111"}},
			Regions: []RegionState{{
				Account: "111111111111", Name: "us-east-1",
				VPCs:           []VPC{{ID: "vpc-00000001", CIDRs: []CIDRBlock{{Prefix: netip.MustParsePrefix("10.0.0.0/16")}}}},
				Subnets:        []Subnet{{ID: "subnet-00000001", VPCID: "vpc-00000001"}},
				SecurityGroups: []SecurityGroup{{ID: "sg-00000001", VPCID: "vpc-00000001", Name: DefaultGroup}},
				NetworkInterfaces: []NetworkInterface{{ID: "eni-00000001", VPCID: "vpc-00000001", SubnetID: "subnet-00000001", Groups: []GroupName{{ID: "sg-00000001", Name: DefaultGroup}},
					PrivateIPs: []PrivateIP{{Addr: netip.MustParseAddr("10.0.0.4"), Primary: true}}}},
			}},
		}
	}
	for want, spoil := range map[string]func(s *State, r *RegionState){
		"":                         func(*State, *RegionState) {},
		"expected 12 digits":       func(s *State, _ *RegionState) { s.Accounts[0].ID = "x" },
		"expected a known account": func(_ *State, r *RegionState) { r.Account = "222222222222" },
		"this program reads":       func(s *State, _ *RegionState) { s.Version = StateVersion + 1 },
		"appears twice":            func(_ *State, r *RegionState) { r.SecurityGroups[0].ID = r.VPCs[0].ID },
		"has no group named":       func(_ *State, r *RegionState) { r.SecurityGroups[0].Name = "other" },
		"there is no subnet":       func(_ *State, r *RegionState) { r.NetworkInterfaces[0].SubnetID = "subnet-00000002" },
		"at least one security":    func(_ *State, r *RegionState) { r.NetworkInterfaces[0].Groups = nil },
		"expected one primary":     func(_ *State, r *RegionState) { r.NetworkInterfaces[0].PrivateIPs[0].Primary = false },
		"10.0.0.1/16 is not":       func(_ *State, r *RegionState) { r.VPCs[0].CIDRs[0].Prefix = netip.MustParsePrefix("10.0.0.1/16") },
		"at most 1000 can": func(s *State, _ *RegionState) {
			s.Accounts[0].Quotas = Quotas{GroupsPerInterface: 16, RulesPerGroup: 100}
		},
		"expected one peer": func(_ *State, r *RegionState) {
			r.SecurityGroups[0].Rules = []SecurityGroupRule{{ID: "sgr-00000001", GroupID: "sg-00000001", Protocol: "-1", FromPort: -1, ToPort: -1}}
		},
		`protocol "6" is not canon`: func(_ *State, r *RegionState) {
			r.SecurityGroups[0].Rules = []SecurityGroupRule{{ID: "sgr-00000001", GroupID: "sg-00000001", Protocol: "6"}}
		},
	} {
		s := sound()
		spoil(&s, &s.Regions[0])
		if err := s.Check(); (err != nil) != (want != "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
