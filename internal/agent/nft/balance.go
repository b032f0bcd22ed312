package nft

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"iter"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/nephele-io/nephele/internal/agent/nft/ruleset"
)

// Places are where connections to Services go by where they are made to.
type Places = ruleset.Layered[Frontend, *Balance]

// Balanced says where connections to Services go. It never changes once made.
type Balanced struct {
	// Unknown tells that it is not known yet: what the kernel has stays.
	Unknown bool
	// To are the Services by where connections are made to. An unspecified address is any of the
	// Node, of its family.
	To *Places
	// ClusterIPs are the addresses of Services within the cluster, sorted. A port that one of them
	// does not have is refused.
	ClusterIPs []netip.Addr
	// Descent tells how it came about, where that is known.
	Descent Descent
}

// Descent tells from which other Balanced one was made.
type Descent struct {
	// Mark identifies the Balanced, and From the other one; nil for none.
	Mark, From *ruleset.Mark
	// Touched are the places that may lead elsewhere than from there, without order.
	Touched []Frontend
}

// touched are the places that may lead elsewhere than in another Balanced; false where that is not
// known.
func (b *Balanced) touched(former *Balanced) ([]Frontend, bool) {
	if b == former {
		return nil, true
	}
	if b.Unknown || former.Unknown || b.Descent.From == nil || b.Descent.From != former.Descent.Mark {
		return nil, false
	}
	return b.Descent.Touched, true
}

// Balance is what becomes of connections that are made to one place.
type Balance struct {
	// Backends are where they go, sorted; each with the same chance.
	Backends []netip.AddrPort
	// Inside are where packets of the Node and its Pods go, if that is elsewhere: Apart.
	Apart  bool
	Inside []netip.AddrPort
	// Sources are the addresses that may connect; nil for all.
	Sources []netip.Prefix
	// Sticky is for how many seconds a client stays with a backend; 0 for not at all.
	Sticky uint32
	// Silent tells that without backends nothing is answered. Else it is rejected.
	Silent bool
	// KeepsSource says that backends see the address of the client.
	KeepsSource bool
}

// firstInside is the number of the first backend of those for the Node and its Pods.
const firstInside = 1 << 16

// The chains that dispatches for Services lead to, besides those that choose a backend.
const (
	dropTarget   = ruleset.Targets + "nobody"
	rejectTarget = ruleset.Targets + "none"
	keepTarget   = ruleset.NetworkChains + "keep"
	masquerading = ruleset.NetworkChains + "masquerade"
)

// balanced is what was made of a Balanced. It never changes once made.
type balanced struct {
	of       *Balanced
	own      []netip.Prefix
	dispatch map[ruleset.SetName]*ruleset.Elements
	chains   map[string]*ruleset.Chain
	// uses counts the elements that lead to a chain.
	uses map[string]int
	led  ruleset.Lineage
}

// mostTouched is what part of the places may differ for the rest to be taken over: one of as many.
const mostTouched = 8

// balance makes the dispatches for Services, and the chains that they lead to. Where few places
// differ from former ones the rest is taken over.
func balance(of *Balanced, own []netip.Prefix, former *balanced) *balanced {
	b := &balanced{of: of, own: own, dispatch: map[ruleset.SetName]*ruleset.Elements{}, chains: map[string]*ruleset.Chain{}, uses: map[string]int{}}
	b.led.Mark = new(ruleset.Mark)
	if former != nil && !former.of.Unknown && !of.Unknown && slices.Equal(own, former.own) {
		if places, few := of.differs(former.of); few {
			b.take(former, places)
			return b
		}
	}
	for _, name := range ruleset.OfServices() {
		b.dispatch[name] = ruleset.NewLayered[string, string](nil)
	}
	if of.Unknown {
		return b
	}
	for _, a := range of.ClusterIPs {
		b.clusterIP(a)
	}
	for at, to := range of.To.All() {
		b.place(at, to)
	}
	return b
}

