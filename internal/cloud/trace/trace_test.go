package trace

import (
	"net/netip"
	"testing"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan/flow"
)

func addr(s string) netip.Addr { return netip.MustParseAddr(s) }

func nic(id, network, private, public string, groups ...string) cloud.Interface {
	n := cloud.Interface{ID: id, VMID: "i-" + id, NetworkID: network, PrivateIPs: []netip.Addr{addr(private)}, GroupIDs: groups}
	if public != "" {
		n.PublicIPs = []netip.Addr{addr(public)}
	}
	return n
}

func allow(d cloud.Direction, p cloud.Peer) cloud.Rule {
	return cloud.Rule{Direction: d, Match: cloud.NewMatch(cloud.TCP, 22, 22), Peer: p}
}

// estate has a and b in one network, c in a peered one, far in a peered one of another region, and
// alone in one that is not.
func estate() []*cloud.Snapshot {
	anywhere := cloud.Peer{CIDR: netip.MustParsePrefix("0.0.0.0/0")}
	out := allow(cloud.Egress, anywhere)
	return []*cloud.Snapshot{{
		Scope: cloud.Scope{Account: "n/a", Region: "r"}, OwnerID: "1",
		Peerings: []cloud.Peering{
			{ID: "p1", A: cloud.PeeringEnd{NetworkID: "vpc-1", Region: "r"}, B: cloud.PeeringEnd{NetworkID: "vpc-2", Region: "r"}},
			{ID: "p2", A: cloud.PeeringEnd{NetworkID: "vpc-1", Region: "r"}, B: cloud.PeeringEnd{NetworkID: "vpc-9", Region: "s"}},
		},
		VMs: []cloud.VM{{ID: "i-a", Name: "a"}, {ID: "i-b"}, {ID: "i-c"}, {ID: "i-alone"}},
		Interfaces: []cloud.Interface{
			nic("a", "vpc-1", "10.1.0.1", "198.51.100.1", "sg-out"), nic("alone", "vpc-3", "10.3.0.1", "", "sg-in"),
			nic("b", "vpc-1", "10.1.0.2", "198.51.100.2", "sg-in"), nic("c", "vpc-2", "10.2.0.1", "", "sg-in"),
		},
		Groups: []cloud.Group{
			{ID: "sg-in", Rules: []cloud.Rule{
				allow(cloud.Ingress, cloud.Peer{GroupID: "sg-out"}), allow(cloud.Ingress, cloud.Peer{PrefixListID: "pl-known"}),
				allow(cloud.Ingress, cloud.Peer{PrefixListID: "pl-secret"}), out}},
			{ID: "sg-out", Rules: []cloud.Rule{out}},
		},
		PrefixLists: []cloud.PrefixList{{ID: "pl-known", Entries: []netip.Prefix{netip.MustParsePrefix("203.0.113.0/24")}}, {ID: "pl-secret", OwnerID: cloud.CloudOwned}},
	}, {
		Scope: cloud.Scope{Account: "n/a", Region: "s"}, OwnerID: "1", VMs: []cloud.VM{{ID: "i-far"}},
		Interfaces: []cloud.Interface{nic("far", "vpc-9", "10.9.0.1", "", "sg-out")},
		Groups:     []cloud.Group{{ID: "sg-out", Rules: []cloud.Rule{out}}},
	}}
}

// TestFollow: group references match private addresses within a region only, and gateways change
// addresses.
func TestFollow(t *testing.T) {
	c := New(estate())
	ssh := flow.Service{Protocol: cloud.TCP, From: 22, To: 22}
	for name, tt := range map[string]struct {
		from, to, network string
		way               Way
		allowed, perhaps  bool
		seen              string
	}{
		"in one network":           {"10.1.0.1", "10.1.0.2", "vpc-1", WayNetwork, true, false, "10.1.0.1"},
		"over a peering":           {"10.1.0.1", "10.2.0.1", "vpc-1", WayPeering, true, false, "10.1.0.1"},
		"from another region":      {"10.9.0.1", "10.1.0.2", "vpc-1", WayPeering, false, true, "10.9.0.1"},
		"without a peering":        {"10.1.0.1", "10.3.0.1", "vpc-1", WayNone, false, true, "10.1.0.1"},
		"by a public address":      {"10.1.0.1", "198.51.100.2", "vpc-1", WayInternet, false, true, "198.51.100.1"},
		"from outside":             {"203.0.113.9", "198.51.100.2", "", WayOutside, true, false, "203.0.113.9"},
		"from elsewhere outside":   {"192.0.2.9", "198.51.100.2", "", WayOutside, false, true, "192.0.2.9"},
		"to itself":                {"10.1.0.1", "10.1.0.1", "vpc-1", WayItself, true, false, "10.1.0.1"},
		"without a public address": {"10.2.0.1", "198.51.100.2", "vpc-2", WayInternet, false, true, ""},
	} {
		got := c.Follow(c.At(addr(tt.from), tt.network), c.At(addr(tt.to), tt.network), ssh)
		seen := ""
		if got.SeenSource.IsValid() {
			seen = got.SeenSource.String()
		}
		if got.Way != tt.way || got.Ingress.Allowed != tt.allowed || got.Ingress.Uncertain != tt.perhaps || seen != tt.seen {
			t.Errorf("%s: %s, allowed %t, uncertain %t, seen as %q; want %+v", name, got.Way, got.Ingress.Allowed, got.Ingress.Uncertain, seen, tt)
		}
	}
	if got := c.Follow(
		c.At(addr("10.1.0.1"), "vpc-1"),
		c.At(addr("192.0.2.1"), "vpc-1"),
		flow.Service{Protocol: cloud.TCP, From: 23, To: 23},
	); got.Egress.Allowed ||
		got.Ingress != nil {
		t.Errorf("a port that no rule names: %+v", got)
	}
}

// TestNative: what an interface held before us decides there again.
func TestNative(t *testing.T) {
	snapshots := estate()
	s := snapshots[0]
	s.Groups = append(s.Groups, cloud.Group{ID: "sg-ours", Name: cloud.NamePrefix + "x", Tags: map[string]string{cloud.TagCluster: "c", cloud.TagKind: cloud.KindClass}})
	b := &s.Interfaces[2]
	b.GroupIDs, b.Tags = []string{"sg-ours"}, map[string]string{cloud.TagFormer: "sg-in"}
	ssh := flow.Service{Protocol: cloud.TCP, From: 22, To: 22}
	for _, tt := range []struct {
		c    *Cloud
		want bool
	}{{New(snapshots), false}, {Native(snapshots), true}} {
		if got := tt.c.Follow(tt.c.At(addr("10.1.0.1"), "vpc-1"), tt.c.At(addr("10.1.0.2"), "vpc-1"), ssh); got.Ingress.Allowed != tt.want {
			t.Errorf("%+v, want %t", got.Ingress, tt.want)
		}
	}
	if b.GroupIDs[0] != "sg-ours" {
		t.Error("the snapshot was changed")
	}
}
