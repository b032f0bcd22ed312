// Package lower turns allowed traffic into the rules of AWS security groups, and distributes rules
// over groups within the quotas.
//
// It owns the encoding (protocols, port ranges, ICMP types, CIDRs, group references) and the
// arithmetic of AWS quotas. The rules it returns allow exactly the given traffic, never more, never
// less; among several exact forms it takes the one with the fewest rules.
//
// Everything is a pure function; values may be used from any number of goroutines.
package lower

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan"
	"github.com/nephele-io/nephele/internal/cloud/plan/addrset"
	"github.com/nephele-io/nephele/internal/cloud/plan/flow"
)

// AWS implements plan.Lowerer for EC2 security groups.
type AWS struct{}

var _ plan.Lowerer = AWS{}

// Unsupported implements plan.Lowerer: AWS knows ports of TCP and UDP only, and would allow the
// whole of any other protocol.
func (AWS) Unsupported(s flow.Service) string {
	switch s.Protocol {
	case cloud.AnyProtocol, cloud.TCP, cloud.UDP, cloud.ICMP, cloud.ICMPv6:
		return ""
	}
	if s.From == 0 && s.To == 0xffff {
		return ""
	}
	return fmt.Sprintf("security groups do not match ports of %s (range %d-%d); the whole protocol would be open", cloud.ProtocolName(s.Protocol), s.From, s.To)
}

// Lower implements plan.Lowerer.
func (AWS) Lower(t flow.Traffic) []cloud.Rule {
	var out []cloud.Rule
	for _, d := range []cloud.Direction{cloud.Ingress, cloud.Egress} {
		c := compiler{direction: d, cells: t.Cells(d)}
		out = append(out, c.groupRules()...)
		out = append(out, c.addressRules()...)
	}
	slices.SortFunc(out, cloud.Rule.Compare)
	return slices.CompactFunc(out, cloud.Rule.Same)
}

// compiler works on one direction.
type compiler struct {
	direction cloud.Direction
	cells     []flow.Cell
	// matched are the matches by what peers need of the cells: many need the same.
	matched map[string][]cloud.Match
}

// need says what the rules of one peer do with a cell.
type need uint8

const (
	never  need = iota // must not be allowed
	always             // must be allowed
	either             // no packet is concerned, or another rule allows it already
)

func (c *compiler) groupRules() []cloud.Rule {
	most := 0
	for _, cell := range c.cells {
		most = max(most, len(cell.Groups)+len(cell.Idle))
	}
	t := newTable[cloud.Peer](len(c.cells), most)
	for i, cell := range c.cells {
		for _, p := range cell.Groups {
			t.of(p)[i] = always
		}
		for _, p := range cell.Idle {
			t.of(p)[i] = either
		}
	}
	out := make([]cloud.Rule, 0, len(t.order))
	for _, p := range t.order {
		for _, m := range c.matches(t.of(p)) {
			out = append(out, cloud.Rule{Direction: c.direction, Match: m, Peer: p})
		}
	}
	return out
}

// table tells for peers or prefixes what their rules do with each cell.
type table[K comparable] struct {
	order []K
	at    map[K]int
	needs []need
	cells int
}

func newTable[K comparable](cells, size int) *table[K] {
	return &table[K]{order: make([]K, 0, size), at: make(map[K]int, size), needs: make([]need, 0, size*cells), cells: cells}
}

// of returns what there is about a key, to be read or written until the next one is new.
func (t *table[K]) of(key K) []need {
	i, known := t.at[key]
	if !known {
		i = len(t.order)
		t.at[key], t.order = i, append(t.order, key)
		t.needs = append(t.needs, make([]need, t.cells)...)
	}
	return t.needs[i*t.cells : (i+1)*t.cells]
}

// block is a rule by address.
type block struct {
	prefix netip.Prefix
	match  cloud.Match
}

