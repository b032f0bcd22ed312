package nft

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
)

// Balanced says where connections to Services go. It never changes once made.
type Balanced struct {
	// Unknown tells that it is not known yet: what the kernel has stays.
	Unknown bool
	// To are the Services by where connections are made to. An unspecified address is any of the
	// Node, of its family.
	To map[Frontend]*Balance
	// ClusterIPs are the addresses of Services within the cluster, sorted. A port that one of them
	// does not have is refused.
	ClusterIPs []netip.Addr
}

// Balance is what becomes of connections that are made to one place.
type Balance struct {
	// Backends are where they go, sorted; each with the same chance.
	Backends []netip.AddrPort
	// Inside are where those of the Node and its Pods go, if that is elsewhere: Apart.
	Apart  bool
	Inside []netip.AddrPort
	// Sources are who may connect; nil for everybody.
	Sources []netip.Prefix
	// Sticky is for how many seconds a client stays with a backend; 0 for not at all.
	Sticky uint32
	// Silent tells that without backends nothing is answered. Else it is rejected.
	Silent bool
	// KeepsSource tells that backends see who has connected.
	KeepsSource bool
}

// BalanceTo is a rule that chooses a backend.
type BalanceTo struct {
	Family Family
	// Backends is how many there are, and First the number of the first one.
	Backends, First uint32
	// AnyAddress tells that they are not found by the address that the connection is made to.
	AnyAddress bool
	// Sticky is for how many seconds a client stays with a backend. With Known it is the one that
	// the client has, and the next rule goes on if it has none.
	Sticky uint32
	Known  bool
}

// firstInside is the number of the first backend of those for the Node and its Pods.
const firstInside = 1 << 16

// The dispatches for Services. Endpoints have addresses and ports in the place of chains; Sticky
// ones are learned by the kernel.
const (
	services4, services6   SetName = "services4", "services6"
	nodePorts4, nodePorts6 SetName = "nodeports4", "nodeports6"
	Endpoints4, Endpoints6 SetName = "endpoints4", "endpoints6"
	keeps4, keeps6         SetName = "keeps4", "keeps6"
	keepPorts4, keepPorts6 SetName = "keepports4", "keepports6"
	clusterIP4, clusterIP6 SetName = "clusterips4", "clusterips6"
	hairpin4, hairpin6     SetName = "hairpin4", "hairpin6"
	Sticky4, Sticky6       SetName = "sticky4", "sticky6"
)

// Asked is what a dispatch is asked by.
type Asked uint8

// What dispatches are asked by.
const (
	// AskedByAddress: source, destination or both, as DispatchBy says.
	AskedByAddress Asked = iota
	// AskedByFrontend: the address, protocol and port that a packet is sent to; AskedByPort without
	// the address; AskedByOriginal and AskedByOriginalPort: those that the connection was made to.
	AskedByFrontend
	AskedByPort
	AskedByOriginal
	AskedByOriginalPort
	// AskedByRule: rules that balance ask it.
	AskedByRule
)

// Asked reports what a dispatch is asked by.
func (n SetName) Asked() Asked {
	switch n {
	case services4, services6:
		return AskedByFrontend
	case nodePorts4, nodePorts6:
		return AskedByPort
	case keeps4, keeps6:
		return AskedByOriginal
	case keepPorts4, keepPorts6:
		return AskedByOriginalPort
	case Endpoints4, Endpoints6, Sticky4, Sticky6:
		return AskedByRule
	}
	return AskedByAddress
}

// HoldsBackends reports whether a dispatch has addresses and ports in the place of chains.
func (n SetName) HoldsBackends() bool { return n == Endpoints4 || n == Endpoints6 || n.IsLearned() }

// IsLearned reports whether the kernel learns the elements of a dispatch by itself.
func (n SetName) IsLearned() bool { return n == Sticky4 || n == Sticky6 }

// ofServices lists the dispatches that Balanced makes.
func ofServices() []SetName {
	return []SetName{services4, services6, nodePorts4, nodePorts6, Endpoints4, Endpoints6, keeps4, keeps6, keepPorts4, keepPorts6, clusterIP4, clusterIP6, Sticky4, Sticky6}
}

// IsOfServices reports whether the elements of a dispatch come from Balanced.
func (n SetName) IsOfServices() bool { return slices.Contains(ofServices(), n) }

const (
	// targets begins the names of chains that dispatches for Services lead to.
	targets      = networkChains + "lead-"
	dropTarget   = targets + "nobody"
	rejectTarget = targets + "none"
	keepTarget   = networkChains + "keep"
	masquerading = networkChains + "masquerade"
)

// IsTarget reports whether a chain is one that dispatches for Services lead to.
func IsTarget(chain string) bool { return strings.HasPrefix(chain, targets) }

