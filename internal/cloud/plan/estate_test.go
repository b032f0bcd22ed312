package plan_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"

	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan"
)

// estate is a random world before anything of ours is in it, with a history of policy sets. It is
// plain data, so that a failing one can be made smaller piece by piece.
type estate struct {
	Networks []netSpec
	Peerings [][2]int
	Groups   []groupSpec
	Lists    [][]string
	NICs     []nicSpec
	VMs      []vmSpec
	Limits   cloud.Limits
	History  []policySet
	// Stingy makes the quota hold hardly any references.
	Stingy bool
	estateExtras
}

type netSpec struct{ V4, V6 string }

type groupSpec struct {
	Net     int
	Default bool
	Rules   []cloud.Rule // GroupID "#n" stands for the n-th group, PrefixListID "#n" for the n-th list
}

type nicSpec struct {
	Net     int
	VM      int // -1: none
	IPs     []string
	Public  string
	Groups  []int
	Managed bool
	// Tags is how many tags others have given it.
	Tags int `json:",omitempty"`
}

// vmSpec is a machine. If it is no VM it has one interface.
type vmSpec struct {
	Selected bool
	Ports    []portSpec
	Is       machine `json:",omitempty"`
}

// policySet is what the policy engine computed at one time: members are indexes of VMs; an index
// beyond them is somebody outside.
type policySet struct {
	Address  [][]int
	Applied  [][]int
	Policies []policySpec
	// Modes holds the modes of VMs that are not simply enforced.
	Modes map[int]plan.Mode
	// Agents are the VMs that are left to agents, with the directions in which all is let in.
	Agents map[int][2]bool `json:",omitempty"`
}

type policySpec struct {
	Tier     int32
	Priority float64
	K8s      bool
	Applied  []int
	Rules    []ruleSpec
}

type ruleSpec struct {
	Out      bool
	Action   v1beta2.RuleAction
	Applied  []int // rule-level; used if the policy has none
	Address  []int
	Blocks   []blockSpec
	Services []serviceSpec
}

type blockSpec struct {
	CIDR   string
	Except []string
}

type serviceSpec struct {
	Protocol v1beta2.Protocol
	Name     string // of a port of the VM
	From, To int32  // 0: any
	Type     int32  // -1: any
	Code     int32
}

var outsiders = []string{"203.0.113.7", "198.51.100.9", "2001:db8:ffff::7", "10.9.0.5"}

func randomEstate(r *rand.Rand) estate {
	e := estate{Limits: cloud.Limits{RulesPerGroup: pick(r, []int{12, 60, 200, 200}), GroupsPerInterface: 5, GroupsPerRegion: 500, TagsPerResource: 50}}
	nets := 1 + r.IntN(3)
	for i := range nets {
		n := netSpec{V4: fmt.Sprintf("10.%d.0.0/24", i)}
		if r.IntN(2) == 0 {
			n.V6 = fmt.Sprintf("2001:db8:%d::/64", i)
		}
		e.Networks = append(e.Networks, n)
	}
	for i := range nets {
		for j := range i {
			if r.IntN(2) == 0 {
				e.Peerings = append(e.Peerings, [2]int{j, i})
			}
		}
	}
	if nets == 3 && r.IntN(3) == 0 && len(e.Peerings) == 0 {
		e.Networks[2] = e.Networks[0] // same addresses in two networks that cannot reach each other
	}
	for range r.IntN(3) {
		e.Lists = append(e.Lists, randomList(r))
	}
	for i := range nets {
		e.Groups = append(e.Groups, groupSpec{Net: i, Default: true})
		for range r.IntN(4) {
			e.Groups = append(e.Groups, groupSpec{Net: i})
		}
	}
	for i := range e.Groups {
		e.Groups[i].Rules = e.randomNative(r, i)
	}
	e.randomMachines(r)
	for range 1 + r.IntN(3) {
		e.History = append(e.History, e.randomPolicies(r))
	}
	for i := 1; i < len(e.History); i++ {
		if r.IntN(2) == 0 { // a small change instead of everything anew
			e.History[i] = e.mutate(r, e.History[i-1])
		}
	}
	return e
}

