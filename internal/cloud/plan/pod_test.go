package plan_test

import (
	"net/netip"
	"testing"

	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
	"github.com/nephele-io/nephele/internal/cloud/plan"
)

// TestPodsWithAddressesOfTheNetwork: with the cloud's own CNI a Pod has an address of the VPC. It
// is admitted by this address, and a VM elsewhere that happens to have an address of the same range
// is not.
func TestPodsWithAddressesOfTheNetwork(t *testing.T) {
	e := small()
	f := e.cloud()
	settle(t, e, f, func(in *plan.Input) {
		ip := func(text string) v1beta2.IPAddress {
			a := netip.MustParseAddr(text).As16()
			return a[:]
		}
		g := *in.AddressGroups[0]
		g.GroupMembers = append(g.GroupMembers[:len(g.GroupMembers):len(g.GroupMembers)],
			v1beta2.GroupMember{Pod: &v1beta2.PodReference{Namespace: "shop", Name: "web"}, IPs: []v1beta2.IPAddress{ip("10.0.0.77")}},
			v1beta2.GroupMember{ExternalEntity: &v1beta2.ExternalEntityReference{Namespace: "other", Name: "vm"}, IPs: []v1beta2.IPAddress{ip("10.0.0.78"), ip("192.0.2.78")}},
		)
		in.AddressGroups[0] = &g
	})
	for from, want := range map[string]bool{"10.0.0.77": true, "10.0.0.78": false, "192.0.2.78": true, "10.0.0.79": false} {
		if got := admits(f, 0, from, "", 80); got != want {
			t.Errorf("from %s: admitted=%v, want %v", from, got, want)
		}
	}
}
