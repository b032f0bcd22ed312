package network

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"fmt"
	"maps"
	"net/netip"
	"slices"
)

// Encryption is what becomes of packets between Pods of different Nodes.
type Encryption string

// The encryptions.
const (
	// NoEncryption sends them as they are.
	NoEncryption Encryption = "none"
	// ByWireGuard encrypts them. To Nodes of which no key is known nothing is sent, and what comes
	// from Pods there otherwise is dropped.
	ByWireGuard Encryption = "wireguard"
	// ByWireGuardOrClear encrypts them to Nodes of which a key is known, and sends them to others
	// as they are: on the way from one of the other two to the other.
	ByWireGuardOrClear Encryption = "wireguard-or-clear"
)

// Encryptions lists them.
func Encryptions() []Encryption {
	return []Encryption{NoEncryption, ByWireGuard, ByWireGuardOrClear}
}

// on reports whether something is encrypted.
func (e Encryption) on() bool { return e == ByWireGuard || e == ByWireGuardOrClear }

const (
	// WireGuardDevice is the link of WireGuard.
	WireGuardDevice = "nephele-wg"
	// DefaultWireGuardPort is its port of UDP.
	DefaultWireGuardPort = 51820
	// sealed4 and sealed6 are what WireGuard adds to a packet that an Ethernet link carries.
	sealed4, sealed6 = 60, 80
	// SealedTable is the table of routes that counts before all others but the local one, by rules
	// of this priority. Only what WireGuard carries is in it.
	SealedTable, SealedPriority = 157, 157
)

// PublicKey is one of WireGuard.
type PublicKey [32]byte

// ParsePublicKey reads what String has written.
func ParsePublicKey(text string) (PublicKey, error) {
	raw, err := base64.StdEncoding.Strict().DecodeString(text)
	if err != nil || len(raw) != len(PublicKey{}) || PublicKey(raw) == (PublicKey{}) || PublicKey(raw).String() != text {
		return PublicKey{}, fmt.Errorf("%q is no public key of WireGuard: want 32 bytes in base64", cut(text))
	}
	return PublicKey(raw), nil
}

// String is the usual form.
func (k PublicKey) String() string { return base64.StdEncoding.EncodeToString(k[:]) }

func compareKeys(a, b PublicKey) int { return bytes.Compare(a[:], b[:]) }

// WireGuard is the device of WireGuard, and who is behind it.
type WireGuard struct {
	// Key is the public half of the Node's own.
	Key  PublicKey
	Port uint16
	MTU  int
	// Addresses are those of the device, sorted.
	Addresses []netip.Addr
	Peers     map[PublicKey]SealedPeer
	// InAgent tells that the agent encrypts, because the kernel has no WireGuard. It is read, and
	// never wanted.
	InAgent bool
}

// SealedPeer is a Node behind WireGuard.
type SealedPeer struct {
	Endpoint netip.AddrPort
	// Allowed are what is sent to it and may come from it, sorted.
	Allowed []netip.Prefix
	// Places are all addresses of the Node. Wanted only: an endpoint that WireGuard has found at
	// one of them by itself is right.
	Places []netip.Addr
}

// Way is a route of SealedTable over WireGuard, or one of an exit. One that is closed counts where
// there is no other.
type Way struct {
	To     netip.Prefix
	Closed bool
	// Exit is the number of the exit; 0 for SealedTable.
	Exit uint8
	// Via is the next hop of an exit, and Wrapped tells that it is behind VXLAN. MTU is what fits
	// into a packet there, if that is less than the link says; else 0.
	Via     netip.Addr
	Wrapped bool
	MTU     int
	// Past tells that an exit has no route there, and others are asked.
	Past bool
}

// PeerStep is about a Node behind WireGuard.
type PeerStep struct {
	Key PublicKey
	SealedPeer
}

// RuleStep leads packets of a family to SealedTable first, or those with the mark of an exit to its
// table.
type RuleStep struct {
	Six  bool
	Exit uint8
}

// sameDevice reports whether nothing but peers differs.
func (w *WireGuard) sameDevice(o *WireGuard) bool {
	return w.Key == o.Key && w.Port == o.Port && w.MTU == o.MTU && slices.Equal(w.Addresses, o.Addresses)
}

// same reports whether a peer is as it is wanted.
func (p SealedPeer) same(want SealedPeer) bool {
	found := p.Endpoint == want.Endpoint || p.Endpoint.Port() == want.Endpoint.Port() && slices.Contains(want.Places, p.Endpoint.Addr())
	return found && slices.Equal(p.Allowed, want.Allowed)
}

