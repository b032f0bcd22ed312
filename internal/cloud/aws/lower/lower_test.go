package lower

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan"
	"github.com/nephele-io/nephele/internal/cloud/plan/addrset"
	"github.com/nephele-io/nephele/internal/cloud/plan/flow"
)

// randomTraffic makes disjoint cells with allowed addresses out of a small pool, so that equal and
// nested sets are common.
func randomTraffic(r *rand.Rand) []flow.Cell {
	var cells []flow.Cell
	for _, protocol := range []int{cloud.ICMP, cloud.TCP, cloud.UDP, 47, cloud.ICMPv6} {
		if r.IntN(2) == 0 {
			continue
		}
		cuts := []int{0, 0x10000}
		if protocol != 47 {
			for range r.IntN(3) {
				cuts = append(cuts, []int{22, 23, 80, 443, 0x0800, 0x0801, 0x0900}[r.IntN(7)])
			}
		}
		slices.Sort(cuts)
		cuts = slices.Compact(cuts)
		for i := 1; i < len(cuts); i++ {
			cells = append(cells, flow.Cell{Service: flow.Service{Protocol: protocol, From: uint16(cuts[i-1]), To: uint16(cuts[i] - 1)}})
		}
	}
	cells = append(cells, flow.Cell{Service: flow.Service{Protocol: cloud.AnyProtocol, From: 0, To: 0xffff}})
	for i := range cells {
		for range r.IntN(3) {
			p := netip.MustParsePrefix([]string{"0.0.0.0/0", "10.0.0.0/8", "10.0.0.0/9", "10.0.0.4/32", "192.0.2.0/24", "::/0", "2001:db8::/32"}[r.IntN(7)])
			cells[i].Addrs = cells[i].Addrs.Union(addrset.OfPrefixes(p))
		}
		if r.IntN(3) == 0 {
			cells[i].Addrs = cells[i].Addrs.Minus(addrset.OfPrefixes(netip.MustParsePrefix("10.0.0.5/32")))
		}
		switch cells[i].Service.Protocol {
		case cloud.ICMP:
			cells[i].Addrs = cells[i].Addrs.Intersect(addrset.OfPrefixes(netip.MustParsePrefix("0.0.0.0/0")))
		case cloud.ICMPv6:
			cells[i].Addrs = cells[i].Addrs.Intersect(addrset.OfPrefixes(netip.MustParsePrefix("::/0")))
		}
		if r.IntN(2) == 0 {
			cells[i].Groups = []cloud.Peer{{GroupID: "sg-a"}}
		} else if r.IntN(3) == 0 {
			cells[i].Idle = []cloud.Peer{{GroupID: "sg-a"}}
		}
	}
	return cells
}

type probe struct {
	protocol, port int
	addr           netip.Addr
}

func probes() []probe {
	var out []probe
	addrs := []string{"10.0.0.4", "10.0.0.5", "10.200.0.1", "192.0.2.9", "11.0.0.0", "2001:db8::1", "2001:db9::1"}
	ports := []int{0, 21, 22, 23, 79, 80, 81, 442, 443, 444, 0x07ff, 0x0800, 0x0801, 0x08ff, 0x0900, 0x0901, 0xffff}
	for _, a := range addrs {
		addr := netip.MustParseAddr(a)
		for _, protocol := range []int{cloud.ICMP, cloud.TCP, cloud.UDP, 47, cloud.ICMPv6, 50, 0, 255} {
			if protocol == cloud.ICMP && addr.Is6() || protocol == cloud.ICMPv6 && addr.Is4() {
				continue
			}
			for _, port := range ports {
				out = append(out, probe{protocol, port, addr})
			}
		}
	}
	return out
}

func cellOf(cells []flow.Cell, p probe) flow.Cell {
	for _, c := range cells {
		if c.Service.Protocol == p.protocol && int(c.Service.From) <= p.port && p.port <= int(c.Service.To) {
			return c
		}
	}
	return cells[len(cells)-1]
}

func matches(m cloud.Match, p probe) bool {
	switch {
	case m.Protocol == cloud.AnyProtocol:
		return true
	case m.Protocol != p.protocol:
		return false
	case m.Protocol == cloud.TCP || m.Protocol == cloud.UDP:
		return m.From <= p.port && p.port <= m.To
	case m.Protocol == cloud.ICMP || m.Protocol == cloud.ICMPv6:
		return m.From < 0 || m.From == p.port>>8 && (m.To < 0 || m.To == p.port&0xff)
	}
	return true
}

