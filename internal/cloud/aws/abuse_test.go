package aws_test

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/aws"
	"github.com/nephele-io/nephele/internal/sim"
	simaws "github.com/nephele-io/nephele/internal/sim/aws"
	"github.com/nephele-io/nephele/internal/sim/estate"
)

// TestAbuse reads an account that somebody has made as awkward as the cloud lets them; see
// docs/failures.md.
func TestAbuse(t *testing.T) {
	t.Parallel()
	state, _, err := estate.HybridCloud()
	if err != nil {
		t.Fatal(err)
	}
	state.Accounts[0].Quotas.GroupsPerInterface = 16
	state.Regions[0].SecurityGroups[0].Rules = append(state.Regions[0].SecurityGroups[0].Rules, simaws.SecurityGroupRule{
		ID: "sgr-000000000000000aa", GroupID: state.Regions[0].SecurityGroups[0].ID, Account: state.Accounts[0].ID, Protocol: "tcp", FromPort: 1, ToPort: 1,
		CIDR: netip.MustParsePrefix("203.0.113.0/24"), Description: "\x1b]0;owned\x07\x00 & <b> \u2028 \xff"})
	l := newLab(t, sim.Options{State: state})
	var sixteen []string
	groups := 0
	for _, g := range state.Regions[0].SecurityGroups {
		if g.VPCID == network {
			groups++
		}
	}
	for i := len(state.Regions[0].SecurityGroups); i < 2500; i++ {
		g, err := l.region().Groups().CreateSecurityGroup(simaws.CreateSecurityGroupInput{Name: fmt.Sprintf("nephele-%d", i), Description: "d", VPCID: network,
			Tags: simaws.Tags{cloud.TagCluster: "forged", cloud.TagKind: cloud.KindClass, cloud.TagClass: "\u202e", cloud.TagAccount: "ns/account"}})
		if err != nil {
			t.Fatal(err)
		}
		if groups++; len(sixteen) < 16 {
			sixteen = append(sixteen, g.ID)
		}
	}
	nic := ""
	for _, n := range state.Regions[0].NetworkInterfaces {
		if n.VPCID == network {
			nic = n.ID
		}
	}
	if err := l.region().Interfaces().ModifyNetworkInterfaceGroups(nic, sixteen); err != nil {
		t.Fatal(err)
	}
	s, err := l.open(aws.Config{PageSize: 100}).Observe(t.Context(), l.scope())
	if err != nil {
		t.Fatal(err)
	}
	seen, odd := 0, 0
	for i := range s.Groups {
		g := &s.Groups[i]
		if g.NetworkID == network {
			seen++
		}
		if g.OwnedBy("c") {
			t.Errorf("%s is taken for ours", g.ID)
		}
		for _, r := range g.Rules {
			if r.Peer.CIDR == prefix("203.0.113.0/24") && r.Match == cloud.NewMatch(cloud.TCP, 1, 1) {
				odd++
			}
		}
	}
	if seen != groups || len(s.Groups) != 2500 {
		t.Errorf("%d groups of the VPC, %d in all; want %d and 2500", seen, len(s.Groups), groups)
	}
	for _, n := range s.Interfaces {
		if n.ID == nic && len(n.GroupIDs) != 16 {
			t.Errorf("%s holds %d groups", n.ID, len(n.GroupIDs))
		}
	}
	if odd != 1 {
		t.Errorf("the rule with the odd description is there %d times", odd)
	}
	_, err = l.provider.Apply(t.Context(), l.scope(), cloud.Op{Kind: cloud.OpCreateGroup, Group: cloud.GroupSpec{NetworkID: network, Name: "nephele-one-more",
		Tags: map[string]string{cloud.TagCluster: "c"}}})
	if cloud.ClassOf(err) != cloud.Quota {
		t.Errorf("the 2,501st group: %v", err)
	}
}
