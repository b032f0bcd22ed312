package kernel_test

import (
	"net/netip"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
	"github.com/nephele-io/nephele/internal/agent/nft"
	"github.com/nephele-io/nephele/internal/agent/nft/kernel"
	"github.com/nephele-io/nephele/internal/agent/nft/nfttest"
	"github.com/nephele-io/nephele/internal/agent/nft/ruleset"
	"github.com/nephele-io/nephele/internal/enforcer"
)

// TestBehindASwitchThatSnoops isolates what a host sends, behind a switch that brings multicast
// only to the hosts that have asked for it. The host stays reachable by IPv6: it goes on reporting
// its groups. Without the rules for that it does not, which shows that the switch does snoop.
func TestBehindASwitchThatSnoops(t *testing.T) {
	if _, err := exec.LookPath("ip"); err != nil {
		t.Skip("not proven: there is no program ip (iproute2), by which the bridge is configured")
	}
	host, peer, bridge := nfttest.NewHost(t), nfttest.NewHost(t), nfttest.NewHost(t)
	in := func(h *nfttest.Host, commands string) string {
		t.Helper()
		var out []byte
		err := h.Do(func() (err error) {
			out, err = exec.Command("sh", "-ec", commands).CombinedOutput() // a child is where its thread is
			return err
		})
		if err != nil {
			t.Fatalf("%s: %v: %s", commands, err, out)
		}
		return string(out)
	}
	const here, there = "2001:db8:5::1", "2001:db8:5::2"
	ports := []*nfttest.Host{host, peer}
	for i, h := range ports {
		nfttest.Connect(t, h, bridge, nil, nil)
		name := strings.Fields(strings.ReplaceAll(in(h, "ip -o link show type veth"), "@", ": "))[1]
		in(h, "ip link set "+strings.TrimSuffix(name, ":")+" name eth0; ip addr add "+[]string{here, there}[i]+"/64 dev eth0 nodad; ip link set eth0 up")
	}
	// Times are in hundredths of a second: a host that has not reported for 1.2 seconds has left.
	in(bridge, `ip link add br0 type bridge mcast_snooping 1 mcast_querier 1 mcast_query_interval 40 mcast_query_response_interval 20 \
  mcast_membership_interval 120 mcast_startup_query_interval 10 mcast_querier_interval 100 mcast_mld_version 2
for n in $(ip -o link show type veth | awk -F': ' '{print $2}' | cut -d@ -f1); do ip link set $n master br0; done
echo 0 > /proc/sys/net/ipv6/conf/br0/accept_dad
ip link set br0 up`)
	nfttest.Serve(t, host, 80, 80, netip.MustParseAddr(here))
	var table *kernel.Table
	if err := host.Do(func() (err error) { table, err = kernel.Open(kernel.DefaultTable); return err }); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = table.Close() })
	port := uint16(20000)
	reaches := func(limit time.Duration) bool {
		t.Helper()
		in(peer, "ip -6 neigh flush dev eth0")
		port++
		got, err := nfttest.Attempt{From: peer, Network: "tcp", Source: netip.AddrPortFrom(netip.MustParseAddr(there), port), Destination: netip.AddrPortFrom(netip.MustParseAddr(here), 80)}.Run(limit)
		if err != nil {
			t.Fatal(err)
		}
		return got == nfttest.Passed
	}
	if !reaches(patient) {
		t.Fatal("the host cannot be reached at all")
	}
	group := "ff02::1:ff00:1"
	joined := func() bool { return strings.Contains(in(bridge, "bridge mdb show dev br0"), group) }
	eventually := func(what string, holds func() bool) {
		t.Helper()
		for deadline := time.Now().Add(2 * time.Minute); !holds(); time.Sleep(50 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("not within 2 minutes: %s\n%s", what, in(bridge, "bridge mdb show dev br0; bridge -d link"))
			}
		}
	}
	eventually("the switch knows the host's group", joined)
	// Without what keeps the link the switch forgets it, and the host is gone.
	program := isolating(map[ruleset.Direction][]uint16{ruleset.Egress: nil})
	if _, err := table.Apply(program); err != nil {
		t.Fatal(err)
	}
	eventually("the switch forgets the host's group", func() bool { return !joined() })
	eventually("the host is gone", func() bool { return !reaches(300 * time.Millisecond) })
	drop, tier := v1beta2.RuleActionDrop, int32(250)
	everywhere := v1beta2.NetworkPolicyPeer{IPBlocks: []v1beta2.IPBlock{{CIDR: v1beta2.IPNet{IP: make([]byte, 4)}}, {CIDR: v1beta2.IPNet{IP: make([]byte, 16)}}}}
	policy := &v1beta2.NetworkPolicy{AppliedToGroups: []string{"a"}, TierPriority: &tier, Rules: []v1beta2.NetworkPolicyRule{{Direction: v1beta2.DirectionOut, Action: &drop, To: everywhere}}}
	applied := &v1beta2.AppliedToGroup{GroupMembers: []v1beta2.GroupMember{{ExternalEntity: &v1beta2.ExternalEntityReference{Namespace: "n", Name: "e"}}}}
	applied.Name = "a"
	whole := new(nft.Compiler).Compile(nft.Input{Computed: enforcer.Computed{Policies: []*v1beta2.NetworkPolicy{policy}, AppliedToGroups: []*v1beta2.AppliedToGroup{applied}}}).Program
	if _, err := table.Apply(whole); err != nil {
		t.Fatal(err)
	}
	eventually("the switch knows the host's group again", joined)
	for range 3 {
		if !reaches(patient) {
			t.Error("the host cannot be reached")
		}
		time.Sleep(1300 * time.Millisecond) // longer than the switch remembers
		if !joined() {
			t.Error("the host has left its group")
		}
	}
	if wrong, err := table.Verify(whole); err != nil || len(wrong) > 0 {
		t.Errorf("%q, %v", wrong, err)
	}
}