func TestLowerIsExact(t *testing.T) {
	const seed = 11
	r := rand.New(rand.NewPCG(seed, 0))
	all := probes()
	for i := range 100 {
		cells := randomTraffic(r)
		rules := AWS{}.Lower(flow.Traffic{Egress: cells})
		if !slices.IsSortedFunc(rules, cloud.Rule.Compare) || len(slices.CompactFunc(slices.Clone(rules), cloud.Rule.Same)) != len(rules) {
			t.Fatalf("seed %d case %d: not sorted or not unique", seed, i)
		}
		for _, p := range all {
			c := cellOf(cells, p)
			byAddr, byGroup := false, false
			for _, rule := range rules {
				if rule.Direction != cloud.Egress {
					t.Fatalf("seed %d case %d: %s", seed, i, rule)
				}
				if matches(rule.Match, p) {
					byAddr = byAddr || rule.Peer.CIDR.IsValid() && rule.Peer.CIDR.Contains(p.addr)
					byGroup = byGroup || rule.Peer.GroupID == "sg-a"
				}
			}
			if byAddr != c.Addrs.Contains(p.addr) {
				t.Fatalf("seed %d case %d: %+v by address: %v\n%v\n%v", seed, i, p, byAddr, cells, rules)
			}
			if wanted := len(c.Groups) > 0; byGroup != wanted && (wanted || len(c.Idle) == 0) {
				t.Fatalf("seed %d case %d: %+v by group: %v\n%v\n%v", seed, i, p, byGroup, cells, rules)
			}
		}
	}
}

