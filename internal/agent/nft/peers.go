package nft

import (
	"fmt"
	"net/netip"
	"slices"

	"go4.org/netipx"

	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
	"github.com/nephele-io/nephele/internal/enforcer"
)

// peers returns the ways in which the other end can match in this family. A nil one matches
// everything.
func (l *lane) peers(in *v1beta2.NetworkPolicyPeer) [][]Match {
	var out [][]Match
	source := l.direction == Ingress
	ranges := l.ranges(in.IPBlocks)
	if len(ranges) == 1 && ranges[0] == rangeOf(netip.PrefixFrom(zero(l.family), 0)) {
		return [][]Match{nil}
	}
	if len(ranges) > maxRanges {
		out = append(out, []Match{{Kind: MatchPeerIn, Of: &PartKey{Set: l.rangeSet(ranges)}, Source: source}})
	} else {
		for _, r := range ranges {
			out = append(out, []Match{{Kind: MatchPeer, Peer: &r, Source: source}})
		}
	}
	names := slices.Clone(in.AddressGroups)
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		key := l.members(name)
		out = append(out, []Match{{Kind: MatchMember, Of: key, Source: source}})
	}
	for _, name := range in.FQDNs {
		key := l.name(name)
		out = append(out, []Match{{Kind: MatchMember, Of: key, Source: source}})
	}
	for _, s := range in.ToServices {
		key := l.service(s.Namespace + "/" + s.Name)
		out = append(out, []Match{{Kind: MatchService, Of: key}})
	}
	return out
}

func zero(f Family) netip.Addr {
	if f == IPv4 {
		return netip.IPv4Unspecified()
	}
	return netip.IPv6Unspecified()
}

func rangeOf(p netip.Prefix) Range {
	r := netipx.RangeOfPrefix(p)
	return Range{r.From(), r.To()}
}

// prefix converts a block of addresses. Host bits do not count.
func prefix(n v1beta2.IPNet) (netip.Prefix, bool) {
	a, ok := netip.AddrFromSlice(n.IP)
	if !ok {
		return netip.Prefix{}, false
	}
	if u := a.Unmap(); u.Is4() && n.PrefixLength <= 32 {
		a = u
	}
	p, err := a.Prefix(int(n.PrefixLength))
	return p, err == nil
}

// ranges returns the addresses of blocks without their exceptions, as far as they are of this
// family.
func (l *lane) ranges(blocks []v1beta2.IPBlock) []Range {
	var all netipx.IPSetBuilder
	for _, b := range blocks {
		p, _ := prefix(b.CIDR)
		if p.Addr().Is4() != (l.family == IPv4) || p.Addr().Is4In6() { // no packet has such an address
			continue
		}
		var one netipx.IPSetBuilder
		one.AddPrefix(p)
		for _, e := range b.Except {
			if q, _ := prefix(e); q.Addr().Is4() == p.Addr().Is4() {
				one.RemovePrefix(q)
			}
		}
		set, err := one.IPSet()
		if err != nil { // only of invalid prefixes, which check has refused
			continue
		}
		all.AddSet(set)
	}
	set, err := all.IPSet()
	if err != nil {
		return nil
	}
	var out []Range
	for _, r := range set.Ranges() {
		out = append(out, Range{r.From(), r.To()})
	}
	return out
}

// rangeSet puts ranges into a set that is named after them.
func (l *lane) rangeSet(ranges []Range) SetName {
	name := rangeSet(l.family, ranges)
	if l.made.ranges == nil {
		l.made.ranges = map[SetName][]Range{}
	}
	l.made.ranges[name] = ranges
	return name
}

// rangeSet is the name of the set of ranges of a family.
func rangeSet(f Family, ranges []Range) SetName {
	texts := make([]string, len(ranges))
	for i, r := range ranges {
		texts[i] = r.From.String() + "-" + r.To.String()
	}
	return SetName(fmt.Sprintf("ranges%d-%x", f, sum(texts...)))[:40]
}

// of returns the one of two sets that is of the family of the lane.
func (l *lane) of(four, six SetName) SetName {
	if l.family == IPv6 {
		return six
	}
	return four
}

// members makes the segment refer to the addresses of a group.
func (l *lane) members(name string) *PartKey {
	keys := l.groups[name].keys
	l.made.members = append(l.made.members, keys)
	return &keys.keys[l.family.place()]
}

// name makes the segment refer to the addresses of a domain name.
func (l *lane) name(name string) *PartKey {
	key := &PartKey{l.of(Members4, Members6), idOf("name", name)}
	l.made.names = append(l.made.names, partRef{key: key, group: name})
	return key
}

// addressesOf returns the addresses of a domain name.
func (l *lane) addressesOf(r partRef) *Part {
	var keys []string
	for _, a := range l.names.Addresses[r.group] {
		if a.Is4() == (l.family == IPv4) {
			keys = append(keys, string(a.AsSlice()))
		}
	}
	return &Part{"name " + r.group, KeysOf(keys)}
}

