package plan_test

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/sim/aws"
)

// portSpec is a named port of a VM.
type portSpec struct {
	Name     string
	Protocol v1beta2.Protocol
	Number   int32
}

// abroadSpec is a network of another account with one interface, which holds one group that lets
// everything pass.
type abroadSpec struct {
	Peered []int // networks with an active peering
	V4, V6 string
	IPs    []string
}

const foreignOwner = "999999999999"

func abroadID(i int) string      { return fmt.Sprintf("vpc-f%07x", i) }
func abroadGroupID(i int) string { return fmt.Sprintf("sg-f%07x", i) }
func (a abroadSpec) peered(net int) bool {
	return slices.Contains(a.Peered, net)
}
func (a abroadSpec) end(i int) cloud.PeeringEnd {
	return cloud.PeeringEnd{NetworkID: abroadID(i), OwnerID: foreignOwner, Region: testRegion, CIDRs: []netip.Prefix{netip.MustParsePrefix(a.V4), netip.MustParsePrefix(a.V6)}}
}

// enrich gives an estate what policies and native rules may say besides: named ports, types of ICMP
// for both families, networks of another account over peerings, and failsafe flows.
func (e *estate) enrich(r *rand.Rand) {
	e.addFamilies(r)
	e.addAbroad(r)
	for i := range e.VMs {
		for _, name := range []string{"web", "dns"} {
			if r.IntN(4) > 0 {
				e.VMs[i].Ports = append(e.VMs[i].Ports, portSpec{name, pick(r, []v1beta2.Protocol{"TCP", "UDP", ""}), pick(r, []int32{53, 80, 8080})})
			}
		}
	}
	for i := range e.Groups {
		e.enrichGroup(r, i)
	}
	for i := range e.History {
		for k := range e.History[i].Policies {
			for j := range e.History[i].Policies[k].Rules {
				enrichRule(r, &e.History[i].Policies[k].Rules[j])
			}
		}
	}
	for range r.IntN(3) {
		e.Safe = append(
			e.Safe,
			safeSpec{r.IntN(2) == 0, pick(r, []int{22, 80, 443}), pick(r, []string{"203.0.113.0/24", "10.0.0.4/31", "10.20.0.0/24", "0.0.0.0/0", "2001:db8::/32"})},
		)
	}
}

// addFamilies gives every network IPv6 and most of the interfaces an address of it.
func (e *estate) addFamilies(r *rand.Rand) {
	for i := range e.Networks {
		if e.Networks[i].V6 == "" {
			e.Networks[i].V6 = fmt.Sprintf("2001:db8:%d::/64", netIndex(e.Networks[i].V4))
		}
	}
	for i := range e.NICs {
		n := &e.NICs[i]
		if !slices.ContainsFunc(n.IPs, func(s string) bool { return strings.Contains(s, ":") }) && r.IntN(3) > 0 {
			n.IPs = append(n.IPs, strings.TrimSuffix(e.Networks[n.Net].V6, "/64")+fmt.Sprintf("a%x", i))
		}
	}
}

// addAbroad adds networks of another account, and has address groups name their interfaces.
func (e *estate) addAbroad(r *rand.Rand) {
	e.Pods = slices.Clone(outsiders)
	for i := range 1 + r.IntN(2) {
		a := abroadSpec{V4: fmt.Sprintf("10.%d.0.0/24", 20+i), V6: fmt.Sprintf("2001:db8:a%d::/64", i)}
		a.IPs = []string{fmt.Sprintf("10.%d.0.5", 20+i), fmt.Sprintf("2001:db8:a%d::5", i)}
		for net := range e.Networks {
			if r.IntN(3) > 0 {
				a.Peered = append(a.Peered, net)
			}
		}
		e.Pods[2*i], e.Pods[2*i+1] = a.IPs[0], a.IPs[1]
		e.Abroad = append(e.Abroad, a)
	}
}

