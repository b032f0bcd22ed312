package network

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"maps"
	"net/netip"
	"slices"
)

const (
	// ExitShift and ExitMask say where in the mark of a packet there is the number of the exit that
	// it takes.
	ExitShift = 24
	ExitMask  = 0xff << ExitShift
	// ExitTable and the number of an exit make the number of its table of routes. Rules of
	// ExitPriority lead there.
	ExitTable, ExitPriority = 15700, 158
	// MaxExits bounds the numbers, which begin with 1.
	MaxExits = 254
	// ReturnExit is the number of what leaves by this Node: answers go back to Pods of other Nodes
	// by its table, before WireGuard, by rules of ReturnPriority.
	ReturnExit     = MaxExits + 1
	ReturnPriority = 156
)

// Exit is another Node by which Pods of this one leave the cluster, in one family: the one that has
// the address of an Egress.
type Exit struct {
	Node string
	Six  bool
}

// exits makes the ways to other Nodes by which Pods leave the cluster. Each is closed where there
// is no way: nothing leaves by this Node instead.
func (m *making) exits() {
	m.out.Exits = map[Exit]bool{}
	for _, name := range slices.Sorted(maps.Keys(m.Exits)) {
		number := m.Exits[name]
		n := m.node(name)
		for _, six := range m.ownFamilies() {
			all := netip.PrefixFrom(netip.IPv4Unspecified(), 0)
			if six {
				all = netip.PrefixFrom(netip.IPv6Unspecified(), 0)
			}
			m.out.State.Rules[RuleStep{six, number}] = true
			m.out.State.Ways[Way{To: all, Exit: number, Closed: true}] = true
			if n == nil {
				continue
			}
			if via := m.direct(n, six); via.IsValid() {
				m.out.State.Ways[Way{To: all, Exit: number, Via: via}], m.out.Exits[Exit{name, six}] = true, true
			} else if m.wrap(n, Way{To: all, Exit: number}) {
				m.out.Exits[Exit{name, six}] = true
			} else {
				m.trouble(Trouble{Kind: NoExit, Node: name, Six: six})
			}
		}
	}
	for _, name := range m.Entries {
		n := m.node(name)
		if n == nil || n == m.self || !m.seals(n) && m.Mode != NoEncap {
			continue // answers go as all that is sent to its Pods
		}
		for _, p := range m.routed[name] {
			six := p.Addr().Is6()
			if !slices.Contains(m.ownFamilies(), six) || m.direct(n, six).IsValid() {
				continue
			}
			m.out.Returns = true
			m.out.State.Rules[RuleStep{six, ReturnExit}] = true
			m.out.State.Ways[Way{To: p, Exit: ReturnExit, Closed: true}] = true
			m.wrap(n, Way{To: p, Exit: ReturnExit})
		}
	}
}

// node is another Node, or this one; nil if there is none of the name.
func (m *making) node(name string) *Node {
	at := slices.IndexFunc(m.Nodes, func(n Node) bool { return n.Name == name })
	if at < 0 {
		return nil
	}
	return &m.Nodes[at]
}

// ownFamilies are the families of the Pods of the Node.
func (m *making) ownFamilies() (out []bool) {
	for _, six := range []bool{false, true} {
		if slices.ContainsFunc(m.out.Ranges, func(p netip.Prefix) bool { return p.Addr().Is6() == six }) {
			out = append(out, six)
		}
	}
	return out
}

// direct is the next hop to a Node on the same subnet, where packets go there as they are; the zero
// one elsewhere.
func (m *making) direct(n *Node, six bool) netip.Addr {
	if m.seals(n) || m.Mode == Encap || !m.near(m.self.address(m.six)).Contains(n.address(m.six)) {
		return netip.Addr{}
	}
	return m.nextHop(n, six)
}