// take takes over what there was, but for some places.
func (b *balanced) take(former *balanced, places []Frontend) {
	b.dispatch, b.chains, b.uses = maps.Clone(former.dispatch), maps.Clone(former.chains), maps.Clone(former.uses)
	b.led.From, b.led.Touched = former.led.Mark, map[ruleset.SetName][]string{}
	for _, at := range places {
		b.move(at, former.of.To.At(at), b.of.To.At(at))
	}
	if !slices.Equal(b.of.ClusterIPs, former.of.ClusterIPs) {
		for _, a := range former.of.ClusterIPs {
			if _, stays := slices.BinarySearchFunc(b.of.ClusterIPs, a, netip.Addr.Compare); !stays {
				b.set(ruleset.InFamily(ruleset.ClusterIP4, ruleset.ClusterIP6, familyOf(a)), string(a.AsSlice()), "", false)
			}
		}
		for _, a := range b.of.ClusterIPs {
			if _, was := slices.BinarySearchFunc(former.of.ClusterIPs, a, netip.Addr.Compare); !was {
				b.clusterIP(a)
			}
		}
	}
	// Chains stay that something leads to.
	reached := map[string]*ruleset.Chain{}
	var reach func(name string)
	reach = func(name string) {
		c := b.chains[name]
		if c == nil || reached[name] != nil {
			return
		}
		reached[name] = c
		for i := range c.Rules {
			reach(c.Rules[i].Target)
		}
	}
	for name, n := range b.uses {
		if n > 0 {
			reach(name)
		} else {
			delete(b.uses, name)
		}
	}
	b.chains = reached
}

// move leads from a place elsewhere; nil is nowhere. It sets elements only where they differ.
func (b *balanced) move(at Frontend, was, now *Balance) {
	type element struct {
		name ruleset.SetName
		key  string
	}
	stays := map[element]bool{}
	if now != nil {
		b.each(at, now, func(name ruleset.SetName, key string, value func() string) {
			stays[element{name, key}] = true
			v := value()
			if is, there := b.dispatch[name].Get(key); !there || is != v {
				b.set(name, key, v, true)
			}
		})
	}
	if was != nil {
		b.each(at, was, func(name ruleset.SetName, key string, _ func() string) {
			if !stays[element{name, key}] {
				b.set(name, key, "", false)
			}
		})
	}
}

// set gives an element of a dispatch a value, or removes it. Of a dispatch that was taken over the
// next version is changed.
func (b *balanced) set(name ruleset.SetName, key, value string, there bool) {
	d := b.dispatch[name]
	if b.led.From != nil {
		if b.led.Touched[name] == nil {
			d = d.Next()
			b.dispatch[name] = d
		}
		b.led.Touched[name] = append(b.led.Touched[name], key)
	}
	leads := !name.HoldsBackends()
	if was, is := d.Get(key); is && leads {
		b.uses[was]--
	}
	if !there {
		d.Delete(key)
		return
	}
	d.Set(key, value)
	if leads {
		b.uses[value]++
	}
}

func familyOf(a netip.Addr) ruleset.Family {
	if a.Is6() {
		return ruleset.IPv6
	}
	return ruleset.IPv4
}

// clusterIP makes ports be refused that an address of a Service does not have.
func (b *balanced) clusterIP(a netip.Addr) {
	f := familyOf(a)
	b.set(ruleset.InFamily(ruleset.ClusterIP4, ruleset.ClusterIP6, f), string(a.AsSlice()), b.choose(f, false, &Balance{}, nil, 0), true)
}

// place leads from a place.
func (b *balanced) place(at Frontend, to *Balance) {
	b.each(at, to, func(name ruleset.SetName, key string, value func() string) { b.set(name, key, value(), true) })
}

// each calls do for each element by which it is led from a place.
func (b *balanced) each(at Frontend, to *Balance, do func(name ruleset.SetName, key string, value func() string)) {
	f, key, anyAddress := familyOf(at.Address), frontendKey(at), at.Address.IsUnspecified()
	leads, keeps, short := ruleset.InFamily(ruleset.Services4, ruleset.Services6, f), ruleset.InFamily(ruleset.Keeps4, ruleset.Keeps6, f), key
	if anyAddress {
		leads, keeps = ruleset.InFamily(ruleset.NodePorts4, ruleset.NodePorts6, f), ruleset.InFamily(ruleset.KeepPorts4, ruleset.KeepPorts6, f)
		short = key[ruleset.AddressBytes(f):]
	}
	do(leads, short, func() string { return b.target(f, anyAddress, to) })
	for _, of := range []struct {
		first uint32
		list  []netip.AddrPort
	}{{0, to.Backends}, {firstInside, to.Inside}} {
		for i, a := range of.list {
			do(ruleset.InFamily(ruleset.Endpoints4, ruleset.Endpoints6, f), string(binary.NativeEndian.AppendUint32([]byte(key), of.first+uint32(i))),
				func() string { return backendData(a) })
		}
	}
	if to.KeepsSource {
		do(keeps, short, func() string { return keepTarget })
	}
}

