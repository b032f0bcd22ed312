package network

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
)

// State is what of the network is in a kernel by us, or is wanted there.
type State struct {
	// Device is that of VXLAN; nil for none.
	Device *VXLAN
	// Ends are the links to Pods, by their names.
	Ends map[string]End
	// Routes are those with our mark, by where they lead to.
	Routes map[netip.Prefix]Route
	// Neighbours are the addresses of links behind addresses, on Device; Forwards the Nodes behind
	// the addresses of links there.
	Neighbours map[netip.Addr]MAC
	Forwards   map[MAC]netip.Addr
	// WireGuard is the device of WireGuard, IPsec that of IPsec; nil for none.
	WireGuard, IPsec *Sealing
	// Ways are the routes of SealedTable and of exits, and Rules lead there.
	Ways  map[Way]bool
	Rules map[RuleStep]bool
}

// NewState returns a state with nothing.
func NewState() *State {
	return &State{Ends: map[string]End{}, Routes: map[netip.Prefix]Route{}, Neighbours: map[netip.Addr]MAC{}, Forwards: map[MAC]netip.Addr{},
		Ways: map[Way]bool{}, Rules: map[RuleStep]bool{}}
}

// VXLAN is a device of VXLAN.
type VXLAN struct {
	VNI  int
	Port uint16
	// Local is the address of the Node from which packets are sent. One that is unspecified, or as
	// the kernel tells it none, leaves that to the routes.
	Local netip.Addr
	MAC   MAC
	MTU   int
	// Addresses holds the addresses of the device, sorted.
	Addresses []netip.Addr
}

// sameTunnel reports whether one can become the other without being made anew.
func (v *VXLAN) sameTunnel(o *VXLAN) bool {
	return v.VNI == o.VNI && v.Port == o.Port && (v.Local == o.Local || !v.fixed() && !o.fixed())
}

// fixed reports whether the device has an address of its own to send from.
func (v *VXLAN) fixed() bool { return v.Local.IsValid() && !v.Local.IsUnspecified() }

// End is a link to a Pod.
type End struct {
	Up bool
	// Addresses are those that the Pod has for its gateways, sorted.
	Addresses []netip.Addr
	// Alias is what the link says about itself. It is read, and never wanted.
	Alias string
}

// Route is a route with our mark.
type Route struct {
	// Link is the name of the link that it leads over, Via the next hop there; none if that is
	// where it leads to.
	Link string
	Via  netip.Addr
	// Source is what the Node sends from, where that is said.
	Source netip.Addr
}

// Underlay is what of the Node the network is built on.
type Underlay struct {
	// Addresses holds the addresses of the Node on links that are not ours.
	Addresses []netip.Prefix
	// Toward are the links of the routes to some of the other Nodes, or of the Node's own address.
	Toward []Hop
	// IPsecLink is the name of the device of IPsec, whether or not it is there; empty while that is
	// not known. IPsecMTU is the most that it carries; 0 for no bound of its own.
	IPsecLink string
	IPsecMTU  int
	// IPv6 tells that the kernel has IPv6, and that it is not switched off.
	IPv6 bool
	// Foreign are routes of others to what is exactly a podCIDR, by the name of their links.
	Foreign map[netip.Prefix]string
}

// Look says what of the Underlay is of interest: the routes to other Nodes, or where there are none
// the links of the own addresses, and the routes to ranges.
type Look struct {
	Own, Others []netip.Addr
	Ranges      []netip.Prefix
}

// LookOf is what Make needs to know for a Node among others.
func LookOf(name string, nodes []Node) Look {
	var out Look
	for i := range nodes {
		n := &nodes[i]
		if n.Name == name {
			out.Own = n.Addresses
			continue
		}
		out.Others = append(out.Others, n.Addresses...)
		for _, p := range n.PodCIDRs {
			out.Ranges = append(out.Ranges, p.Masked())
		}
	}
	slices.SortFunc(out.Others, netip.Addr.Compare)
	slices.SortFunc(out.Ranges, netip.Prefix.Compare)
	return out
}

// Hop is the link of a route.
type Hop struct {
	Link string `json:"link"`
	MTU  int    `json:"mtu"`
}