// wrap makes a way over the device of VXLAN to a Node, of the family of the range it leads to. It
// reports whether there is one.
func (m *making) wrap(n *Node, way Way) bool {
	six := way.To.Addr().Is6()
	i := slices.IndexFunc(m.routed[n.Name], func(p netip.Prefix) bool { return p.Addr().Is6() == six })
	if i < 0 || six && !m.Underlay.IPv6 {
		return false
	}
	hop, outer := hopOf(n.Name, m.routed[n.Name][i]), n.address(m.six)
	if _, there := m.out.State.Neighbours[hop]; !there || m.seals(n) {
		local := netip.Addr{}
		if local, outer = m.tunnel(n); !local.IsValid() || !outer.IsValid() || local.Is6() != outer.Is6() {
			return false
		}
		ok := false
		if m.wraps() {
			way.MTU, ok = m.share(local.Is6(), six)
		} else {
			ok = m.carry(local, six)
		}
		if !ok {
			return false
		}
		m.out.State.Neighbours[hop], m.out.State.Forwards[MACOf(n.Name)] = MACOf(n.Name), outer
	}
	way.Via, way.Wrapped = hop, true
	m.out.State.Ways[way] = true
	// The wrapped packet has the mark, too.
	m.out.State.Ways[Way{To: netip.PrefixFrom(outer, outer.BitLen()), Exit: way.Exit, Past: true}] = true
	m.out.State.Rules[RuleStep{outer.Is6(), way.Exit}] = true
	return true
}

// tunnel are the ends of the wrapped packets of exits to a Node, where Pods are not reached by
// VXLAN. To a Node to which packets are encrypted they are addresses between which they are, so
// what is wrapped is encrypted; they are of the family of the device, where that wraps for others
// in the clear. Zero ones tell that there is no way.
func (m *making) tunnel(n *Node) (local, outer netip.Addr) {
	switch {
	case m.wraps() && !m.seals(n): // somebody else routes what is sent to its Pods
		return netip.Addr{}, netip.Addr{}
	case !m.seals(n):
		return m.self.address(m.six), n.address(m.six)
	}
	by := m.out.State.Sealing()
	peer := by.Peers[m.known[n.Name]]
	for _, a := range by.Addresses { // of IPv4 first
		if !local.IsValid() && (!m.wraps() || a.Is6() == m.six) {
			local = a
		}
	}
	for _, p := range peer.Allowed {
		if local.IsValid() && p.Addr().Is6() == local.Is6() {
			return local, OwnAddress(p)
		}
	}
	return netip.Addr{}, netip.Addr{}
}

// share has the device of VXLAN, by which Pods of some Nodes are reached in the clear, wrap what
// WireGuard carries as well: it has no address of its own then, and each wrapped packet has that of
// the way it goes. It returns what fits into a packet that is wrapped and encrypted; false if that
// is too little for a family.
func (m *making) share(outer6, six bool) (mtu int, ok bool) {
	overhead := overhead4
	if outer6 {
		overhead = overhead6
	}
	if m.out.MTU > 0 {
		mtu = m.out.MTU - overhead
	}
	if outer6 != m.six || six && mtu > 0 && mtu < leastMTU6 {
		return 0, false
	}
	d := *m.out.State.Device
	d.Local = anyOf(d.Local)
	m.out.State.Device = &d
	return mtu, true
}

// anyOf is the unspecified address of the family of another one.
func anyOf(a netip.Addr) netip.Addr {
	if a.Is6() {
		return netip.IPv6Unspecified()
	}
	return netip.IPv4Unspecified()
}

// carry wants the device of VXLAN for exits alone. It reports whether it carries a family. If some
// of them are behind WireGuard and others are not, it has no address of its own.
func (m *making) carry(local netip.Addr, six bool) bool {
	d := &VXLAN{VNI: VNI, Port: m.VXLANPort(), Local: local, MAC: MACOf(m.Name)}
	if is := m.out.State.Device; is != nil && m.carries && is.Local != local {
		if is.Local.Is6() != local.Is6() {
			return false
		}
		d.Local = anyOf(local)
	}
	overhead, most := overhead4, m.out.MTU
	if local.Is6() {
		overhead = overhead6
	}
	if !m.Encryption.on() { // Pods may send less than the links carry
		for i, h := range m.Underlay.Toward {
			if i == 0 || h.MTU < most {
				most = h.MTU
			}
		}
	}
	if most > 0 {
		d.MTU = min(most-overhead, m.out.MTU)
	}
	if six && d.MTU > 0 && d.MTU < leastMTU6 {
		return false
	}
	d.Addresses = m.ownAddresses() // without one, a check of reverse paths lets nothing in
	m.out.State.Device, m.carries = d, true
	return true
}