// balanced is what was made of a Balanced. It never changes once made.
type balanced struct {
	of       *Balanced
	own      []netip.Prefix
	dispatch map[SetName]map[string]string
	chains   map[string]*Chain
	// uses counts the elements that lead to a chain.
	uses map[string]int
	led  led
}

// led tells how dispatches for Services came about. Two with the same mark are the same.
type led struct {
	// mark stands for them, and from for those that they were made of; nil for none. touched are
	// the keys that may differ then.
	mark, from *struct{ _ byte }
	touched    map[SetName][]string
}

// mostTouched is what part of the places may differ for the rest to be taken over: one of as many.
const mostTouched = 8

// balance makes the dispatches for Services, and the chains that they lead to. Where few places
// differ from former ones the rest is taken over.
func balance(of *Balanced, own []netip.Prefix, former *balanced) *balanced {
	b := &balanced{of: of, own: own, dispatch: map[SetName]map[string]string{}, chains: map[string]*Chain{}, uses: map[string]int{}}
	b.led.mark = new(struct{ _ byte })
	if former != nil && !former.of.Unknown && !of.Unknown && slices.Equal(own, former.own) {
		if places, few := of.differs(former.of); few {
			b.take(former, places)
			return b
		}
	}
	for _, name := range ofServices() {
		b.dispatch[name] = map[string]string{}
	}
	if of.Unknown {
		return b
	}
	for _, a := range of.ClusterIPs {
		b.clusterIP(a)
	}
	for at, to := range of.To {
		b.place(at, to)
	}
	return b
}