// Input is what a plan is made from.
type Input struct {
	Config
	// Name is that of the Node, Nodes are all of the cluster.
	Name     string
	Nodes    []Node
	Underlay Underlay
	// OwnKey is the public key of the Node itself, where packets are encrypted.
	OwnKey PublicKey
	// OwnIdentity is what the Node's own certificate for IPsec says; empty while it has none.
	OwnIdentity string
	// Ends are the links to Pods that there are, with the addresses of the Pods.
	Ends map[string][]netip.Addr
	// Stays is a device of VXLAN that is not wanted any more, and stays for a while: other Nodes
	// may still send by it. Nil for none.
	Stays *VXLAN
	// Exits are the numbers of other Nodes by which Pods leave the cluster, Entries the other Nodes
	// Pods of which leave by this one.
	Exits   map[string]uint8
	Entries []string
}

// Plan is what is wanted of the kernel, and what follows for Pods.
type Plan struct {
	State *State
	// Ranges are the podCIDRs of the Node out of which Pods get addresses.
	Ranges []netip.Prefix
	// Pods are the ranges of all Pods of the cluster that are routed, sorted.
	Pods []netip.Prefix
	// MTU is that of Pods; 0 while it is not known.
	MTU int
	// Links are those between Nodes, and Local the address by which others reach this one.
	Links []Hop
	Local netip.Addr
	// Peers are those that are reached by VXLAN or encrypted, by their names.
	Peers []Peer
	// Tunnels and Direct count the Nodes that are reached by VXLAN, and without, and Encrypted
	// those that are reached encrypted.
	Tunnels, Direct, Encrypted int
	// Sealed are the ranges of Pods of other Nodes to and from which nothing goes but encrypted,
	// sorted.
	Sealed   []netip.Prefix
	Troubles []Trouble
	// Exits are those to which there is a way, and Returns tells that answers go back to Pods of
	// other Nodes by the table of ReturnExit.
	Exits   map[Exit]bool
	Returns bool
	// Partial tells that too little is known of the Node: what is wanted is not all of it, and
	// nothing goes because it is not wanted.
	Partial bool
	// besides tells that another plugin makes the network: what is not encrypted stays as it
	// is, also what we have made before.
	besides bool
	// gateways are the addresses of links to Pods, sources those that the Node sends to Pods from.
	gateways, sources []netip.Addr
}

// Known reports whether Pods can get addresses, or else why they cannot.
func (p *Plan) Known() (reason string, ok bool) {
	for _, t := range p.Troubles {
		if t.Kind == SmallMTU {
			return t.String(), false
		}
	}
	switch {
	case len(p.Ranges) == 0 && len(p.Troubles) > 0, p.Partial && p.Local == (netip.Addr{}) && len(p.Troubles) > 0:
		return p.Troubles[0].String(), false
	case p.MTU == 0:
		return "the link by which other Nodes are reached is not known", false
	}
	return "", true
}

// End adds a link that leads to a Pod with addresses to a state.
func (p *Plan) End(s *State, name string, addresses []netip.Addr) {
	s.Ends[name] = End{Up: true, Addresses: p.gateways}
	for _, a := range addresses {
		r := Route{Link: name}
		for _, source := range p.sources {
			if source.Is6() == a.Is6() {
				r.Source = source
			}
		}
		s.Routes[netip.PrefixFrom(a, a.BitLen())] = r
	}
}

// Make says what is wanted.
func Make(in Input) *Plan {
	m := &making{Input: in, out: &Plan{State: NewState(), besides: in.Mode == PolicyOnly}}
	slices.SortFunc(m.Nodes, func(a, b Node) int { return cmp.Compare(a.Name, b.Name) })
	if at := slices.IndexFunc(m.Nodes, func(n Node) bool { return n.Name == in.Name }); at >= 0 {
		m.self = &m.Nodes[at]
	}
	if m.self == nil {
		m.trouble(Trouble{Kind: NoNode, Node: in.Name})
		m.out.Partial = true
		return m.out
	}
	m.ownRanges()
	m.claims()
	m.six = !m.self.address(false).IsValid()
	m.out.Links, m.out.Local = m.Underlay.Toward, m.self.address(m.six)
	m.mtu()
	m.keys()
	m.others()
	if m.Mode != PolicyOnly {
		m.exits()
		m.ends()
	}
	slices.SortFunc(m.out.Pods, netip.Prefix.Compare)
	slices.SortFunc(m.out.Sealed, netip.Prefix.Compare)
	return m.out
}

// making is a plan that is being made.
type making struct {
	Input
	out  *Plan
	self *Node
	// six tells that Nodes reach one another by IPv6.
	six bool
	// routed are the ranges of each Node that nobody else has.
	routed map[string][]netip.Prefix
	// known are the keys of other Nodes.
	known map[string]PublicKey
	// carries tells that the device of VXLAN is there for exits alone.
	carries bool
}

