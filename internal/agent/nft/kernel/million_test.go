package kernel_test

import (
	"net/netip"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
	"github.com/nephele-io/nephele/internal/agent/nft"
	"github.com/nephele-io/nephele/internal/agent/nft/nfttest"
	"github.com/nephele-io/nephele/internal/enforcer"
)

// TestMillionMembers enforces a rule about a group of a million members, one of which connects.
// Then the group loses that one, and at last all of them.
func TestMillionMembers(t *testing.T) {
	host, peer := nfttest.NewHost(t), nfttest.NewHost(t)
	server, client := netip.MustParseAddr("10.1.0.1"), netip.MustParseAddr("10.1.0.2")
	nfttest.Connect(t, host, peer, []netip.Prefix{netip.PrefixFrom(server, 24)}, []netip.Prefix{netip.PrefixFrom(client, 24)})
	nfttest.Serve(t, host, 80, 81, server)
	table := open(t, host)
	const members = 1_000_000
	group := func(first, n int) *v1beta2.AddressGroup {
		g := &v1beta2.AddressGroup{ObjectMeta: metav1.ObjectMeta{Name: "all"}, GroupMembers: make([]v1beta2.GroupMember, n)}
		for i := range g.GroupMembers {
			k := first + i
			a := netip.AddrFrom4([4]byte{10, byte(1 + k>>16), byte(k >> 8), byte(k)}).As4()
			g.GroupMembers[i].IPs = []v1beta2.IPAddress{a[:]}
		}
		return g
	}
	allow, tier, priority := v1beta2.RuleActionAllow, int32(250), 1.0
	policy := &v1beta2.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Name: "p"}, AppliedToGroups: []string{"host"}, TierPriority: &tier, Priority: &priority,
		Rules: []v1beta2.NetworkPolicyRule{{Direction: v1beta2.DirectionIn, Action: &allow, From: v1beta2.NetworkPolicyPeer{AddressGroups: []string{"all"}}}}}
	applied := &v1beta2.AppliedToGroup{ObjectMeta: metav1.ObjectMeta{Name: "host"}, GroupMembers: []v1beta2.GroupMember{{ExternalEntity: &v1beta2.ExternalEntityReference{Namespace: "n", Name: "h"}}}}
	var compiler nft.Compiler
	port := uint16(20000)
	for _, c := range []struct {
		what     string
		group    *v1beta2.AddressGroup
		elements int
		want     nfttest.Result
	}{
		{"with the client", group(2, members), members, nfttest.Passed},
		{"without it", group(3, members-1), members - 1, nfttest.Silent},
		{"with nobody", group(0, 0), 0, nfttest.Silent},
	} {
		in := enforcer.Computed{Policies: []*v1beta2.NetworkPolicy{policy}, AddressGroups: enforcer.NewAddressGroups([]*v1beta2.AddressGroup{c.group}), AppliedToGroups: []*v1beta2.AppliedToGroup{applied}}
		program := compiler.Compile(nft.Input{Computed: in}).Program
		if n := program.Elements(); n != c.elements {
			t.Fatalf("%s: %d elements, want %d", c.what, n, c.elements)
		}
		if _, err := table.Apply(program); err != nil {
			t.Fatalf("%s: %v", c.what, err)
		}
		limit := patient
		if c.want == nfttest.Silent {
			limit = 300 * time.Millisecond
		}
		port++
		a := nfttest.Attempt{From: peer, Network: "tcp", Source: netip.AddrPortFrom(client, port), Destination: netip.AddrPortFrom(server, 80)}
		if got, err := a.Run(limit); err != nil || got != c.want {
			t.Errorf("%s: %s, %v, want %s", c.what, got, err, c.want)
		}
	}
}