// addressRules tries several exact ways to cut the allowed addresses into prefixes and takes the
// cheapest, for each family by itself.
func (c *compiler) addressRules() []cloud.Rule {
	var out []cloud.Rule
	for _, family := range []addrset.Set{withoutPackets(flow.Service{Protocol: cloud.ICMPv6}), withoutPackets(flow.Service{Protocol: cloud.ICMP})} {
		sets := make([]addrset.Set, len(c.cells))
		empty := true
		for i, cell := range c.cells {
			sets[i] = cell.Addrs.Intersect(family)
			empty = empty && sets[i].Empty()
		}
		if empty {
			continue
		}
		best := c.byCell(sets, sets)
		if try := c.common(sets); try != nil && len(try) <= len(best) {
			best = try
		}
		if try := c.bySignature(sets); len(try) < len(best) {
			best = try
		}
		if len(best) > 2 {
			if try := c.fewest(sets, len(best)); try != nil {
				best = try
			}
		}
		out = slices.Grow(out, len(best))
		for _, b := range best {
			out = append(out, cloud.Rule{Direction: c.direction, Match: b.match, Peer: cloud.Peer{CIDR: b.prefix}})
		}
	}
	return out
}

// common allows everything to the addresses that may use every service, and the rest service by
// service. It is nil if there are none.
func (c *compiler) common(sets []addrset.Set) []block {
	all := addrset.All()
	for i, cell := range c.cells {
		// Where a cell has no packets of a family, it does not narrow what is common in that
		// family.
		all = all.Intersect(sets[i].Union(withoutPackets(cell.Service)))
	}
	if all.Empty() {
		return nil
	}
	var out []block
	for _, p := range all.Prefixes() {
		out = append(out, block{p, cloud.NewMatch(cloud.AnyProtocol, -1, -1)})
	}
	rest := make([]addrset.Set, len(sets))
	for i := range sets {
		rest[i] = sets[i].Minus(all)
	}
	return append(out, c.byCell(rest, sets)...)
}

// withoutPackets returns the addresses that no packet of the service can have.
func withoutPackets(s flow.Service) addrset.Set {
	switch s.Protocol {
	case cloud.ICMP:
		return addrset.OfPrefixes(netip.PrefixFrom(netip.IPv6Unspecified(), 0))
	case cloud.ICMPv6:
		return addrset.OfPrefixes(netip.PrefixFrom(netip.IPv4Unspecified(), 0))
	default:
		return addrset.Set{}
	}
}

// byCell cuts every cell into prefixes by itself and merges the services of equal prefixes.
// required is what has to be allowed, allowed what may be.
func (c *compiler) byCell(required, allowed []addrset.Set) []block {
	most := 0
	for i := range required {
		most = max(most, required[i].Len())
	}
	t := newTable[netip.Prefix](len(c.cells), most)
	for i := range required {
		for _, p := range required[i].Prefixes() {
			t.of(p)[i] = always
		}
	}
	free := make([]addrset.Set, len(c.cells)) // where a rule does no harm
	for i := range c.cells {
		free[i] = allowed[i].Union(withoutPackets(c.cells[i].Service))
	}
	out := make([]block, 0, len(t.order))
	for _, p := range t.order {
		set, needs := addrset.OfPrefixes(p), t.of(p)
		for i := range c.cells {
			if needs[i] == never && set.Within(free[i]) {
				needs[i] = either
			}
		}
		out = c.appendBlocks(out, p, needs)
	}
	return out
}

// bySignature cuts the address space into parts that may use exactly the same services.
func (c *compiler) bySignature(sets []addrset.Set) []block {
	type part struct {
		addrs addrset.Set
		needs []need
	}
	parts := []part{{addrset.All(), make([]need, len(c.cells))}}
	for i, set := range sets {
		var next []part
		for _, p := range parts {
			if in := p.addrs.Intersect(set); !in.Empty() {
				needs := slices.Clone(p.needs)
				needs[i] = always
				next = append(next, part{in, needs})
			}
			rest := p.addrs.Minus(set)
			none := withoutPackets(c.cells[i].Service)
			if free := rest.Intersect(none); !free.Empty() {
				needs := slices.Clone(p.needs)
				needs[i] = either
				next = append(next, part{free, needs})
			}
			if rest = rest.Minus(none); !rest.Empty() {
				next = append(next, part{rest, p.needs})
			}
		}
		parts = next
	}
	var out []block
	for _, p := range parts {
		if !slices.Contains(p.needs, always) {
			continue
		}
		for _, prefix := range p.addrs.Prefixes() {
			out = c.appendBlocks(out, prefix, p.needs)
		}
	}
	return out
}