func (m *making) trouble(t Trouble) { m.out.Troubles = append(m.out.Troubles, t) }

// ownRanges finds out what Pods of the Node get.
func (m *making) ownRanges() {
	if len(m.self.PodCIDRs) == 0 {
		m.trouble(Trouble{Kind: NoRange, Node: m.Name})
		m.out.Partial = true
	}
	for _, p := range m.self.PodCIDRs {
		if p.Addr().Is6() && !m.Underlay.IPv6 {
			m.trouble(Trouble{Kind: NoIPv6, Node: m.Name, Range: p})
			continue
		}
		m.out.Ranges = append(m.out.Ranges, p.Masked())
	}
}

// claims finds out which Node has which ranges. Of those that overlap the range of the older Node
// counts, and a range with the address of a Node in it never does.
func (m *making) claims() {
	m.routed = map[string][]netip.Prefix{}
	type claim struct {
		node *Node
		at   netip.Prefix
	}
	var claims []claim
	hosts := map[netip.Addr]string{}
	for i := range m.Nodes {
		n := &m.Nodes[i]
		for _, a := range n.Addresses {
			hosts[a] = n.Name
		}
		for _, p := range n.PodCIDRs {
			claims = append(claims, claim{n, p.Masked()})
		}
	}
	slices.SortFunc(claims, func(a, b claim) int {
		return cmp.Or(a.at.Addr().Compare(b.at.Addr()), cmp.Compare(a.at.Bits(), b.at.Bits()), a.node.Since.Compare(b.node.Since), cmp.Compare(a.node.Name, b.node.Name))
	})
	sorted := slices.SortedFunc(maps.Keys(hosts), netip.Addr.Compare)
	older := func(a, b claim) bool {
		return cmp.Or(a.node.Since.Compare(b.node.Since), cmp.Compare(a.node.Name, b.node.Name)) < 0
	}
	// A range that overlaps an outer one begins at or after its first address, and before its end:
	// if two prefixes overlap, one contains the other.
	lost := map[int]bool{}
	var open []int
	for i, c := range claims {
		for len(open) > 0 && !claims[open[len(open)-1]].at.Overlaps(c.at) {
			open = open[:len(open)-1]
		}
		for _, o := range open {
			x, y := i, o
			if older(claims[i], claims[o]) {
				x, y = o, i
			}
			if claims[x].node == claims[y].node {
				continue
			}
			if !lost[x] {
				m.trouble(Trouble{Kind: Overlap, Node: claims[x].node.Name, Range: claims[x].at, Other: claims[y].node.Name, OtherRange: claims[y].at})
			}
			lost[x] = true
		}
		open = append(open, i)
		if at, _ := slices.BinarySearchFunc(sorted, c.at.Addr(), netip.Addr.Compare); at < len(sorted) && c.at.Contains(sorted[at]) {
			m.trouble(Trouble{Kind: HoldsNode, Node: c.node.Name, Range: c.at, Other: hosts[sorted[at]], Address: sorted[at]})
			lost[i] = true
		}
	}
	for i, c := range claims {
		if !lost[i] {
			m.routed[c.node.Name] = append(m.routed[c.node.Name], c.at)
		} else if c.node == m.self {
			m.out.Ranges = slices.DeleteFunc(m.out.Ranges, func(p netip.Prefix) bool { return p == c.at })
		}
	}
	for _, ranges := range m.routed {
		m.out.Pods = append(m.out.Pods, ranges...)
	}
}

// mtu finds out what Pods may send at once.
func (m *making) mtu() {
	least := 0
	for _, h := range m.Underlay.Toward {
		if least == 0 || h.MTU < least {
			least = h.MTU
		}
	}
	if least > 0 {
		if least -= m.overhead(); m.Encryption.IPsec() && m.Underlay.IPsecMTU > 0 {
			least = min(least, m.Underlay.IPsecMTU)
		}
	}
	m.out.MTU, m.out.Partial = least, m.out.Partial || least == 0
	if m.MTU != 0 {
		if least > 0 && m.MTU > least {
			m.trouble(Trouble{Kind: LargeMTU, Number: m.MTU, Most: least})
		}
		m.out.MTU = m.MTU
	}
	six := slices.ContainsFunc(m.out.Ranges, func(p netip.Prefix) bool { return p.Addr().Is6() })
	if m.out.MTU > 0 && m.out.MTU < leastMTU6 && six {
		m.trouble(Trouble{Kind: SmallMTU, Number: m.out.MTU, Most: leastMTU6})
	}
}