// differs are the places from which it is led elsewhere than by another one; false if they are not
// few.
func (b *Balanced) differs(former *Balanced) (places []Frontend, few bool) {
	most := b.To.Len() / mostTouched
	if touched, known := b.touched(former); known {
		for _, at := range touched {
			was, now := former.To.At(at), b.To.At(at)
			if (was == nil) != (now == nil) || was != nil && !was.equal(now) {
				places = append(places, at)
			}
		}
		return places, len(places) <= most
	}
	found := 0
	for at, to := range b.To.All() {
		was := former.To.At(at)
		if was != nil {
			found++
		}
		if was == nil || !was.equal(to) {
			if places = append(places, at); len(places) > most {
				return nil, false
			}
		}
	}
	if found == former.To.Len() {
		return places, true
	}
	for at := range former.To.All() {
		if b.To.At(at) == nil {
			if places = append(places, at); len(places) > most {
				return nil, false
			}
		}
	}
	return places, true
}

// frontendKey is a place as the kernel has it: address, protocol and port, each filled up to four
// bytes.
func frontendKey(at Frontend) string {
	return string(at.Address.AsSlice()) + string([]byte{at.Protocol, 0, 0, 0, byte(at.Port >> 8), byte(at.Port), 0, 0})
}

// backendData is a backend as the kernel has it.
func backendData(a netip.AddrPort) string {
	return string(a.Addr().AsSlice()) + string([]byte{byte(a.Port() >> 8), byte(a.Port()), 0, 0})
}

// target is the chain for a Balance. It depends on numbers only, so that there are few.
func (b *balanced) target(f ruleset.Family, anyAddress bool, to *Balance) string {
	name := b.choose(f, anyAddress, to, to.Backends, 0)
	if to.Apart {
		inside := b.choose(f, anyAddress, to, to.Inside, firstInside)
		outside := name
		name = fmt.Sprintf("%sapart-%s-%s", ruleset.Targets, strings.TrimPrefix(inside, ruleset.Targets), strings.TrimPrefix(outside, ruleset.Targets))
		if b.chains[name] == nil {
			var rules []ruleset.Rule
			for _, r := range rangesOf(b.own, f) {
				rules = append(rules, ruleset.Rule{Matches: []ruleset.Match{{Kind: ruleset.MatchFamily, Lo: uint16(f)}, {Kind: ruleset.MatchPeer, Peer: &r, Source: true}},
					Action: ruleset.Goto, Target: inside})
			}
			rules = append(rules, ruleset.Rule{Matches: []ruleset.Match{{Kind: ruleset.MatchRouted}}, Action: ruleset.Goto, Target: outside})
			b.chains[name] = &ruleset.Chain{Rules: append(rules, ruleset.Rule{Action: ruleset.Goto, Target: inside})}
		}
	}
	if to.Sources == nil {
		return name
	}
	next := name
	ranges := rangesOf(to.Sources, f)
	texts := []string{next}
	for _, r := range ranges {
		texts = append(texts, r.From.String(), r.To.String())
	}
	name = fmt.Sprintf("%sfrom-%x", ruleset.Targets, ruleset.Sum(texts...))[:60]
	if b.chains[name] == nil {
		var rules []ruleset.Rule
		for _, r := range ranges {
			rules = append(rules, ruleset.Rule{Matches: []ruleset.Match{{Kind: ruleset.MatchFamily, Lo: uint16(f)}, {Kind: ruleset.MatchPeer, Peer: &r, Source: true}},
				Action: ruleset.Goto, Target: next})
		}
		b.chains[name] = &ruleset.Chain{Rules: append(rules, ruleset.Rule{Action: ruleset.Drop, Origin: &ruleset.Origin{Kind: ruleset.OriginNetwork, Name: "not one of loadBalancerSourceRanges"}})}
	}
	return name
}

