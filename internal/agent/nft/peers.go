package nft

import (
	"fmt"
	"net/netip"
	"slices"

	"go4.org/netipx"

	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
	"github.com/nephele-io/nephele/internal/agent/nft/ruleset"
	"github.com/nephele-io/nephele/internal/enforcer"
)

// peers returns the ways in which the other end can match in this family. A nil one matches
// everything.
func (l *lane) peers(in *v1beta2.NetworkPolicyPeer) [][]ruleset.Match {
	var out [][]ruleset.Match
	source := l.direction == ruleset.Ingress
	ranges := l.ranges(in.IPBlocks)
	if len(ranges) == 1 && ranges[0] == rangeOf(netip.PrefixFrom(zero(l.family), 0)) {
		return [][]ruleset.Match{nil}
	}
	if len(ranges) > maxRanges {
		out = append(out, []ruleset.Match{{Kind: ruleset.MatchPeerIn, Of: &ruleset.PartKey{Set: l.rangeSet(ranges)}, Source: source}})
	} else {
		for _, r := range ranges {
			out = append(out, []ruleset.Match{{Kind: ruleset.MatchPeer, Peer: &r, Source: source}})
		}
	}
	names := slices.Clone(in.AddressGroups)
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		key := l.members(name)
		out = append(out, []ruleset.Match{{Kind: ruleset.MatchMember, Of: key, Source: source}})
	}
	for _, name := range in.FQDNs {
		key := l.name(name)
		out = append(out, []ruleset.Match{{Kind: ruleset.MatchMember, Of: key, Source: source}})
	}
	for _, s := range in.ToServices {
		key := l.service(s.Namespace + "/" + s.Name)
		out = append(out, []ruleset.Match{{Kind: ruleset.MatchService, Of: key}})
	}
	return out
}

func zero(f ruleset.Family) netip.Addr {
	if f == ruleset.IPv4 {
		return netip.IPv4Unspecified()
	}
	return netip.IPv6Unspecified()
}