// overhead is what is added to packets between Nodes, at most.
func (m *making) overhead() int {
	switch {
	case m.Encryption.IPsec() && m.six:
		return esp6
	case m.Encryption.IPsec():
		return esp4
	case m.Encryption.on() && m.six:
		return sealed6
	case m.Encryption.on():
		return sealed4
	case m.Mode != Encap && m.Mode != Hybrid:
		return 0
	case m.six:
		return overhead6
	}
	return overhead4
}

// others says how the Pods of other Nodes are reached.
func (m *making) others() {
	own := m.self.address(m.six)
	if !own.IsValid() {
		m.trouble(Trouble{Kind: NoAddress, Node: m.Name, Six: m.six})
		m.out.Partial = true
		return
	}
	m.device()
	wraps := m.wraps()
	if wraps {
		m.out.State.Device = &VXLAN{VNI: VNI, Port: m.VXLANPort(), Local: own, MAC: MACOf(m.Name), MTU: m.out.MTU, Addresses: m.ownAddresses()}
	} else if m.Stays != nil && !m.Encryption.strict() {
		m.out.State.Device = m.Stays
	}
	near := m.near(own)
	for i := range m.Nodes {
		n := &m.Nodes[i]
		if n == m.self {
			continue
		}
		if len(n.PodCIDRs) == 0 {
			m.trouble(Trouble{Kind: NoRange, Node: n.Name})
			continue
		}
		at := n.address(m.six)
		if !at.IsValid() {
			m.trouble(Trouble{Kind: NoAddress, Node: n.Name, Six: m.six})
		}
		if m.seals(n) {
			if m.seal(n) {
				m.out.Encrypted++
			}
			continue
		}
		if !at.IsValid() || m.Mode == PolicyOnly {
			continue
		}
		direct := m.Mode != Encap && near.IsValid() && near.Contains(at)
		routes, without := 0, 0
		for _, p := range m.routed[n.Name] {
			via := netip.Addr{}
			if direct {
				via = m.nextHop(n, p.Addr().Is6())
			}
			switch {
			case p.Addr().Is6() && !m.Underlay.IPv6: // no Pod here could send there
			case m.Underlay.Foreign[p] != "":
				m.trouble(Trouble{Kind: ForeignRoute, Node: n.Name, Range: p, Link: m.Underlay.Foreign[p]})
			case via.IsValid():
				m.out.State.Routes[p] = Route{Via: via}
				routes, without = routes+1, without+1
			case wraps:
				// The next hop is the address of the device there.
				hop := hopOf(n.Name, p)
				m.out.State.Routes[p] = Route{Via: hop, Link: Device}
				m.out.State.Neighbours[hop], m.out.State.Forwards[MACOf(n.Name)] = MACOf(n.Name), at
				if routes == without { // the first one of them
					m.out.Peers = append(m.out.Peers, Peer{Name: n.Name, At: at, Through: OwnAddress(p), Port: m.VXLANPort()})
				}
				routes++
			case direct:
				m.trouble(Trouble{Kind: NoAddress, Node: n.Name, Six: p.Addr().Is6()})
			}
		}
		switch {
		case routes > 0 && routes == without:
			m.out.Direct++
		case routes > 0:
			m.out.Tunnels++
		}
	}
}

// ownAddresses are those that the Node has among its Pods, sorted.
func (m *making) ownAddresses() (out []netip.Addr) {
	for _, p := range m.out.Ranges {
		out = append(out, OwnAddress(p))
	}
	slices.SortFunc(out, netip.Addr.Compare)
	return out
}

// wraps reports whether Pods of some Nodes are reached by VXLAN.
func (m *making) wraps() bool {
	return (m.Mode == Encap || m.Mode == Hybrid) && !m.Encryption.strict()
}

// near is the subnet of the Node; the zero one if its address is on none of its links.
func (m *making) near(own netip.Addr) netip.Prefix {
	for _, p := range m.Underlay.Addresses {
		if p.Addr() == own {
			return p.Masked()
		}
	}
	return netip.Prefix{}
}

// nextHop is the address of a Node on the same subnet, of a family; the zero one for none.
func (m *making) nextHop(n *Node, six bool) netip.Addr {
	via, near := n.address(six), m.near(m.self.address(six))
	if !near.IsValid() || !near.Contains(via) {
		return netip.Addr{}
	}
	return via
}

