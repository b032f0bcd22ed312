package compute_test

import (
	"slices"
	"testing"

	"github.com/nephele-io/nephele/internal/policy"
	"github.com/nephele-io/nephele/internal/policy/compute"
)

// TestGroupsKeepTheWrittenOrder: enforcers get the groups of a policy in the order in which it
// names them, for agents make the identities of rules from it; turned round in the policy, they are
// turned round there.
func TestGroupsKeepTheWrittenOrder(t *testing.T) {
	roles := []string{"web", "db", "cache", "app"}
	compute := func(order []string) ([]string, []string) {
		t.Helper()
		e := compute.New(compute.Options{})
		p := policy.Policy{Kind: policy.AntreaNetworkPolicy, Namespace: "vms", Name: "p", UID: "u", Priority: 5}
		var peers []policy.Peer
		for _, role := range order {
			s := &policy.Selector{MatchLabels: map[string]string{"role": role}}
			p.AppliedTo = append(p.AppliedTo, policy.AppliedTo{ExternalEntitySelector: s}, policy.AppliedTo{ExternalEntitySelector: s})
			peers = append(peers, policy.Peer{ExternalEntitySelector: s})
		}
		p.Ingress = []policy.Rule{{Action: policy.Allow, Peers: peers}}
		e.PutPolicy(p)
		delta := e.Commit()
		if len(delta.Policies) != 1 || len(delta.Problems) != 0 {
			t.Fatalf("%+v", delta)
		}
		out := delta.Policies[0].Policy
		return out.AppliedToGroups, out.Rules[0].AddressGroups
	}
	applied, peers := compute(roles)
	turned := slices.Clone(roles)
	slices.Reverse(turned)
	turnedApplied, turnedPeers := compute(turned)
	slices.Reverse(turnedApplied)
	slices.Reverse(turnedPeers)
	if len(applied) != len(roles) || len(peers) != len(roles) || !slices.Equal(applied, turnedApplied) || !slices.Equal(peers, turnedPeers) {
		t.Errorf("applied to %v and %v, peers %v and %v", applied, turnedApplied, peers, turnedPeers)
	}
}
