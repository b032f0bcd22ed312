package explain

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/trace"
)

// TestBalancerNotes: each kind of balancer has one note about the source that its targets see, and
// other services have none.
func TestBalancerNotes(t *testing.T) {
	snapshot := &cloud.Snapshot{Networks: []cloud.Network{{ID: "vpc-1"}}}
	addrs := map[string]netip.Addr{}
	for i, s := range []cloud.Service{
		{Name: "front", Kind: cloud.ApplicationLoadBalancer}, {Name: "pass", Kind: cloud.NetworkLoadBalancer}, {Name: "orders", Kind: cloud.RDSInstance},
	} {
		nic := "eni-" + s.Name
		addrs[s.Name] = netip.AddrFrom4([4]byte{10, 0, 0, byte(10 + i)})
		s.Interfaces, s.NetworkID, s.Private = []string{nic}, "vpc-1", []netip.Addr{addrs[s.Name]}
		snapshot.Services = append(snapshot.Services, s)
		snapshot.Interfaces = append(snapshot.Interfaces, cloud.Interface{ID: nic, NetworkID: "vpc-1", PrivateIPs: s.Private})
	}
	clouds := trace.New([]*cloud.Snapshot{snapshot})
	to := func(name string) passage { return passage{dst: clouds.At(addrs[name], "vpc-1")} }
	for name, want := range map[string]string{"front": "not the client's", "pass": "where their group preserves", "orders": ""} {
		got := balancerNotes([]passage{to(name), to(name)})
		if want == "" && len(got) != 0 || want != "" && (len(got) != 1 || !strings.Contains(got[0], want) || !strings.Contains(got[0], "health checks")) {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	if got := balancerNotes([]passage{{dst: trace.Point{Addr: addrs["front"]}}}); len(got) != 0 {
		t.Errorf("an address that no interface has: %q", got)
	}
}