// ends leads to the Pods of the Node.
func (m *making) ends() {
	for _, six := range []bool{false, true} {
		if !slices.ContainsFunc(m.out.Ranges, func(p netip.Prefix) bool { return p.Addr().Is6() == six }) {
			continue
		}
		if gateway := GatewayOf(six); !slices.Contains(m.out.gateways, gateway) {
			m.out.gateways = append(m.out.gateways, gateway)
		}
		if a := m.self.address(six); m.near(a).IsValid() {
			m.out.sources = append(m.out.sources, a)
		}
	}
	for name, addresses := range m.Ends {
		m.out.End(m.out.State, name, addresses)
	}
}

// TroubleKind is what is wrong.
type TroubleKind uint8

// The kinds of troubles.
const (
	NoNode TroubleKind = iota + 1
	NoRange
	NoIPv6
	Overlap
	HoldsNode
	LargeMTU
	SmallMTU
	NoAddress
	ForeignRoute
	NoKey
	BadKey
	SameKey
	NoExit
	NoCertificate
)

// Trouble is something that is wrong with what the plan was made from.
type Trouble struct {
	Kind              TroubleKind
	Node, Other       string
	Range, OtherRange netip.Prefix
	Address           netip.Addr
	// Link is the name of a link, or a key as it was read.
	Link         string
	Number, Most int
	// By is the name of the protocol that encrypts.
	By string
	// Six is the family, or of a NoKey that packets are sent in the clear.
	Six bool
}

// String is the trouble for people.
func (t Trouble) String() string {
	family := "IPv4"
	if t.Six {
		family = "IPv6"
	}
	switch t.Kind {
	case NoNode:
		return fmt.Sprintf("the API server knows no Node %s", t.Node)
	case NoRange:
		return fmt.Sprintf("Node %s has no spec.podCIDRs, so its Pods get no addresses: start kube-controller-manager with --allocate-node-cidrs and --cluster-cidr", t.Node)
	case NoIPv6:
		return fmt.Sprintf("IPv6 is switched off on this Node, so its Pods get no address of %s", t.Range)
	case Overlap:
		return fmt.Sprintf("podCIDR %s of Node %s overlaps %s of Node %s, which is older: only the older one is routed", t.Range, t.Node, t.OtherRange, t.Other)
	case HoldsNode:
		return fmt.Sprintf("podCIDR %s of Node %s contains %s, the address of Node %s, and is not routed", t.Range, t.Node, t.Address, t.Other)
	case LargeMTU:
		return fmt.Sprintf("the MTU of Pods is set to %d, and the links between Nodes carry %d: larger packets to other Nodes are lost or cut into pieces", t.Number, t.Most)
	case SmallMTU:
		return fmt.Sprintf("the MTU of Pods would be %d, and IPv6 needs %d: raise the MTU of the links between Nodes; Pods with IPv6 do not start", t.Number, t.Most)
	case NoAddress:
		return fmt.Sprintf("Node %s has no %s address by which this Node reaches it, so its Pods are not reached from here", t.Node, family)
	case ForeignRoute:
		return fmt.Sprintf("somebody else routes %s of Node %s, over link %s: remove that route, or the other CNI plugin that makes it", t.Range, t.Node, t.Link)
	case NoKey:
		what := "told no key of WireGuard"
		if t.By == byName(true) {
			what = "not told that it has IPsec"
		}
		if t.Six {
			return fmt.Sprintf("Node %s has %s, so what Pods here and there send one another is not encrypted", t.Node, what)
		}
		return fmt.Sprintf("Node %s has %s, so nothing is sent to its Pods: its agent is away, or does not encrypt", t.Node, what)
	case BadKey:
		if t.By == byName(true) {
			return fmt.Sprintf("Node %s tells that its certificate for IPsec is of %q: want %q", t.Node, cut(t.Link), t.Other)
		}
		return fmt.Sprintf("what Node %s tells as its key of WireGuard, %q, is none: want 32 bytes in base64", t.Node, cut(t.Link))
	case NoCertificate:
		return fmt.Sprintf("Node %s has no certificate for IPsec yet, so it encrypts nothing", t.Node)
	case NoExit:
		return fmt.Sprintf("no way for the %s traffic of an Egress leads to Node %s, which has its address, so it is dropped: it needs an address of the family that Nodes reach one another by, a podCIDR that is routed and, where packets are encrypted, a key", family, t.Node)
	case SameKey:
		return fmt.Sprintf("Node %s tells the key of WireGuard of Node %s, which is older: nothing is sent to its Pods by it", t.Node, t.Other)
	}
	return "unknown trouble"
}