// take takes over what there was, but for some places.
func (b *balanced) take(former *balanced, places []Frontend) {
	b.dispatch, b.chains, b.uses = maps.Clone(former.dispatch), maps.Clone(former.chains), maps.Clone(former.uses)
	b.led.from, b.led.touched = former.led.mark, map[SetName][]string{}
	for _, at := range places {
		if was := former.of.To[at]; was != nil {
			b.each(at, was, func(name SetName, key string, _ func() string) { b.set(name, key, "", false) })
		}
		if to := b.of.To[at]; to != nil {
			b.place(at, to)
		}
	}
	if !slices.Equal(b.of.ClusterIPs, former.of.ClusterIPs) {
		for _, a := range former.of.ClusterIPs {
			if _, stays := slices.BinarySearchFunc(b.of.ClusterIPs, a, netip.Addr.Compare); !stays {
				b.set(inFamily(clusterIP4, clusterIP6, familyOf(a)), string(a.AsSlice()), "", false)
			}
		}
		for _, a := range b.of.ClusterIPs {
			if _, was := slices.BinarySearchFunc(former.of.ClusterIPs, a, netip.Addr.Compare); !was {
				b.clusterIP(a)
			}
		}
	}
	// Chains stay that something leads to.
	reached := map[string]*Chain{}
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

// set gives an element of a dispatch a value, or removes it. A dispatch that was taken over is
// copied before.
func (b *balanced) set(name SetName, key, value string, there bool) {
	d := b.dispatch[name]
	if b.led.from != nil {
		if b.led.touched[name] == nil {
			d = maps.Clone(d)
			b.dispatch[name] = d
		}
		b.led.touched[name] = append(b.led.touched[name], key)
	}
	leads := !name.HoldsBackends()
	if was, is := d[key]; is && leads {
		b.uses[was]--
	}
	if !there {
		delete(d, key)
		return
	}
	d[key] = value
	if leads {
		b.uses[value]++
	}
}

func familyOf(a netip.Addr) Family {
	if a.Is6() {
		return IPv6
	}
	return IPv4
}

// clusterIP makes ports be refused that an address of a Service does not have.
func (b *balanced) clusterIP(a netip.Addr) {
	f := familyOf(a)
	b.set(inFamily(clusterIP4, clusterIP6, f), string(a.AsSlice()), b.choose(f, false, &Balance{}, nil, 0), true)
}

// place leads from a place.
func (b *balanced) place(at Frontend, to *Balance) {
	b.each(at, to, func(name SetName, key string, value func() string) { b.set(name, key, value(), true) })
}

// each calls do for each element by which it is led from a place.
func (b *balanced) each(at Frontend, to *Balance, do func(name SetName, key string, value func() string)) {
	f, key, anyAddress := familyOf(at.Address), frontendKey(at), at.Address.IsUnspecified()
	leads, keeps, short := inFamily(services4, services6, f), inFamily(keeps4, keeps6, f), key
	if anyAddress {
		leads, keeps, short = inFamily(nodePorts4, nodePorts6, f), inFamily(keepPorts4, keepPorts6, f), key[addressBytes(f):]
	}
	do(leads, short, func() string { return b.target(f, anyAddress, to) })
	for _, of := range []struct {
		first uint32
		list  []netip.AddrPort
	}{{0, to.Backends}, {firstInside, to.Inside}} {
		for i, a := range of.list {
			do(inFamily(Endpoints4, Endpoints6, f), string(binary.NativeEndian.AppendUint32([]byte(key), of.first+uint32(i))), func() string { return backendData(a) })
		}
	}
	if to.KeepsSource {
		do(keeps, short, func() string { return keepTarget })
	}
}

// differs are the places from which it is led elsewhere than by another one; false if they are not
// few.
func (b *Balanced) differs(former *Balanced) (places []Frontend, few bool) {
	most := len(b.To) / mostTouched
	found := 0
	for at, to := range b.To {
		was := former.To[at]
		if was != nil {
			found++
		}
		if was == nil || !was.equal(to) {
			if places = append(places, at); len(places) > most {
				return nil, false
			}
		}
	}
	if found == len(former.To) {
		return places, true
	}
	for at := range former.To {
		if b.To[at] == nil {
			if places = append(places, at); len(places) > most {
				return nil, false
			}
		}
	}
	return places, true
}

func inFamily(four, six SetName, f Family) SetName {
	if f == IPv6 {
		return six
	}
	return four
}

func addressBytes(f Family) int {
	if f == IPv6 {
		return 16
	}
	return 4
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
func (b *balanced) target(f Family, anyAddress bool, to *Balance) string {
	name := b.choose(f, anyAddress, to, to.Backends, 0)
	if to.Apart {
		inside := b.choose(f, anyAddress, to, to.Inside, firstInside)
		outside := name
		name = fmt.Sprintf("%sapart-%s-%s", targets, strings.TrimPrefix(inside, targets), strings.TrimPrefix(outside, targets))
		if b.chains[name] == nil {
			var rules []Rule
			for _, r := range rangesOf(b.own, f) {
				rules = append(rules, Rule{Matches: []Match{{Kind: MatchFamily, Lo: uint16(f)}, {Kind: MatchPeer, Peer: &r, Source: true}}, Action: Goto, Target: inside})
			}
			rules = append(rules, Rule{Matches: []Match{{Kind: MatchRouted}}, Action: Goto, Target: outside})
			b.chains[name] = &Chain{Rules: append(rules, Rule{Action: Goto, Target: inside})}
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
	name = fmt.Sprintf("%sfrom-%x", targets, sum(texts...))[:60]
	if b.chains[name] == nil {
		var rules []Rule
		for _, r := range ranges {
			rules = append(rules, Rule{Matches: []Match{{Kind: MatchFamily, Lo: uint16(f)}, {Kind: MatchPeer, Peer: &r, Source: true}}, Action: Goto, Target: next})
		}
		b.chains[name] = &Chain{Rules: append(rules, Rule{Action: Drop, Origin: &Origin{Kind: OriginNetwork, Name: "not one of loadBalancerSourceRanges"}})}
	}
	return name
}

// choose is the chain that chooses one of some backends.
func (b *balanced) choose(f Family, anyAddress bool, to *Balance, list []netip.AddrPort, first uint32) string {
	switch {
	case len(list) == 0 && to.Silent:
		b.chains[dropTarget] = &Chain{Rules: []Rule{{Action: Drop, Origin: &Origin{Kind: OriginNetwork, Name: "no endpoint on this Node"}}}}
		return dropTarget
	case len(list) == 0:
		none := &Origin{Kind: OriginNetwork, Name: "no endpoints"}
		tcp := []Match{{Kind: MatchProtocol, Lo: uint16(TCP)}}
		b.chains[rejectTarget] = &Chain{Rules: []Rule{{Matches: tcp, Action: RejectReset, Origin: none}, {Action: RejectPort, Origin: none}}}
		return rejectTarget
	}
	rule := BalanceTo{Family: f, Backends: uint32(len(list)), First: first, AnyAddress: anyAddress, Sticky: to.Sticky}
	name := fmt.Sprintf("%s%d-of-%d", targets, f, rule.Backends)
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
		c := &Chain{}
		if rule.Sticky > 0 {
			known := rule
			known.Known = true
			c.Rules = append(c.Rules, Rule{Action: BalanceBackends, Balance: &known})
		}
		b.chains[name] = &Chain{Rules: append(c.Rules, Rule{Action: BalanceBackends, Balance: &rule})}
	}
	return name
}

// services adds what leads to Services.
func (n *Network) services(p *Program, node *Node, b *balanced) {
	p.Leaves, p.led = b.of.Unknown, b.led
	maps.Copy(p.Dispatch, b.dispatch)
	maps.Copy(p.Chains, b.chains)
	loopback := Range{netip.MustParseAddr("127.0.0.0"), netip.MustParseAddr("127.255.255.255")}
	for _, base := range []Base{ToServices, HostToServices} {
		var rules []Rule
		for _, f := range []Family{IPv4, IPv6} {
			family := Match{Kind: MatchFamily, Lo: uint16(f)}
			rules = append(rules,
				Rule{Matches: []Match{family}, Action: Lookup, Target: string(inFamily(services4, services6, f))},
				Rule{Matches: []Match{family}, Action: Lookup, Target: string(inFamily(clusterIP4, clusterIP6, f))})
			if f == IPv4 { // no answer would come back from elsewhere
				rules = append(rules, Rule{Matches: []Match{family, {Kind: MatchPeer, Peer: &loopback}}, Action: Accept})
			}
			rules = append(rules, Rule{Matches: []Match{family, {Kind: MatchToNode}}, Action: Lookup, Target: string(inFamily(nodePorts4, nodePorts6, f))})
		}
		p.Chains[string(base)] = &Chain{Rules: rules}
	}
	for _, name := range []SetName{hairpin4, hairpin6} {
		p.Dispatch[name] = map[string]string{}
	}
	for i := range node.Pods {
		for _, a := range node.Pods[i].Addresses {
			name := hairpin4
			if a.Is6() {
				name = hairpin6
			}
			p.Dispatch[name][name.dispatchKey(a, a)] = masquerading
		}
	}
	p.Chains[keepTarget] = &Chain{Rules: []Rule{{Action: Accept}}}
	p.Chains[masquerading] = &Chain{Rules: []Rule{{Action: Masquerade}}}
}

// String prints it for people.
func (b *BalanceTo) String() string {
	words := []string{fmt.Sprintf("one of %d backends of ipv%d", b.Backends, b.Family)}
	if b.First > 0 {
		words = append(words, "for the Node and its Pods")
	}
	if b.AnyAddress {
		words = append(words, "by the port")
	}
	if b.Sticky > 0 {
		words = append(words, fmt.Sprintf("the same for %d s", b.Sticky))
	}
	if b.Known {
		words = append(words, "if the client has one")
	}
	return strings.Join(words, ", ")
}

// Compare sorts places.
func (f Frontend) Compare(o Frontend) int {
	return cmp.Or(f.Address.Compare(o.Address), cmp.Compare(f.Protocol, o.Protocol), cmp.Compare(f.Port, o.Port))
}

// Equal reports whether two lead the same way.
func (b *Balanced) Equal(o *Balanced) bool {
	return b == o || b.Unknown == o.Unknown && slices.Equal(b.ClusterIPs, o.ClusterIPs) && maps.EqualFunc(b.To, o.To, (*Balance).equal)
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

// Loses reports whether a client may have stayed with a backend that is none any more.
func (b *Balanced) Loses(former *Balanced) bool {
	for at, was := range former.To {
		if was.Sticky == 0 {
			continue
		}
		now := b.To[at]
		if now == was {
			continue
		}
		for _, list := range [][]netip.AddrPort{was.Backends, was.Inside} {
			for _, backend := range list {
				if now == nil || !now.has(backend) {
					return true
				}
			}
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
	for at, was := range former.To {
		if at.Protocol != UDP {
			continue
		}
		now := b.To[at]
		if now == was {
			continue
		}
		for _, list := range [][]netip.AddrPort{was.Backends, was.Inside} {
			for _, backend := range list {
				if now == nil || !now.has(backend) {
					return true
				}
			}
		}
	}
	for at, now := range b.To {
		if at.Protocol != UDP || len(now.Backends)+len(now.Inside) == 0 {
			continue
		}
		if was := former.To[at]; was == nil || len(was.Backends)+len(was.Inside) == 0 {
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
	if to := b.To[at]; to != nil {
		return to
	}
	if at.Address.Is6() {
		at.Address = netip.IPv6Unspecified()
	} else {
		at.Address = netip.IPv4Unspecified()
	}
	return b.To[at]
}

// Allows reports whether a connection that was made to a place may go on to where it goes.
func (b *Balanced) Allows(at Frontend, to netip.AddrPort) bool {
	x := b.At(at)
	return x != nil && x.has(to)
}

// ParseLearned reads an element that the kernel has learned: who was led to where, and from which
// place.
func ParseLearned(name SetName, key, data string) (at Frontend, to netip.AddrPort, ok bool) {
	size := addressBytes(name.DispatchFamily())
	if len(key) != 2*size+8 || len(data) < size+2 {
		return at, to, false
	}
	address, _ := netip.AddrFromSlice([]byte(key[size : 2*size]))
	rest := key[2*size:]
	at = Frontend{Address: address, Protocol: rest[0], Port: uint16(rest[4])<<8 | uint16(rest[5])}
	backend, _ := netip.AddrFromSlice([]byte(data[:size]))
	return at, netip.AddrPortFrom(backend, uint16(data[size])<<8|uint16(data[size+1])), true
}
