package aws_test

import (
	"errors"
	"testing"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/sim"
)

// TestACLsWithoutTheRight: credentials that may enforce may lack the right to read network ACLs,
// which is an error of its class and no empty list.
func TestACLsWithoutTheRight(t *testing.T) {
	t.Parallel()
	l := newRestrictedLab(t, "enforce.json")
	acls, err := l.provider.NetworkACLs(t.Context(), l.scope())
	var refused *cloud.Error
	if !errors.As(err, &refused) || refused.Class != cloud.Auth || acls != nil {
		t.Errorf("%v, %v", acls, err)
	}
}

// TestACLsAreRead reads the ACLs of the built-in account: one that lets one address in.
func TestACLsAreRead(t *testing.T) {
	t.Parallel()
	l := newLab(t, sim.Options{})
	acls, err := l.provider.NetworkACLs(t.Context(), l.scope())
	if err != nil || len(acls) != 4 {
		t.Fatalf("%d ACLs, %v", len(acls), err)
	}
	for _, a := range acls {
		if a.ID != "acl-4db39c28" {
			continue
		}
		if len(a.SubnetIDs) != 3 || len(a.Entries) != 2 {
			t.Fatalf("%+v", a)
		}
		for _, e := range a.Entries {
			if !e.Egress && (e.Protocol != cloud.TCP || e.From != 3306 || e.To != 3306 || !e.Allow || len(e.Peers) != 1 || e.Peers[0].String() != "162.243.144.192/32") {
				t.Errorf("entry %+v", e)
			}
		}
	}
}
