package estate

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"reflect"
	"slices"
	"testing"

	seeds "github.com/nephele-io/nephele/internal/seed"
	"github.com/nephele-io/nephele/internal/sim/aws"
	"github.com/nephele-io/nephele/internal/sim/aws/packet"
	"github.com/nephele-io/nephele/internal/sim/world"
)

var seedFlag = flag.Uint64("seed", 0, "seed of the random tests; 0 = a new one")

func testSeed(t *testing.T) uint64 {
	seed := *seedFlag
	if seed == 0 {
		seed = seeds.Of(t)
	}
	t.Logf("seed %d (repeat with -args -seed %d)", seed, seed)
	return seed
}

func TestRandomEstatesAreConsistentAndRepeatable(t *testing.T) {
	seed := testSeed(t)
	for i := range uint64(20) {
		shape := Shape{Accounts: 1 + int(i%2), Regions: 1 + int(i%3), NoIPv6: i%4 == 3}
		a, err := Random(seed+i, shape)
		if err != nil {
			t.Fatal(err)
		}
		b, err := Random(seed+i, shape)
		if err != nil || !reflect.DeepEqual(a, b) {
			t.Fatalf("seed %d: two runs differ (%v)", seed+i, err)
		}
	}
}

// TestAllowedAgreesWithAddresses compares Allowed with a second reading of the same rules: every
// group reference is first resolved to the private addresses of the interfaces that hold the group,
// as the documentation of EC2 puts it, and a flow is then a pair of addresses.
func TestAllowedAgreesWithAddresses(t *testing.T) {
	seed := testSeed(t)
	var flows, allowed int
	for i := range uint64(6) {
		s, err := Random(seed+i, Shape{Accounts: 1 + int(i%2), Regions: 1 + int(i/2%2), VPCs: 2})
		if err != nil {
			t.Fatal(err)
		}
		w, err := world.New(s, world.Options{})
		if err != nil {
			t.Fatal(err)
		}
		m := newModel(s)
		rng := rand.New(rand.NewPCG(seed, i))
		for range 3000 {
			f, ok := m.flow(rng)
			if !ok {
				continue
			}
			got, err := w.Allowed(f)
			if err != nil {
				t.Fatalf("seed %d: %v", seed+i, err)
			}
			if want := m.allowed(f); got.Allowed != want {
				t.Fatalf("seed %d: %s: Allowed says %s, the model says %t", seed+i, f, got.Reason, want)
			}
			flows++
			if got.Allowed {
				allowed++
			}
		}
	}
	t.Logf("%d flows, %d allowed", flows, allowed)
	if allowed == 0 || allowed == flows {
		t.Fatalf("%d of %d flows are allowed: the test says nothing", allowed, flows)
	}
}

// model holds each group's rules with every peer as a list of blocks.
type model struct {
	nics   []aws.NetworkInterface
	groups map[string][]flatRule
	peered map[[2]string]bool
}

type flatRule struct {
	aws.SecurityGroupRule
	blocks []netip.Prefix
}

func newModel(s aws.State) *model {
	m := &model{groups: map[string][]flatRule{}, peered: map[[2]string]bool{}}
	for _, p := range s.Peerings {
		if p.Status == aws.PeeringActive && p.Requester.Region == p.Accepter.Region {
			m.peered[[2]string{p.Requester.VPCID, p.Accepter.VPCID}] = true
			m.peered[[2]string{p.Accepter.VPCID, p.Requester.VPCID}] = true
		}
	}
	members := map[string][]netip.Prefix{}
	vpcOf := map[string]string{}
	lists := map[string][]netip.Prefix{}
	for _, r := range s.Regions {
		m.nics = append(m.nics, r.NetworkInterfaces...)
		for _, n := range r.NetworkInterfaces {
			for _, g := range n.Groups {
				for _, p := range n.PrivateIPs {
					members[g.ID] = append(members[g.ID], netip.PrefixFrom(p.Addr, 32))
				}
				for _, a := range n.IPv6 {
					members[g.ID] = append(members[g.ID], netip.PrefixFrom(a, 128))
				}
			}
		}
		for _, g := range r.SecurityGroups {
			vpcOf[g.ID] = g.VPCID
		}
		for _, p := range r.PrefixLists {
			for _, e := range p.Entries() {
				lists[p.ID] = append(lists[p.ID], e.CIDR)
			}
		}
	}
	for _, r := range s.Regions {
		for _, g := range r.SecurityGroups {
			for _, x := range g.Rules {
				f := flatRule{SecurityGroupRule: x}
				switch {
				case x.PrefixListID != "":
					f.blocks = lists[x.PrefixListID]
				case x.Group == nil:
					f.blocks = []netip.Prefix{x.CIDR}
				case vpcOf[x.Group.GroupID] == g.VPCID || m.peered[[2]string{vpcOf[x.Group.GroupID], g.VPCID}]:
					f.blocks = members[x.Group.GroupID]
				}
				m.groups[g.ID] = append(m.groups[g.ID], f)
			}
		}
	}
	return m
}