func (e *estate) enrichGroup(r *rand.Rand, i int) {
	g := &e.Groups[i]
	add := func(rule cloud.Rule) {
		if !slices.ContainsFunc(g.Rules, rule.Same) {
			g.Rules = append(g.Rules, rule)
		}
	}
	for k, a := range e.Abroad {
		if a.peered(g.Net) && r.IntN(2) == 0 {
			add(cloud.Rule{Direction: pick(r, []cloud.Direction{cloud.Ingress, cloud.Egress}), Match: randomMatch(r),
				Peer: cloud.Peer{GroupID: abroadGroupID(k), GroupOwner: foreignOwner}})
		}
	}
	for range r.IntN(2) {
		rule := cloud.Rule{Direction: pick(r, []cloud.Direction{cloud.Ingress, cloud.Egress}), Match: randomICMP(r)}
		rule.Peer.CIDR = netip.MustParsePrefix(pick(r, []string{"0.0.0.0/0", "10.0.0.0/8", "::/0", "2001:db8::/32"}))
		if rule.Match.Protocol == cloud.ICMPv6 != rule.Peer.CIDR.Addr().Is6() {
			rule.Peer.CIDR = netip.MustParsePrefix(map[bool]string{true: "::/0", false: "0.0.0.0/0"}[rule.Match.Protocol == cloud.ICMPv6])
		}
		add(rule)
	}
}

func randomICMP(r *rand.Rand) cloud.Match {
	protocol := pick(r, []int{cloud.ICMP, cloud.ICMPv6, cloud.ICMPv6})
	return cloud.NewMatch(protocol, pick(r, icmpTypes), pick(r, []int{-1, -1, 0, 1}))
}

var icmpTypes = []int{-1, 0, 1, 3, 8, 128, 129, 133, 135, 143, 200}

// enrichRule gives a rule services with named ports and types of ICMP.
func enrichRule(r *rand.Rand, rule *ruleSpec) {
	switch r.IntN(5) {
	case 0:
		s := serviceSpec{Protocol: pick(r, []v1beta2.Protocol{"TCP", "UDP"}), Type: -1, Code: -1}
		if s.Name = pick(r, []string{"web", "dns"}); rule.Out && r.IntN(4) > 0 {
			s.Name, s.From, s.To = "", 53, 80
		}
		rule.Services = append(rule.Services, s)
	case 1, 2:
		s := serviceSpec{Protocol: "ICMP", Type: int32(pick(r, icmpTypes)), Code: -1}
		if s.Type >= 0 && r.IntN(3) == 0 {
			s.Code = int32(r.IntN(2))
		}
		rule.Services = append(rule.Services, s)
	case 3:
		rule.Blocks = append(rule.Blocks, blockSpec{CIDR: pick(r, []string{"10.20.0.0/24", "10.20.0.4/30", "10.16.0.0/12", "2001:db8:a0::/64", "2001:db8:a0::4/126", "::/0"})})
	}
}

// resolve turns the named ports of a service into numbers, as the VM has them.
func (e *estate) resolve(s serviceSpec, vm int) []serviceSpec {
	if s.Name == "" {
		return []serviceSpec{s}
	}
	var out []serviceSpec
	if vm < 0 || vm >= len(e.VMs) {
		return nil
	}
	for _, p := range e.VMs[vm].Ports {
		if p.Name == s.Name && (p.Protocol == s.Protocol || p.Protocol == "" && s.Protocol == "TCP") {
			out = append(out, serviceSpec{Protocol: s.Protocol, From: p.Number, To: p.Number, Type: -1, Code: -1})
		}
	}
	return out
}

// ports are the named ports of a VM, as members of groups carry them.
func (e *estate) ports(vm int) (out []v1beta2.NamedPort) {
	for _, p := range e.VMs[vm].Ports {
		out = append(out, v1beta2.NamedPort{Name: p.Name, Protocol: p.Protocol, Port: p.Number})
	}
	return out
}

// abroad returns the network of another account with the group, if the interface's network is
// peered with it and the address is one of it.
func (e *estate) isAbroad(group string, net int, addr netip.Addr) bool {
	return slices.ContainsFunc(e.Abroad, func(a abroadSpec) bool {
		i := slices.IndexFunc(e.Abroad, func(b abroadSpec) bool { return a.V4 == b.V4 })
		return abroadGroupID(i) == group && a.peered(net) && slices.Contains(a.IPs, addr.String())
	})
}