// NumberExits gives Nodes the numbers of their exits. They follow from the names, so that a restart
// changes nothing, and two that would have the same one have others. Nodes beyond MaxExits have
// none.
func NumberExits(names []string) map[string]uint8 {
	out, taken := map[string]uint8{}, map[uint8]bool{}
	sorted := slices.Clone(names)
	slices.Sort(sorted)
	for _, name := range slices.Compact(sorted) {
		if len(out) == MaxExits {
			break
		}
		number := uint8(Rank(name, "exit")%MaxExits) + 1
		for taken[number] {
			number = number%MaxExits + 1
		}
		out[name], taken[number] = number, true
	}
	return out
}

// KeepExits leaves the ways to exits as they are, with what they lead over.
func (p *Plan) KeepExits(is *State) {
	wrapped := false
	for w := range is.Ways {
		if w.Exit != 0 {
			p.State.Ways[w] = true
			wrapped = wrapped || w.Wrapped
			p.Returns = p.Returns || w.Exit == ReturnExit
		}
	}
	for r := range is.Rules {
		if r.Exit != 0 {
			p.State.Rules[r] = true
		}
	}
	if d := p.State.Device; wrapped && is.Device != nil && d != nil && !is.Device.fixed() {
		shared := *d
		shared.Local = anyOf(d.Local)
		p.State.Device = &shared
	}
	if wrapped && is.Device != nil && (p.State.Device == nil || p.State.Device.sameTunnel(is.Device)) {
		if p.State.Device == nil {
			p.State.Device = is.Device
		}
		for a, mac := range is.Neighbours {
			if _, there := p.State.Neighbours[a]; !there {
				p.State.Neighbours[a] = mac
			}
		}
		for mac, to := range is.Forwards {
			if _, there := p.State.Forwards[mac]; !there {
				p.State.Forwards[mac] = to
			}
		}
	}
}

// AddressesOf are the addresses of Nodes, as ranges, sorted.
func AddressesOf(nodes []Node) []netip.Prefix {
	var out []netip.Prefix
	for i := range nodes {
		for _, a := range nodes[i].Addresses {
			out = append(out, netip.PrefixFrom(a, a.BitLen()))
		}
	}
	slices.SortFunc(out, netip.Prefix.Compare)
	return slices.Compact(out)
}

// EndsOf are the addresses of Nodes to which what is wrapped may be sent, as ranges, sorted.
func EndsOf(nodes []Node) []netip.Prefix {
	out := AddressesOf(nodes)
	for i := range nodes {
		for _, p := range nodes[i].PodCIDRs {
			a := OwnAddress(p)
			out = append(out, netip.PrefixFrom(a, a.BitLen()))
		}
	}
	slices.SortFunc(out, netip.Prefix.Compare)
	return slices.Compact(out)
}

// Rank orders Nodes for something that one of them is to have: the Node with the largest number has
// it, on whichever Node that is asked, and if a Node goes only what it had moves.
func Rank(node, of string) uint64 {
	sum := sha256.Sum256([]byte(node + "\x00" + of))
	return binary.BigEndian.Uint64(sum[:])
}

func compareWays(a, b Way) int {
	order := func(w Way) int {
		switch {
		case w.Closed: // before it is opened
			return 0
		case w.Past:
			return 1
		}
		return 2
	}
	return cmp.Or(cmp.Compare(a.Exit, b.Exit), cmp.Compare(order(a), order(b)), a.To.Compare(b.To), a.Via.Compare(b.Via), cmp.Compare(a.MTU, b.MTU), cmp.Compare(a.IPsec, b.IPsec))
}

func compareRules(a, b RuleStep) int {
	number := map[bool]int{true: 1}
	return cmp.Or(cmp.Compare(a.Exit, b.Exit), cmp.Compare(number[a.Six], number[b.Six]))
}

// exitText is a step about an exit for people.
func (s Step) exitText() string {
	switch {
	case s.Rule != nil && s.Rule.Exit == ReturnExit:
		return s.Verb.String() + " the rule by which answers go back to Pods of other Nodes"
	case s.Rule != nil:
		return fmt.Sprintf("%s the rule that leads to exit %d", s.Verb, s.Rule.Exit)
	case s.Way.Closed:
		return fmt.Sprintf("%s that nothing leaves but by exit %d", s.Verb, s.Way.Exit)
	case s.Way.Past:
		return fmt.Sprintf("%s that what is wrapped for exit %d goes to %s", s.Verb, s.Way.Exit, s.Way.To)
	}
	return fmt.Sprintf("%s the route of exit %d by %s", s.Verb, s.Way.Exit, s.Way.Via)
}