// flow picks a flow between two interfaces, or between one and an outside address.
func (m *model) flow(rng *rand.Rand) (packet.Flow, bool) {
	six := rng.IntN(3) == 0
	end := func() (packet.End, bool) {
		if rng.IntN(5) == 0 {
			out := []string{"8.8.8.8", "198.51.100.7", "203.0.113.1", "10.200.0.1"}
			if six {
				out = []string{"2001:4860::1", "2001:db8:ff11::1"}
			}
			return packet.End{Addr: netip.MustParseAddr(out[rng.IntN(len(out))])}, true
		}
		n := m.nics[rng.IntN(len(m.nics))]
		if six {
			if len(n.IPv6) == 0 {
				return packet.End{}, false
			}
			return packet.End{NIC: n.ID, Addr: n.IPv6[0]}, true
		}
		return packet.End{NIC: n.ID, Addr: n.PrivateIPs[0].Addr}, true
	}
	src, ok1 := end()
	dst, ok2 := end()
	f := packet.Flow{Src: src, Dst: dst, Protocol: []int{6, 6, 6, 17, 1, 58, 50, 132}[rng.IntN(8)]}
	f.Port = []int{21, 22, 53, 80, 81, 443, 3306, 5432, 8080, 9080, 9100, 65535}[rng.IntN(12)]
	f.ICMPType, f.ICMPCode = []int{3, 8, 128}[rng.IntN(3)], []int{0, 4}[rng.IntN(2)]
	return f, ok1 && ok2 && (src.NIC != "" || dst.NIC != "")
}

func (m *model) allowed(f packet.Flow) bool {
	if f.Src.NIC == f.Dst.NIC {
		return true
	}
	return m.half(f.Src, f.Dst, true, f) && m.half(f.Dst, f.Src, false, f)
}

func (m *model) half(self, other packet.End, egress bool, f packet.Flow) bool {
	if self.NIC == "" {
		return true
	}
	i := slices.IndexFunc(m.nics, func(n aws.NetworkInterface) bool { return n.ID == self.NIC })
	for _, g := range m.nics[i].Groups {
		for _, r := range m.groups[g.ID] {
			if r.Egress != egress || !service(r.SecurityGroupRule, f) {
				continue
			}
			if slices.ContainsFunc(r.blocks, func(p netip.Prefix) bool { return p.Contains(other.Addr) }) {
				return true
			}
		}
	}
	return false
}

// service matches protocol and ports.
func service(r aws.SecurityGroupRule, f packet.Flow) bool {
	names := map[int]string{6: "tcp", 17: "udp", 1: "icmp", 58: "icmpv6"}
	name := names[f.Protocol]
	if name == "" {
		name = fmt.Sprint(f.Protocol)
	}
	switch {
	case r.Protocol == "-1":
		return true
	case r.Protocol != name:
		return false
	case name == "tcp" || name == "udp":
		return f.Port >= int(r.FromPort) && f.Port <= int(r.ToPort)
	case name == "icmp" || name == "icmpv6":
		return (r.FromPort < 0 || f.ICMPType == int(r.FromPort)) && (r.ToPort < 0 || f.ICMPCode == int(r.ToPort))
	}
	return true
}