// sealedSteps are what leads from what there is of WireGuard to what is wanted: what comes first,
// and what goes last.
func sealedSteps(is, want *State) (first, last []Step) {
	var there map[PublicKey]SealedPeer
	if is.WireGuard != nil {
		there = is.WireGuard.Peers
	}
	wanted := want.WireGuard
	switch {
	case wanted == nil:
	case is.WireGuard == nil:
		first, there = append(first, Step{Verb: Add, WireGuard: wanted}), nil
	case !is.WireGuard.sameDevice(wanted):
		first = append(first, Step{Verb: Replace, WireGuard: wanted})
	}
	if wanted != nil {
		for _, k := range slices.SortedFunc(maps.Keys(wanted.Peers), compareKeys) {
			if p := wanted.Peers[k]; !there[k].same(p) {
				first = append(first, Step{Verb: verbOf(there, k), Peer: &PeerStep{k, p}})
			}
		}
	}
	for _, w := range slices.SortedFunc(maps.Keys(want.Ways), compareWays) {
		if !is.Ways[w] && !w.Wrapped { // those over the device of VXLAN need it
			first = append(first, Step{Verb: Add, Way: &w})
		}
	}
	for _, r := range slices.SortedFunc(maps.Keys(want.Rules), compareRules) {
		if !is.Rules[r] {
			first = append(first, Step{Verb: Add, Rule: &r})
		}
	}
	for _, r := range slices.SortedFunc(maps.Keys(is.Rules), compareRules) {
		if !want.Rules[r] {
			last = append(last, Step{Verb: Remove, Rule: &r})
		}
	}
	gone := slices.SortedFunc(maps.Keys(is.Ways), compareWays)
	slices.Reverse(gone) // what is open before what is closed
	for _, w := range gone {
		if !want.Ways[w] {
			last = append(last, Step{Verb: Remove, Way: &w})
		}
	}
	switch {
	case wanted == nil && is.WireGuard != nil:
		last = append(last, Step{Verb: Remove, WireGuard: is.WireGuard})
	case wanted != nil:
		for _, k := range slices.SortedFunc(maps.Keys(there), compareKeys) {
			if _, stays := wanted.Peers[k]; !stays {
				last = append(last, Step{Verb: Remove, Peer: &PeerStep{k, there[k]}})
			}
		}
	}
	return first, last
}

// sealedText is such a step for people; empty for others.
func (s Step) sealedText() string {
	switch {
	case s.WireGuard != nil:
		return fmt.Sprintf("%s the device of WireGuard %s, port %d, MTU %d", s.Verb, WireGuardDevice, s.WireGuard.Port, s.WireGuard.MTU)
	case s.Peer != nil:
		return fmt.Sprintf("%s the Node at %s behind WireGuard, with %v", s.Verb, s.Peer.Endpoint, s.Peer.Allowed)
	case s.Way != nil && s.Way.Exit != 0, s.Rule != nil && s.Rule.Exit != 0:
		return s.exitText()
	case s.Way != nil && s.Way.Closed:
		return fmt.Sprintf("%s that nothing goes to %s but by WireGuard", s.Verb, s.Way.To)
	case s.Way != nil:
		return fmt.Sprintf("%s the route to %s by WireGuard", s.Verb, s.Way.To)
	case s.Rule != nil && s.Rule.Six:
		return s.Verb.String() + " the rule that WireGuard comes first, for IPv6"
	case s.Rule != nil:
		return s.Verb.String() + " the rule that WireGuard comes first, for IPv4"
	}
	return ""
}

// keys finds out the key of each Node. Of Nodes that tell the same one it is that of the oldest.
func (m *making) keys() {
	m.known = map[string]PublicKey{}
	if !m.Encryption.on() {
		return
	}
	order := make([]*Node, 0, len(m.Nodes))
	for i := range m.Nodes {
		order = append(order, &m.Nodes[i])
	}
	slices.SortFunc(order, func(a, b *Node) int { return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.Name, b.Name)) })
	owner := map[PublicKey]string{}
	if m.OwnKey != (PublicKey{}) {
		owner[m.OwnKey] = m.Name
	}
	for _, n := range order {
		if n == m.self {
			continue
		}
		key, err := ParsePublicKey(n.PublicKey)
		switch {
		case n.PublicKey == "" && len(n.PodCIDRs) > 0:
			m.trouble(Trouble{Kind: NoKey, Node: n.Name, Six: m.Encryption == ByWireGuardOrClear})
		case n.PublicKey == "":
		case err != nil:
			m.trouble(Trouble{Kind: BadKey, Node: n.Name, Link: n.PublicKey})
		case owner[key] != "":
			m.trouble(Trouble{Kind: SameKey, Node: n.Name, Other: owner[key]})
		default:
			owner[key], m.known[n.Name] = n.Name, key
		}
	}
}

// device is that of WireGuard on this Node.
func (m *making) device() {
	if !m.Encryption.on() {
		return
	}
	w := &WireGuard{Key: m.OwnKey, Port: cmp.Or(m.WireGuardPort, DefaultWireGuardPort), MTU: m.out.MTU, Addresses: m.ownAddresses(), Peers: map[PublicKey]SealedPeer{}}
	m.out.State.WireGuard = w
}

// seals reports whether packets to Pods of a Node are encrypted, or not sent.
func (m *making) seals(n *Node) bool {
	_, known := m.known[n.Name]
	return m.Encryption == ByWireGuard || known
}

// seal makes the ways to the Pods of a Node. It reports whether there are any.
func (m *making) seal(n *Node) bool {
	key, known := m.known[n.Name]
	at, port := n.address(m.six), m.out.State.WireGuard.Port
	peer := SealedPeer{Endpoint: netip.AddrPortFrom(at, port), Places: n.Addresses}
	for _, p := range m.routed[n.Name] {
		if p.Addr().Is6() && !m.Underlay.IPv6 { // no Pod here could send there
			continue
		}
		m.out.State.Rules[RuleStep{Six: p.Addr().Is6()}] = true
		m.out.State.Ways[Way{To: p}] = true
		if m.Encryption == ByWireGuard {
			m.out.State.Ways[Way{To: p, Closed: true}] = true
			m.out.Sealed = append(m.out.Sealed, p)
		}
		peer.Allowed = append(peer.Allowed, p)
	}
	if !known || !at.IsValid() || len(peer.Allowed) == 0 {
		return false
	}
	slices.SortFunc(peer.Allowed, netip.Prefix.Compare)
	m.out.State.WireGuard.Peers[key] = peer
	m.out.Peers = append(m.out.Peers, Peer{Name: n.Name, At: at, Through: OwnAddress(peer.Allowed[0]), Port: port, Sealed: true})
	return true
}
