package aws_test

import (
	"net/netip"
	"reflect"
	"testing"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/sim"
	"github.com/nephele-io/nephele/internal/sim/aws"
	"github.com/nephele-io/nephele/internal/sim/ec2"
)

// TestReferencesOfOtherAccounts: what rules of another account refer to over a peering is told, and
// asked only where there is such a peering.
func TestReferencesOfOtherAccounts(t *testing.T) {
	t.Parallel()
	const action = "DescribeSecurityGroupReferences"
	state := crowd(3)
	home := state.Regions[0]
	const other, peering, far = "444455556666", "pcx-00000000000000001", "vpc-00000000000000fff"
	referred := home.SecurityGroups[2].ID
	state.Accounts = append(state.Accounts, aws.Account{ID: other, Regions: []string{region}})
	state.Regions = append(state.Regions, aws.RegionState{
		Account: other, Name: region,
		VPCs: []aws.VPC{{ID: far, Account: other, State: "available", CIDRs: []aws.CIDRBlock{{Prefix: netip.MustParsePrefix("10.99.0.0/16")}}}},
		SecurityGroups: []aws.SecurityGroup{{ID: "sg-00000000000000fff", Account: other, VPCID: far, Name: "default", Description: "d", Rules: []aws.SecurityGroupRule{{
			ID: "sgr-00000000000000fff", GroupID: "sg-00000000000000fff", Account: other, Protocol: "tcp", FromPort: 22, ToPort: 22,
			Group: &aws.GroupPeer{GroupID: referred, UserID: home.Account, VPCID: home.VPCs[0].ID, PeeringID: peering},
		}}}},
	})
	l := newLab(t, sim.Options{State: state})
	observe := func() *cloud.Snapshot {
		t.Helper()
		s, err := l.provider.Observe(t.Context(), l.scope())
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	if s := observe(); len(s.References) != 0 || l.server.Journal().Counts()[action] != 0 {
		t.Errorf("without a peering %+v, %d calls", s.References, l.server.Journal().Counts()[action])
	}
	end := func(account, vpc string) aws.PeeringVPC {
		return aws.PeeringVPC{VPCID: vpc, Account: account, Region: region}
	}
	if _, err := l.server.World().AddPeering(aws.PeeringConnection{ID: peering, Requester: end(other, far), Accepter: end(home.Account, home.VPCs[0].ID)}); err != nil {
		t.Fatal(err)
	}
	want := []cloud.Reference{{GroupID: referred, NetworkID: far, OwnerID: other, PeeringID: peering}}
	whole := observe()
	if !reflect.DeepEqual(whole.References, want) {
		t.Errorf("%+v", whole.References)
	}
	l.server.Faults().Add(ec2.Fault{Action: action, Code: "InvalidGroup.NotFound", Times: 1}) // a group went while others were asked about
	if s := observe(); !reflect.DeepEqual(s.References, want) {
		t.Errorf("while a group goes %+v", s.References)
	}
	s, err := l.provider.Refresh(t.Context(), whole, []string{referred})
	if err != nil || !reflect.DeepEqual(s.References, want) {
		t.Errorf("refreshed %+v, %v", s, err)
	}
	l.server.Faults().Add(ec2.Fault{Action: action, Code: "UnauthorizedOperation", Times: 1})
	if _, err := l.provider.Observe(t.Context(), l.scope()); cloud.ClassOf(err) != cloud.Auth {
		t.Errorf("without the right to ask: %v", err)
	}
}