// appendBlocks appends the rules that a prefix needs.
func (c *compiler) appendBlocks(out []block, p netip.Prefix, needs []need) []block {
	for _, m := range c.matches(needs) {
		if m.Protocol == cloud.ICMP && p.Addr().Is6() || m.Protocol == cloud.ICMPv6 && p.Addr().Is4() {
			continue
		}
		out = append(out, block{p, m})
	}
	return out
}

// matches returns the fewest matches that allow all cells that must be allowed and none that must
// not.
func (c *compiler) matches(needs []need) []cloud.Match {
	out, known := c.matched[string(needs)]
	if !known {
		out = c.match(needs)
		if c.matched == nil {
			c.matched = map[string][]cloud.Match{}
		}
		c.matched[string(needs)] = out
	}
	return out
}

// match is matches, worked out.
func (c *compiler) match(needs []need) []cloud.Match {
	if !slices.Contains(needs, always) {
		return nil
	}
	if !slices.Contains(needs, never) {
		return []cloud.Match{cloud.NewMatch(cloud.AnyProtocol, -1, -1)}
	}
	var out []cloud.Match
	named := map[int]bool{}
	for i := 0; i < len(c.cells); {
		protocol := c.cells[i].Service.Protocol
		j := i
		for j < len(c.cells) && c.cells[j].Service.Protocol == protocol {
			j++
		}
		if protocol == cloud.AnyProtocol {
			if needs[i] == always {
				for number := 0; number <= 255; number++ {
					if !named[number] {
						out = append(out, encode(flow.Service{Protocol: number, From: 0, To: 0xffff})...)
					}
				}
			}
		} else {
			named[protocol] = true
			out = append(out, c.runs(i, j, needs)...)
		}
		i = j
	}
	return out
}

// runs merges adjacent cells of one protocol, also over cells that do no harm.
func (c *compiler) runs(i, j int, needs []need) []cloud.Match {
	var out []cloud.Match
	whole := slices.Contains(needs[i:j], always) && !slices.Contains(needs[i:j], never)
	if whole {
		return encode(flow.Service{Protocol: c.cells[i].Service.Protocol, From: 0, To: 0xffff})
	}
	for ; i < j; i++ {
		if needs[i] == never {
			continue
		}
		begin, first, last, end := i, -1, -1, i
		for ; end < j && needs[end] != never; end++ {
			if needs[end] == always {
				if last = end; first < 0 {
					first = end
				}
			}
		}
		if i = end; first < 0 {
			continue
		}
		run := c.between(first, last)
		out = append(out, fewerTypes(run, c.between(begin, end-1))...)
	}
	return out
}

// between is the service of adjacent cells of one protocol.
func (c *compiler) between(first, last int) flow.Service {
	return flow.Service{Protocol: c.cells[first].Service.Protocol, From: c.cells[first].Service.From, To: c.cells[last].Service.To}
}

// fewerTypes writes a service as matches, and types of ICMP of which some codes are in it as a
// whole, if that takes fewer matches and all codes are in another service.
func fewerTypes(s, within flow.Service) []cloud.Match {
	out, wider := encode(s), s
	if s.Protocol != cloud.ICMP && s.Protocol != cloud.ICMPv6 {
		return out
	}
	if from := s.From &^ 0xff; from >= within.From {
		wider.From = from
	}
	if to := s.To | 0xff; to <= within.To {
		wider.To = to
	}
	if types := encode(wider); len(types) < len(out) {
		return types
	}
	return out
}

// encode writes a service as the cloud's matches: one for a port range, one for every ICMP type
// that is whole, and one for every single type and code of those that are not.
func encode(s flow.Service) []cloud.Match {
	switch s.Protocol {
	case cloud.ICMP, cloud.ICMPv6:
	case cloud.TCP, cloud.UDP:
		return []cloud.Match{cloud.NewMatch(s.Protocol, int(s.From), int(s.To))}
	default:
		return []cloud.Match{cloud.NewMatch(s.Protocol, -1, -1)}
	}
	if s.From == 0 && s.To == 0xffff {
		return []cloud.Match{cloud.NewMatch(s.Protocol, -1, -1)}
	}
	var out []cloud.Match
	for at := int(s.From); at <= int(s.To); {
		kind, code := at>>8, at&0xff
		if code == 0 && at+0xff <= int(s.To) {
			out = append(out, cloud.NewMatch(s.Protocol, kind, -1))
			at += 0x100
			continue
		}
		out = append(out, cloud.NewMatch(s.Protocol, kind, code))
		at++
	}
	return out
}