// service makes the segment refer to where a Service is reached.
func (l *lane) service(name string) *PartKey {
	key := &PartKey{l.of(Ports4, Ports6), idOf("service", name)}
	l.made.services = append(l.made.services, partRef{key: key, group: name})
	return key
}

// frontendsOf returns where a Service is reached.
func (l *lane) frontendsOf(r partRef) *Part {
	var keys []string
	for _, f := range l.work.services[r.group] {
		if a := f.Address.Unmap(); a.Is4() == (l.family == IPv4) {
			keys = append(keys, portKey(a, f.Protocol, f.Port))
		}
	}
	return &Part{"Service " + r.group, KeysOf(keys)}
}

// portKey is an address with a protocol and a port, as keys of sets have them.
func portKey(a netip.Addr, protocol uint8, port uint16) string {
	return string(a.AsSlice()) + string([]byte{protocol, 0, 0, 0, byte(port >> 8), byte(port), 0, 0})
}

// namedPort makes the segment refer to the ports that members of a group have by a name.
func (l *lane) namedPort(group, port string) *PartKey {
	key := &PartKey{l.of(Ports4, Ports6), idOf("ports", group, port)}
	l.made.ports = append(l.made.ports, partRef{key, group, port})
	return key
}

// portsOf returns the ports that members of a group have by a name.
func (l *lane) portsOf(r partRef) *Part {
	return l.groups[r.group].named(*r.key, r.port, l.family)
}

// named returns the ports that the members have by a name, found out now or before.
func (g *groupParts) named(key PartKey, name string, f Family) *Part {
	if g.ports[key] == nil {
		if g.ports == nil {
			g.ports = map[PartKey]*namedPorts{}
		}
		g.ports[key] = &namedPorts{name, portsNamed(g.source.Object(), name, f)}
	}
	return g.ports[key].Part
}

// portsNamed returns the ports that members of a group have by a name.
func portsNamed(g *v1beta2.AddressGroup, name string, f Family) *Part {
	var keys []string
	for _, m := range g.GroupMembers {
		for _, p := range m.Ports {
			protocol := portProtocol(p)
			if p.Name != name || protocol == 0 {
				continue
			}
			for _, a := range addresses(m, f) {
				keys = append(keys, a+string([]byte{protocol, 0, 0, 0, byte(p.Port >> 8), byte(p.Port), 0, 0}))
			}
		}
	}
	return &Part{g.Name + " port " + name, KeysOf(keys)}
}

// know takes in what a group is in the sets, made now or before. What is in the program of a group
// that has changed is that of now.
func (w *work) know(g *enforcer.AddressGroup) {
	parts := w.groups[g.GetName()]
	if parts == nil || parts.source != g {
		former := parts
		parts = &groupParts{source: g}
		if former != nil {
			parts.keys = former.keys
		} else {
			parts.keys = newGroupKeys(g.GetName())
		}
		whole := g.Object()
		for i, f := range []Family{IPv4, IPv6} {
			parts.members[i] = membersOf(g.GetName(), whole, f)
		}
		w.groups[g.GetName()] = parts
		if former != nil {
			w.replace(former, parts)
		}
	}
	parts.run = w.run
}

// nobody are no elements.
var nobody = &Part{}

// membersOf returns the addresses of the members of a group.
func membersOf(name string, g *v1beta2.AddressGroup, f Family) *Part {
	size := 4
	if f == IPv6 {
		size = 16
	}
	var all []byte
	for _, m := range g.GroupMembers {
		for _, a := range addresses(m, f) {
			all = append(all, a...)
		}
	}
	if len(all) == 0 {
		return nobody
	}
	text := string(all)
	keys := make([]string, 0, len(text)/size)
	for ; len(text) > 0; text = text[size:] {
		keys = append(keys, text[:size])
	}
	return &Part{name, KeysOf(keys)}
}

// replace puts a group as it is now into the place of what it was, where that is referred to.
func (w *work) replace(former, now *groupParts) {
	for i, key := range now.keys.keys {
		if now.keys.refers[i] > 0 {
			w.parts.put(key, now.members[i])
		}
	}
	for key, p := range former.ports {
		if w.refers[key] == 0 {
			continue
		}
		family := IPv4
		if key.Set == Ports6 {
			family = IPv6
		}
		w.parts.put(key, now.named(key, p.name, family))
	}
}

// addresses are the addresses of a member in a family, as bytes.
func addresses(m v1beta2.GroupMember, f Family) []string {
	var out []string
	for _, ip := range m.IPs {
		a, ok := netip.AddrFromSlice(ip)
		if a = a.Unmap(); ok && a.Is4() == (f == IPv4) {
			out = append(out, string(a.AsSlice()))
		}
	}
	return out
}