// choose is the chain that chooses one of some backends.
func (b *balanced) choose(f ruleset.Family, anyAddress bool, to *Balance, list []netip.AddrPort, first uint32) string {
	switch {
	case len(list) == 0 && to.Silent:
		b.chains[dropTarget] = &ruleset.Chain{Rules: []ruleset.Rule{{Action: ruleset.Drop, Origin: &ruleset.Origin{Kind: ruleset.OriginNetwork, Name: "no endpoint on this Node"}}}}
		return dropTarget
	case len(list) == 0:
		none := &ruleset.Origin{Kind: ruleset.OriginNetwork, Name: "no endpoints"}
		tcp := []ruleset.Match{{Kind: ruleset.MatchProtocol, Lo: uint16(ruleset.TCP)}}
		b.chains[rejectTarget] = &ruleset.Chain{Rules: []ruleset.Rule{{Matches: tcp, Action: ruleset.RejectReset, Origin: none}, {Action: ruleset.RejectPort, Origin: none}}}
		return rejectTarget
	}
	rule := ruleset.BalanceTo{Family: f, Backends: uint32(len(list)), First: first, AnyAddress: anyAddress, Sticky: to.Sticky}
	name := fmt.Sprintf("%s%d-of-%d", ruleset.Targets, f, rule.Backends)
	if first > 0 {
		name += "-inside"
	}
	if anyAddress {
		name += "-port"
	}
	if rule.Sticky > 0 {
		name += fmt.Sprintf("-sticky%d", rule.Sticky)
	}
	if b.chains[name] == nil {
		c := &ruleset.Chain{}
		if rule.Sticky > 0 {
			known := rule
			known.Known = true
			c.Rules = append(c.Rules, ruleset.Rule{Action: ruleset.BalanceBackends, Balance: &known})
		}
		b.chains[name] = &ruleset.Chain{Rules: append(c.Rules, ruleset.Rule{Action: ruleset.BalanceBackends, Balance: &rule})}
	}
	return name
}

// services adds what leads to Services.
func (n *Network) services(p *ruleset.Program, node *Node, b *balanced) {
	p.Leaves, p.Lineage = b.of.Unknown, b.led
	maps.Copy(p.Dispatch, b.dispatch)
	maps.Copy(p.Chains, b.chains)
	loopback := ruleset.Range{From: netip.MustParseAddr("127.0.0.0"), To: netip.MustParseAddr("127.255.255.255")}
	for _, base := range []ruleset.Base{ruleset.ToServices, ruleset.HostToServices} {
		var rules []ruleset.Rule
		for _, f := range []ruleset.Family{ruleset.IPv4, ruleset.IPv6} {
			family := ruleset.Match{Kind: ruleset.MatchFamily, Lo: uint16(f)}
			rules = append(rules,
				ruleset.Rule{Matches: []ruleset.Match{family}, Action: ruleset.Lookup, Target: string(ruleset.InFamily(ruleset.Services4, ruleset.Services6, f))},
				ruleset.Rule{Matches: []ruleset.Match{family}, Action: ruleset.Lookup, Target: string(ruleset.InFamily(ruleset.ClusterIP4, ruleset.ClusterIP6, f))})
			if f == ruleset.IPv4 { // no answer would come back from elsewhere
				rules = append(rules, ruleset.Rule{Matches: []ruleset.Match{family, {Kind: ruleset.MatchPeer, Peer: &loopback}}, Action: ruleset.Accept})
			}
			rules = append(rules, ruleset.Rule{Matches: []ruleset.Match{family, {Kind: ruleset.MatchToNode}}, Action: ruleset.Lookup,
				Target: string(ruleset.InFamily(ruleset.NodePorts4, ruleset.NodePorts6, f))})
		}
		p.Chains[string(base)] = &ruleset.Chain{Rules: rules}
	}
	for _, name := range []ruleset.SetName{ruleset.Hairpin4, ruleset.Hairpin6} {
		p.Dispatch[name] = ruleset.NewLayered[string, string](nil)
	}
	for i := range node.Pods {
		for _, a := range node.Pods[i].Addresses {
			name := ruleset.Hairpin4
			if a.Is6() {
				name = ruleset.Hairpin6
			}
			p.Dispatch[name].Set(name.DispatchKey(a, a), masquerading)
		}
	}
	p.Chains[keepTarget] = &ruleset.Chain{Rules: []ruleset.Rule{{Action: ruleset.Accept}}}
	p.Chains[masquerading] = &ruleset.Chain{Rules: []ruleset.Rule{{Action: ruleset.Masquerade}}}
}

// Compare sorts places.
func (f Frontend) Compare(o Frontend) int {
	return cmp.Or(f.Address.Compare(o.Address), cmp.Compare(f.Protocol, o.Protocol), cmp.Compare(f.Port, o.Port))
}