func TestLowerMerges(t *testing.T) {
	cell := func(protocol int, from, to uint16, prefixes ...string) flow.Cell {
		c := flow.Cell{Service: flow.Service{Protocol: protocol, From: from, To: to}}
		for _, p := range prefixes {
			c.Addrs = c.Addrs.Union(addrset.OfPrefixes(netip.MustParsePrefix(p)))
		}
		return c
	}
	peer := []cloud.Peer{{GroupID: "sg-a"}}
	byGroup := func(c flow.Cell) flow.Cell { c.Groups = peer; return c }
	idle := func(c flow.Cell) flow.Cell { c.Idle = peer; return c }
	codes := func(text string, from, to int) (out []string) {
		for code := from; code <= to; code++ {
			out = append(out, fmt.Sprintf(text, code))
		}
		return out
	}
	for name, c := range map[string]struct {
		cells []flow.Cell
		want  []string
	}{
		"everything": {
			[]flow.Cell{cell(6, 0, 79, "0.0.0.0/0"), cell(6, 80, 0xffff, "0.0.0.0/0"), cell(-1, 0, 0xffff, "0.0.0.0/0")},
			[]string{"ingress all from 0.0.0.0/0"},
		},
		"ICMPv6 says nothing about IPv4": {
			[]flow.Cell{cell(58, 0, 0xffff), cell(-1, 0, 0xffff, "0.0.0.0/0")},
			[]string{"ingress all from 0.0.0.0/0"},
		},
		"adjacent ports": {
			[]flow.Cell{cell(6, 0, 79), cell(6, 80, 80, "10.0.0.0/8"), cell(6, 81, 90, "10.0.0.0/8"), cell(6, 91, 0xffff), cell(-1, 0, 0xffff)},
			[]string{"ingress tcp 80-90 from 10.0.0.0/8"},
		},
		"halves of a network": {
			[]flow.Cell{cell(17, 0, 52), cell(17, 53, 53, "10.0.0.0/9", "10.128.0.0/9"), cell(17, 54, 0xffff), cell(-1, 0, 0xffff)},
			[]string{"ingress udp 53 from 10.0.0.0/8"},
		},
		"a whole ICMP type": {
			[]flow.Cell{cell(1, 0, 0x07ff), cell(1, 0x0800, 0x08ff, "10.0.0.0/8"), cell(1, 0x0900, 0xffff), cell(-1, 0, 0xffff)},
			[]string{"ingress icmp type 8 from 10.0.0.0/8"},
		},
		"all codes of a type, one of them by another rule": {
			[]flow.Cell{cell(1, 0, 0x07ff), idle(cell(1, 0x0800, 0x0800, "0.0.0.0/0")), byGroup(cell(1, 0x0801, 0x08ff)), cell(1, 0x0900, 0xffff), cell(-1, 0, 0xffff)},
			[]string{"ingress icmp type 8 from sg-a", "ingress icmp type 8 code 0 from 0.0.0.0/0"},
		},
		"one code of a type, the others by another rule": {
			[]flow.Cell{byGroup(cell(1, 0, 0)), idle(cell(1, 1, 0x00ff, "0.0.0.0/0")), cell(1, 0x0100, 0xffff), cell(-1, 0, 0xffff)},
			append([]string{"ingress icmp type 0 code 0 from sg-a"}, codes("ingress icmp type 0 code %d from 0.0.0.0/0", 1, 0xff)...),
		},
		"everything for some, one port for all": {
			[]flow.Cell{cell(6, 0, 21, "10.0.0.0/8"), cell(6, 22, 22, "0.0.0.0/0"), cell(6, 23, 0xffff, "10.0.0.0/8"), cell(-1, 0, 0xffff, "10.0.0.0/8")},
			[]string{"ingress all from 10.0.0.0/8", "ingress tcp 22 from 0.0.0.0/0"},
		},
	} {
		var got []string
		for _, r := range (AWS{}).Lower(flow.Traffic{Ingress: c.cells}) {
			got = append(got, r.String())
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func rules(n int, peer func(i int) cloud.Peer) []cloud.Rule {
	out := make([]cloud.Rule, n)
	for i := range out {
		out[i] = cloud.Rule{Direction: cloud.Ingress, Match: cloud.NewMatch(cloud.TCP, i+1, i+1), Peer: peer(i)}
	}
	return out
}

func v4(int) cloud.Peer    { return cloud.Peer{CIDR: netip.MustParsePrefix("192.0.2.1/32")} }
func v6(int) cloud.Peer    { return cloud.Peer{CIDR: netip.MustParsePrefix("2001:db8::1/128")} }
func group(int) cloud.Peer { return cloud.Peer{GroupID: "sg-a"} }

func TestPack(t *testing.T) {
	q := plan.Quota{Limits: cloud.Limits{RulesPerGroup: 10, GroupsPerInterface: 3}, Lists: map[string]*cloud.PrefixList{
		"pl-4": {ID: "pl-4", MaxEntries: 4, Entries: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}},
	}}
	list := func(int) cloud.Peer { return cloud.Peer{PrefixListID: "pl-4"} }
	for name, c := range map[string]struct {
		wanted []cloud.Rule
		groups int // 0: shortage
	}{
		"nothing":                      {nil, 1},
		"just fits":                    {rules(10, v4), 1},
		"families count apart":         {append(rules(10, v4), rules(10, v6)...), 1},
		"a group counts in both":       {append(rules(5, group), append(rules(5, v4), rules(6, v6)...)...), 2},
		"spills":                       {rules(21, v4), 3},
		"too many":                     {rules(31, v4), 0},
		"a list counts its size":       {rules(4, list), 2},
		"mixed needs the right order":  {append(rules(20, v4), append(rules(20, v6), rules(10, group)...)...), 3},
		"directions count apart":       {append(rules(10, v4), egress(rules(10, v4))...), 1},
		"lists too many for one quota": {rules(7, list), 0},
	} {
		got, short := AWS{}.Pack(c.wanted, nil, q)
		if (short != nil) != (c.groups == 0) || short == nil && len(got) != c.groups {
			t.Errorf("%s: %d groups, shortage %+v, want %d groups", name, len(got), short, c.groups)
			continue
		}
		var all []cloud.Rule
		for _, g := range got {
			if !(AWS{}).Fits(g, q) {
				t.Errorf("%s: a group does not fit", name)
			}
			all = append(all, g...)
		}
		if short == nil && len(all) != len(c.wanted) {
			t.Errorf("%s: %d rules of %d", name, len(all), len(c.wanted))
		}
	}
	_, short := AWS{}.Pack(rules(31, v4), nil, q)
	if want := (plan.Shortage{Quota: plan.QuotaRulesPerGroup, Direction: cloud.Ingress, Family: "IPv4", Needed: 31, Available: 30}); *short != want {
		t.Errorf("%+v, want %+v", *short, want)
	}
}

func egress(in []cloud.Rule) []cloud.Rule {
	for i := range in {
		in[i].Direction = cloud.Egress
	}
	return in
}

// Rules that stay do not wander between the groups of a class.
func TestPackIsStable(t *testing.T) {
	const seed = 5
	r := rand.New(rand.NewPCG(seed, 0))
	q := plan.Quota{Limits: cloud.Limits{RulesPerGroup: 10, GroupsPerInterface: 5}}
	var held [][]cloud.Rule
	pool := rules(45, v4)
	for i := range 500 {
		var wanted []cloud.Rule
		for _, rule := range pool {
			if r.IntN(3) > 0 {
				wanted = append(wanted, rule)
			}
		}
		got, short := AWS{}.Pack(wanted, held, q)
		if short != nil {
			t.Fatalf("seed %d step %d: %+v", seed, i, short)
		}
		for k, g := range held {
			for _, rule := range g {
				if slices.ContainsFunc(wanted, rule.Same) && (k >= len(got) || !slices.ContainsFunc(got[k], rule.Same)) {
					t.Fatalf("seed %d step %d: %s left group %d", seed, i, rule, k)
				}
			}
		}
		again, _ := AWS{}.Pack(wanted, got, q)
		if fmt.Sprint(again) != fmt.Sprint(got) {
			t.Fatalf("seed %d step %d: packing again changes something", seed, i)
		}
		held = got
	}
}