func randomList(r *rand.Rand) []string {
	var out []string
	for range 1 + r.IntN(3) {
		out = append(out, pick(r, []string{"10.0.0.0/28", "10.1.0.8/29", "203.0.113.0/24", "10.0.0.6/32", "198.51.100.9/32"}))
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func pick[T any](r *rand.Rand, from []T) T { return from[r.IntN(len(from))] }

func (e *estate) randomNative(r *rand.Rand, self int) []cloud.Rule {
	var out []cloud.Rule
	add := func(rule cloud.Rule) {
		if !slices.ContainsFunc(out, rule.Same) {
			out = append(out, rule)
		}
	}
	if r.IntN(3) > 0 {
		for _, c := range []string{"0.0.0.0/0", "::/0"} {
			add(cloud.Rule{Direction: cloud.Egress, Match: cloud.NewMatch(-1, -1, -1), Peer: cloud.Peer{CIDR: netip.MustParsePrefix(c)}})
		}
	}
	for range r.IntN(4) {
		rule := cloud.Rule{Direction: cloud.Ingress, Match: randomMatch(r)}
		if r.IntN(3) == 0 {
			rule.Direction = cloud.Egress
		}
		switch r.IntN(4) {
		case 0:
			rule.Peer.CIDR = netip.MustParsePrefix(
				pick(r, []string{"0.0.0.0/0", "10.0.0.0/8", "10.0.0.0/24", "10.0.0.4/30", "10.1.0.0/25", "::/0", "2001:db8::/48", "203.0.113.7/32"}),
			)
		case 1:
			if len(e.Lists) > 0 {
				rule.Peer.PrefixListID = fmt.Sprintf("#%d", r.IntN(len(e.Lists)))
				break
			}
			fallthrough
		default:
			var reach []int
			for i, g := range e.Groups {
				if e.near(g.Net, e.Groups[self].Net) {
					reach = append(reach, i)
				}
			}
			rule.Peer.GroupID = fmt.Sprintf("#%d", pick(r, reach))
			if r.IntN(3) == 0 {
				rule.Peer.GroupID = fmt.Sprintf("#%d", self)
			}
		}
		add(rule)
	}
	return out
}

func (e *estate) arePeered(a, b int) bool {
	return slices.ContainsFunc(e.Peerings, func(p [2]int) bool { return p == [2]int{a, b} || p == [2]int{b, a} })
}

func randomMatch(r *rand.Rand) cloud.Match {
	switch r.IntN(11) {
	case 6:
		return cloud.NewMatch(cloud.ICMPv6, pick(r, []int{-1, 128}), pick(r, []int{-1, 0}))
	case 7:
		return cloud.NewMatch(cloud.TCP, 0, 65535)
	case 8:
		return cloud.NewMatch(pick(r, []int{50, 132, 2, 112}), -1, -1)
	case 9:
		return cloud.NewMatch(cloud.UDP, 53, 53)
	case 0:
		return cloud.NewMatch(cloud.TCP, 22, 22)
	case 1:
		return cloud.NewMatch(cloud.TCP, 80, 443)
	case 2:
		return cloud.NewMatch(cloud.UDP, 0, 65535)
	case 3:
		return cloud.NewMatch(cloud.ICMP, pick(r, []int{-1, 8}), pick(r, []int{-1, 0}))
	case 4:
		return cloud.NewMatch(47, -1, -1)
	default:
		return cloud.NewMatch(-1, -1, -1)
	}
}

func (e *estate) randomMachines(r *rand.Rand) {
	used := map[int]int{}
	nic := func(vm, net int) {
		used[net]++
		n := nicSpec{Net: net, VM: vm}
		for range 1 + r.IntN(6)/5 {
			used[net]++
			n.IPs = append(n.IPs, fmt.Sprintf("10.%d.0.%d", netIndex(e.Networks[net].V4), 3+used[net]))
		}
		if v6 := e.Networks[net].V6; v6 != "" && r.IntN(2) == 0 {
			n.IPs = append(n.IPs, fmt.Sprintf("%s%x", strings.TrimSuffix(v6, "/64"), used[net]))
		}
		if r.IntN(4) == 0 {
			n.Public = fmt.Sprintf("203.0.113.%d", 100+len(e.NICs))
		}
		var own []int
		for i, g := range e.Groups {
			if g.Net == net {
				own = append(own, i)
			}
		}
		for range 1 + r.IntN(3) {
			if g := pick(r, own); !slices.Contains(n.Groups, g) {
				n.Groups = append(n.Groups, g)
			}
		}
		n.Managed = vm < 0 && r.IntN(2) == 0
		e.NICs = append(e.NICs, n)
	}
	for i := range 1 + r.IntN(6) {
		e.VMs = append(e.VMs, vmSpec{Selected: r.IntN(6) > 0})
		net := r.IntN(len(e.Networks))
		nic(i, net)
		if r.IntN(5) == 0 {
			nic(i, net)
		}
	}
	if r.IntN(6) == 0 {
		nic(-1, r.IntN(len(e.Networks)))
	}
}

func netIndex(cidr string) int { return int(netip.MustParsePrefix(cidr).Addr().As4()[1]) }

func (e *estate) randomPolicies(r *rand.Rand) policySet {
	var out policySet
	subset := func(of int, percent int) []int {
		var s []int
		for i := range of {
			if r.IntN(100) < percent {
				s = append(s, i)
			}
		}
		return s
	}
	for range 1 + r.IntN(3) {
		out.Address = append(out.Address, subset(len(e.VMs)+len(outsiders), 40))
		out.Applied = append(out.Applied, subset(len(e.VMs), 60))
	}
	for range r.IntN(4) {
		p := policySpec{Tier: pick(r, []int32{50, 250, 250, 253}), Priority: float64(1 + r.IntN(3)), K8s: r.IntN(12) == 0}
		if r.IntN(4) > 0 {
			p.Applied = []int{r.IntN(len(out.Applied))}
		}
		for range 1 + r.IntN(3) {
			p.Rules = append(p.Rules, e.randomRule(r, out, p))
		}
		out.Policies = append(out.Policies, p)
	}
	return out
}

// randomExceptions are exceptions of a block of every shape: quarters that adjoin, blocks within
// blocks, and single addresses up to the bounds of the block.
func randomExceptions(r *rand.Rand, block netip.Prefix) (out []string) {
	part := func(p netip.Prefix, last bool, longer int) netip.Prefix {
		bits := min(p.Bits()+longer, p.Addr().BitLen())
		at := p.Masked().Addr().AsSlice()
		for i := p.Bits(); last && i < len(at)*8; i++ {
			at[i/8] |= 0x80 >> (i % 8)
		}
		a, _ := netip.AddrFromSlice(at)
		return netip.PrefixFrom(a, bits).Masked()
	}
	low, high := part(block, false, 1), part(block, true, 1)
	switch r.IntN(4) {
	case 0: // the second and the third quarter
		return []string{part(low, true, 1).String(), part(high, false, 1).String()}
	case 1: // one within another
		return []string{high.String(), part(high, r.IntN(2) == 0, 3).String()}
	case 2: // the first and the last address
		return []string{part(block, false, 128).String(), part(block, true, 128).String()}
	}
	for p := block; len(out) < 4 && p.Bits() < p.Addr().BitLen(); { // ever smaller ones
		p = part(p, r.IntN(2) == 0, 1+r.IntN(4))
		out = append(out, part(p, r.IntN(2) == 0, 1+r.IntN(4)).String())
	}
	return out
}

func (e *estate) randomRule(r *rand.Rand, set policySet, p policySpec) ruleSpec {
	rule := ruleSpec{Out: r.IntN(2) == 0}
	rule.Action = pick(r, []v1beta2.RuleAction{"Allow", "Allow", "Allow", "Drop", "Reject", "Pass"})
	if p.Tier >= 253 && rule.Action == "Pass" || p.K8s {
		rule.Action = "Allow"
	}
	if len(p.Applied) == 0 {
		rule.Applied = []int{r.IntN(len(set.Applied))}
	}
	for range 1 + r.IntN(2) {
		if r.IntN(2) == 0 {
			rule.Address = append(rule.Address, r.IntN(len(set.Address)))
			continue
		}
		b := blockSpec{CIDR: pick(r, []string{"0.0.0.0/0", "::/0", "10.0.0.0/8", "10.0.0.0/24", "10.0.0.4/31", "10.1.0.0/24", "203.0.113.0/24", "2001:db8::/32"})}
		if strings.Contains(b.CIDR, ":") && r.IntN(2) == 0 {
			b.Except = append(b.Except, pick(r, []string{"2001:db8::/64", "2001:db8:1::/48", "2001:db8::4/126", "2001:db8:ffff::7/128"}))
		}
		if r.IntN(3) == 0 && !strings.Contains(b.CIDR, ":") {
			b.Except = append(b.Except, pick(r, []string{"10.0.0.5/32", "10.0.0.8/29", "10.1.0.0/28", "203.0.113.7/32"}))
		}
		if r.IntN(6) == 0 {
			b.Except = randomExceptions(r, netip.MustParsePrefix(b.CIDR))
		}
		rule.Blocks = append(rule.Blocks, b)
	}
	for range r.IntN(3) {
		s := serviceSpec{Protocol: pick(r, []v1beta2.Protocol{"TCP", "TCP", "UDP", "ICMP", "SCTP", "IGMP"}), Type: -1, Code: -1}
		switch s.Protocol {
		case "TCP", "UDP":
			s.From = pick(r, []int32{0, 1, 22, 80, 81, 443, 65135})
			s.To = s.From + pick(r, []int32{0, 0, 1, 400})
			if s.From == 0 {
				s.To = 0
			}
		case "ICMP":
			if r.IntN(2) == 0 {
				s.Type = pick(r, []int32{8, 128, 0, 255})
				if r.IntN(2) == 0 {
					s.Code = 0
				}
			}
		}
		rule.Services = append(rule.Services, s)
	}
	return rule
}

// mutate makes a small change of a policy set.
func (e *estate) mutate(r *rand.Rand, from policySet) policySet {
	out := from.clone()
	toggle := func(s []int, of int) []int {
		i := r.IntN(of)
		if at := slices.Index(s, i); at >= 0 {
			return slices.Delete(s, at, at+1)
		}
		return append(s, i)
	}
	for range 1 + r.IntN(2) {
		switch k := r.IntN(5); {
		case k == 0:
			i := r.IntN(len(out.Address))
			out.Address[i] = toggle(out.Address[i], len(e.VMs)+len(outsiders))
		case k == 1:
			i := r.IntN(len(out.Applied))
			out.Applied[i] = toggle(out.Applied[i], len(e.VMs))
		case k == 2 && len(out.Policies) > 0:
			i := r.IntN(len(out.Policies))
			out.Policies = slices.Delete(out.Policies, i, i+1)
		default:
			p := policySpec{Tier: pick(r, []int32{50, 250, 253}), Priority: float64(1 + r.IntN(3)), Applied: []int{r.IntN(len(out.Applied))}}
			p.Rules = []ruleSpec{e.randomRule(r, out, p)}
			out.Policies = append(out.Policies, p)
		}
	}
	return out
}

func (p policySet) clone() policySet {
	out := policySet{Policies: slices.Clone(p.Policies), Modes: maps.Clone(p.Modes), Agents: maps.Clone(p.Agents)}
	for _, a := range p.Address {
		out.Address = append(out.Address, slices.Clone(a))
	}
	for _, a := range p.Applied {
		out.Applied = append(out.Applied, slices.Clone(a))
	}
	return out
}