func rangeOf(p netip.Prefix) ruleset.Range {
	r := netipx.RangeOfPrefix(p)
	return ruleset.Range{From: r.From(), To: r.To()}
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
func (l *lane) ranges(blocks []v1beta2.IPBlock) []ruleset.Range {
	var all netipx.IPSetBuilder
	for _, b := range blocks {
		p, _ := prefix(b.CIDR)
		if p.Addr().Is4() != (l.family == ruleset.IPv4) || p.Addr().Is4In6() { // no packet has such an address
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
	var out []ruleset.Range
	for _, r := range set.Ranges() {
		out = append(out, ruleset.Range{From: r.From(), To: r.To()})
	}
	return out
}

// rangeSet puts ranges into a set that is named after them.
func (l *lane) rangeSet(ranges []ruleset.Range) ruleset.SetName {
	name := rangeSet(l.family, ranges)
	if l.made.ranges == nil {
		l.made.ranges = map[ruleset.SetName][]ruleset.Range{}
	}
	l.made.ranges[name] = ranges
	return name
}

// rangeSet is the name of the set of ranges of a family.
func rangeSet(f ruleset.Family, ranges []ruleset.Range) ruleset.SetName {
	texts := make([]string, len(ranges))
	for i, r := range ranges {
		texts[i] = r.From.String() + "-" + r.To.String()
	}
	return ruleset.SetName(fmt.Sprintf("ranges%d-%x", f, ruleset.Sum(texts...)))[:40]
}

// of returns the one of two sets that is of the family of the lane.
func (l *lane) of(four, six ruleset.SetName) ruleset.SetName {
	if l.family == ruleset.IPv6 {
		return six
	}
	return four
}

// members makes the segment refer to the addresses of a group.
func (l *lane) members(name string) *ruleset.PartKey {
	keys := l.work.groups[name].keys
	l.made.members = append(l.made.members, keys)
	return &keys.keys[place(l.family)]
}

// name makes the segment refer to the addresses of a domain name.
func (l *lane) name(name string) *ruleset.PartKey {
	key := &ruleset.PartKey{Set: l.of(ruleset.Members4, ruleset.Members6), ID: ruleset.IDOf("name", name)}
	l.made.names = append(l.made.names, partRef{key: key, group: name})
	return key
}

// addressesOf returns the addresses of a domain name.
func (l *lane) addressesOf(r partRef) *ruleset.Part {
	var keys []string
	for _, a := range l.work.names.Addresses[r.group] {
		if a.Is4() == (l.family == ruleset.IPv4) {
			keys = append(keys, string(a.AsSlice()))
		}
	}
	return &ruleset.Part{Of: "name " + r.group, Keys: ruleset.KeysOf(keys)}
}

// service makes the segment refer to where a Service is reached.
func (l *lane) service(name string) *ruleset.PartKey {
	key := &ruleset.PartKey{Set: l.of(ruleset.Ports4, ruleset.Ports6), ID: ruleset.IDOf("service", name)}
	l.made.services = append(l.made.services, partRef{key: key, group: name})
	return key
}

// frontendsOf returns where a Service is reached.
func (l *lane) frontendsOf(r partRef) *ruleset.Part {
	var keys []string
	for _, f := range l.work.services[r.group] {
		if a := f.Address.Unmap(); a.Is4() == (l.family == ruleset.IPv4) {
			keys = append(keys, ruleset.PortKey(a, f.Protocol, f.Port))
		}
	}
	return &ruleset.Part{Of: "Service " + r.group, Keys: ruleset.KeysOf(keys)}
}

// namedPort makes the segment refer to the ports that members of a group have by a name.
func (l *lane) namedPort(group, port string) *ruleset.PartKey {
	key := &ruleset.PartKey{Set: l.of(ruleset.Ports4, ruleset.Ports6), ID: ruleset.IDOf("ports", group, port)}
	l.made.ports = append(l.made.ports, partRef{key, group, port})
	return key
}

// portsOf returns the ports that members of a group have by a name.
func (l *lane) portsOf(r partRef) *ruleset.Part {
	return l.work.groups[r.group].named(*r.key, r.port, l.family)
}

// named returns the ports that the members have by a name, found out now or before.
func (g *groupParts) named(key ruleset.PartKey, name string, f ruleset.Family) *ruleset.Part {
	if g.ports[key] == nil {
		if g.ports == nil {
			g.ports = map[ruleset.PartKey]*namedPorts{}
		}
		g.ports[key] = &namedPorts{name, portsNamed(g.source.Object(), name, f)}
	}
	return g.ports[key].Part
}

// portsNamed returns the ports that members of a group have by a name.
func portsNamed(g *v1beta2.AddressGroup, name string, f ruleset.Family) *ruleset.Part {
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
	return &ruleset.Part{Of: g.Name + " port " + name, Keys: ruleset.KeysOf(keys)}
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
		for i, f := range []ruleset.Family{ruleset.IPv4, ruleset.IPv6} {
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
var nobody = &ruleset.Part{}

// membersOf returns the addresses of the members of a group.
func membersOf(name string, g *v1beta2.AddressGroup, f ruleset.Family) *ruleset.Part {
	size := 4
	if f == ruleset.IPv6 {
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
	return &ruleset.Part{Of: name, Keys: ruleset.KeysOf(keys)}
}

// replace puts a group as it is now into the place of what it was, where that is referred to.
func (w *work) replace(former, now *groupParts) {
	for i, key := range now.keys.keys {
		if now.keys.refers[i] > 0 {
			w.parts.Put(key, now.members[i])
		}
	}
	for key, p := range former.ports {
		if w.refers[key] == 0 {
			continue
		}
		family := ruleset.IPv4
		if key.Set == ruleset.Ports6 {
			family = ruleset.IPv6
		}
		w.parts.Put(key, now.named(key, p.name, family))
	}
}

// addresses returns the addresses of a member in a family, as bytes.
func addresses(m v1beta2.GroupMember, f ruleset.Family) []string {
	var out []string
	for _, ip := range m.IPs {
		a, ok := netip.AddrFromSlice(ip)
		if a = a.Unmap(); ok && a.Is4() == (f == ruleset.IPv4) {
			out = append(out, string(a.AsSlice()))
		}
	}
	return out
}