// Equal reports whether two lead the same way.
func (b *Balanced) Equal(o *Balanced) bool {
	if _, known := b.touched(o); known {
		places, few := b.differs(o)
		return few && len(places) == 0 && slices.Equal(b.ClusterIPs, o.ClusterIPs)
	}
	return b.Unknown == o.Unknown && slices.Equal(b.ClusterIPs, o.ClusterIPs) && b.To.Equal(o.To, (*Balance).equal)
}

func (b *Balance) equal(o *Balance) bool {
	return b == o || slices.Equal(b.Backends, o.Backends) && b.Apart == o.Apart && slices.Equal(b.Inside, o.Inside) && (b.Sources == nil) == (o.Sources == nil) &&
		slices.Equal(b.Sources, o.Sources) && b.Sticky == o.Sticky && b.Silent == o.Silent && b.KeepsSource == o.KeepsSource
}

// has reports whether connections may go to a backend.
func (b *Balance) has(at netip.AddrPort) bool {
	in := func(list []netip.AddrPort) bool {
		_, found := slices.BinarySearchFunc(list, at, netip.AddrPort.Compare)
		return found
	}
	return in(b.Backends) || in(b.Inside)
}

// places returns the places of a former Balanced and of this one that may differ, with where each
// led and leads; nil is nowhere.
func (b *Balanced) places(former *Balanced) iter.Seq2[Frontend, [2]*Balance] {
	return func(yield func(Frontend, [2]*Balance) bool) {
		if touched, known := b.touched(former); known {
			for _, at := range touched {
				if !yield(at, [2]*Balance{former.To.At(at), b.To.At(at)}) {
					return
				}
			}
			return
		}
		for at, was := range former.To.All() {
			if now := b.To.At(at); now != was && !yield(at, [2]*Balance{was, now}) {
				return
			}
		}
		for at, now := range b.To.All() {
			if former.To.At(at) == nil && !yield(at, [2]*Balance{nil, now}) {
				return
			}
		}
	}
}

// lost reports whether connections went to a backend that is none any more.
func lost(was, now *Balance) bool {
	gone := func(backend netip.AddrPort) bool { return now == nil || !now.has(backend) }
	return was != nil && (slices.ContainsFunc(was.Backends, gone) || slices.ContainsFunc(was.Inside, gone))
}

// Loses reports whether a client may have stayed with a backend that is none any more.
func (b *Balanced) Loses(former *Balanced) bool {
	for _, led := range b.places(former) {
		if was := led[0]; was != nil && was.Sticky != 0 && lost(was, led[1]) {
			return true
		}
	}
	return false
}

// MovesDatagrams reports whether connections of UDP may go where they may not any more, or nowhere
// though they could go somewhere now.
func (b *Balanced) MovesDatagrams(former *Balanced) bool {
	if former == nil || former.Unknown {
		return true
	}
	some := func(x *Balance) bool { return x != nil && len(x.Backends)+len(x.Inside) > 0 }
	for at, led := range b.places(former) {
		if at.Protocol == ruleset.UDP && (lost(led[0], led[1]) || some(led[1]) && !some(led[0])) {
			return true
		}
	}
	return false
}

// At is what leads from a place: by its address, or by its port on the Node; nil for nothing.
func (b *Balanced) At(at Frontend) *Balance {
	if b == nil {
		return nil
	}
	if to := b.To.At(at); to != nil {
		return to
	}
	if at.Address.Is6() {
		at.Address = netip.IPv6Unspecified()
	} else {
		at.Address = netip.IPv4Unspecified()
	}
	return b.To.At(at)
}

// Allows reports whether a connection that was made to a place may go on to where it goes.
func (b *Balanced) Allows(at Frontend, to netip.AddrPort) bool {
	x := b.At(at)
	return x != nil && x.has(to)
}

// ParseLearned reads an element that the kernel has learned: the frontend that a client used, and
// the backend that it was led to.
func ParseLearned(name ruleset.SetName, key, data string) (at Frontend, to netip.AddrPort, ok bool) {
	size := ruleset.AddressBytes(name.DispatchFamily())
	if len(key) != 2*size+8 || len(data) < size+2 {
		return at, to, false
	}
	address, _ := netip.AddrFromSlice([]byte(key[size : 2*size]))
	rest := key[2*size:]
	at = Frontend{Address: address, Protocol: rest[0], Port: uint16(rest[4])<<8 | uint16(rest[5])}
	backend, _ := netip.AddrFromSlice([]byte(data[:size]))
	return at, netip.AddrPortFrom(backend, uint16(data[size])<<8|uint16(data[size+1])), true
}