// richEdges are packets at the edges of what only rich estates say.
func (e *estate) richEdges(edge func(protocol, port int)) {
	if len(e.Abroad) == 0 {
		return
	}
	for _, number := range []int{53, 80, 8080} {
		edge(cloud.UDP, number)
		edge(cloud.TCP, number)
		edge(cloud.UDP, number-1)
	}
	for _, g := range e.Groups {
		for _, rule := range g.Rules {
			if m := rule.Match; (m.Protocol == cloud.ICMP || m.Protocol == cloud.ICMPv6) && m.From >= 0 {
				for _, at := range []int{m.From << 8, m.From<<8 + 1, m.From<<8 - 1, (m.From + 1) << 8} {
					edge(m.Protocol, at)
				}
			}
		}
	}
}

// mirrorAbroad builds the other account in the simulator.
func (e *estate) mirrorAbroad(zone aws.Zone) (aws.Account, aws.RegionState) {
	rs := aws.RegionState{Account: foreignOwner, Name: testRegion, Zones: []aws.Zone{zone}}
	for i, a := range e.Abroad {
		vpc, subnet := abroadID(i), fmt.Sprintf("subnet-f%07x", i)
		blocks := []aws.CIDRBlock{{Prefix: netip.MustParsePrefix(a.V4)}, {Prefix: netip.MustParsePrefix(a.V6)}}
		rs.VPCs = append(rs.VPCs, aws.VPC{ID: vpc, Account: foreignOwner, Region: testRegion, State: aws.StateAvailable, CIDRs: blocks})
		rs.Subnets = append(
			rs.Subnets,
			aws.Subnet{ID: subnet, Account: foreignOwner, VPCID: vpc, CIDR: blocks[0].Prefix, IPv6: blocks[1:], Zone: zone, State: aws.StateAvailable},
		)
		group := aws.SecurityGroup{ID: abroadGroupID(i), Account: foreignOwner, VPCID: vpc, Name: "default", Description: "abroad"}
		for k, c := range []string{"0.0.0.0/0", "::/0"} {
			for d, egress := range []bool{false, true} {
				group.Rules = append(group.Rules, aws.SecurityGroupRule{ID: fmt.Sprintf("sgr-f%05x%d%d", i, k, d), GroupID: group.ID, Account: foreignOwner,
					Egress: egress, Protocol: "-1", FromPort: -1, ToPort: -1, CIDR: netip.MustParsePrefix(c)})
			}
		}
		rs.SecurityGroups = append(rs.SecurityGroups, group)
		rs.NetworkInterfaces = append(rs.NetworkInterfaces, aws.NetworkInterface{
			ID: fmt.Sprintf("eni-f%07x", i), Account: foreignOwner, VPCID: vpc, SubnetID: subnet, Zone: zone.Name, InterfaceType: "interface",
			MAC: fmt.Sprintf("02:00:00:00:ff:%02x", i), Status: aws.StatusAvailable, PrivateIPs: []aws.PrivateIP{{Addr: netip.MustParseAddr(a.IPs[0]), Primary: true}},
			IPv6: []netip.Addr{netip.MustParseAddr(a.IPs[1])}, Groups: []aws.GroupName{{ID: group.ID, Name: group.Name}},
		})
	}
	return aws.Account{ID: foreignOwner, Regions: []string{testRegion}}, rs
}

// blindly decides a flow without the groups of other accounts. What these allowed before and an
// address allows afterwards, or the other way round, the planner cannot know to be the same flow,
// so it may pause.
func (fl connection) blindly(f *fakeCloud) bool {
	blind := *f
	blind.isAbroad = func(string, string, netip.Addr) bool { return false }
	pr := blind.prober()
	return fl.verdict(func(nic int, d cloud.Direction, r remote, k packet) bool { return pr.half(nicID(nic), d, r, k) })
}

// unseen reports whether a packet may be lost although a native rule allows it, because the rule
// refers to a group of another account, whose members are not known, and rules take the same
// traffic from some address that a member may have.
func (v *naive) unseen(nic int, d cloud.Direction, r remote, k packet) bool {
	return v.byReference(nic, d, r, k) && v.taken(nic, d, k)
}

// byReference reports whether only a native rule that refers to a group of another account allows
// the packet, if anything does.
func (v *naive) byReference(nic int, d cloud.Direction, r remote, k packet) bool {
	if len(v.Abroad) == 0 {
		return false
	}
	blind := *v
	blind.blind = true
	return !blind.half(nic, d, r, k)
}

