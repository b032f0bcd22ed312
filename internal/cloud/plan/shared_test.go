package plan_test

import (
	"net/netip"
	"testing"

	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
	"github.com/nephele-io/nephele/internal/cloud/plan"
)

// TestMembersOfASharedNetwork: a VM of another account is admitted by its addresses in a network
// that both accounts see, and by none of its other ones; one in a network that this account does
// not see stays a stranger with addresses of this network.
func TestMembersOfASharedNetwork(t *testing.T) {
	e := small()
	f := e.cloud()
	var network string
	settle(t, e, f, func(in *plan.Input) {
		ip := func(text string) v1beta2.IPAddress {
			a := netip.MustParseAddr(text).As16()
			return a[:]
		}
		member := func(name string, ips ...v1beta2.IPAddress) v1beta2.GroupMember {
			return v1beta2.GroupMember{ExternalEntity: &v1beta2.ExternalEntityReference{Namespace: "other", Name: name}, IPs: ips}
		}
		g := *in.AddressGroups[0]
		g.GroupMembers = append(g.GroupMembers[:len(g.GroupMembers):len(g.GroupMembers)],
			member("here", ip("10.0.0.77"), ip("192.0.2.77")), member("unseen", ip("10.0.0.78")), member("unknown", ip("10.0.0.79")))
		in.AddressGroups[0] = &g
		for _, n := range in.Regions[0].Snapshot.Networks {
			for _, c := range n.CIDRs {
				if c.Contains(netip.MustParseAddr("10.0.0.77")) {
					network = n.ID
				}
			}
		}
		in.Shared = map[plan.EntityRef]string{{Namespace: "other", Name: "here"}: network, {Namespace: "other", Name: "unseen"}: "vpc-unseen"}
	})
	for from, want := range map[string]bool{"10.0.0.77": true, "192.0.2.77": false, "10.0.0.78": false, "10.0.0.79": false} {
		if got := admits(f, 0, from, "", 80); got != want {
			t.Errorf("from %s: admitted=%v, want %v", from, got, want)
		}
	}
}