// taken reports whether rules take the traffic of a packet, or what is looked at together with it,
// from some address that the member of a group of another account may have.
func (v *naive) taken(nic int, d cloud.Direction, k packet) bool {
	generous := *v
	generous.generous = true
	kinds := map[int][]packet{cloud.ICMP: {k}, cloud.ICMPv6: {k}}[k.protocol]
	if kinds == nil || !v.apart(nic, d, k.protocol) {
		kinds = []packet{k, {200, 0}}[:1+b2i(kinds != nil)]
	}
	return slices.ContainsFunc(v.around(v.NICs[nic].Net), func(o remote) bool { // a reference means the addresses of both families
		return slices.ContainsFunc(kinds, func(k packet) bool {
			possible := o.addr.Is4() && k.protocol != cloud.ICMPv6 || o.addr.Is6() && k.protocol != cloud.ICMP
			return possible && !generous.half(nic, d, o, k)
		})
	})
}

// apart reports whether rules of the interface in this direction name ICMP or ICMPv6, so that they
// are looked at apart from other protocols, of which one reference means the addresses of both
// families.
func (v *naive) apart(nic int, d cloud.Direction, protocol int) bool {
	rules, _ := v.rules(v.NICs[nic].VM, d)
	byPolicy := slices.ContainsFunc(rules, func(x orderedRule) bool {
		return slices.ContainsFunc(x.Services, func(s serviceSpec) bool { return s.Protocol == "ICMP" })
	})
	return byPolicy || slices.ContainsFunc(v.NICs[nic].Groups, func(g int) bool {
		return slices.ContainsFunc(v.Groups[g].Rules, func(r cloud.Rule) bool { return r.Direction == d && r.Match.Protocol == protocol })
	})
}

// around are ends in the networks whose groups rules in a network can refer to: all machines, and
// the boundaries of blocks.
func (v *naive) around(net int) (out []remote) {
	if out, known := v.known[net]; known {
		return out
	}
	defer func() { v.known[net] = out }()
	var blocks []netip.Prefix
	for i, n := range v.Networks {
		if v.near(net, i) {
			blocks = append(blocks, netip.MustParsePrefix(n.V4), netip.MustParsePrefix(n.V6))
		}
	}
	for i, a := range v.Abroad {
		if a.peered(net) {
			blocks = append(blocks, a.end(i).CIDRs...)
		}
	}
	for i, n := range v.NICs {
		if v.near(net, n.Net) {
			for _, ip := range n.IPs {
				out = append(out, remote{netip.MustParseAddr(ip), nicID(i)})
			}
		}
	}
	outside := v.outsideAddrs()
	for _, b := range blocks {
		last := b.Masked().Addr().AsSlice()
		for i := b.Bits() / 8; i < len(last); i++ {
			last[i] = 0xff
		}
		end, _ := netip.AddrFromSlice(last)
		for _, addr := range append(slices.Clone(outside), b.Addr(), end) {
			if b.Contains(addr) && !slices.ContainsFunc(out, func(o remote) bool { return o.addr == addr }) {
				out = append(out, remote{addr: addr})
			}
		}
	}
	return out
}

// TestWholeWorlds is TestWorlds in a cloud that writes the rules of a group as one: some rules come
// while others go, and there is no moment between.
func TestWholeWorlds(t *testing.T) {
	t.Parallel()
	st := checkWorlds(t, worldsOneIn(5), func(e *estate) { e.Limits.WholeGroups = true })
	if st.Phases > 20 && st.Whole == 0 {
		t.Errorf("no group was ever written as a whole: %+v", st)
	}
}

// TestRichWorlds is TestWorlds with everything that policies can say and cloud accounts can hold,
// in any combination: named ports, types of ICMP for both families, peerings with another account,
// failsafe flows, and in some of them prefix lists and modes.
func TestRichWorlds(t *testing.T) {
	t.Parallel()
	next := uint64(envInt("NEPHELE_PLAN_SEED", 1))
	checkWorlds(t, worldsOneIn(5), func(e *estate) {
		r := rand.New(rand.NewPCG(next, 51))
		next++
		if r.IntN(3) == 0 {
			e.enlist(r)
		}
		e.enrich(r)
		if e.Limits.RulesPerGroup < 60 {
			e.Limits.RulesPerGroup = 60
		}
		if r.IntN(3) == 0 {
			e.Limits.RulesPerGroup = 200
			e.randomModes(r)
		}
	})
}
