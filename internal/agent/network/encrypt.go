package network

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"errors"
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
	// ByIPsec encrypts them by ESP. To Nodes that do not say that they do so nothing is sent, and
	// what comes from Pods there otherwise is dropped.
	ByIPsec Encryption = "ipsec"
	// ByIPsecOrClear encrypts them to Nodes that do so, too, and sends them to others as they are.
	ByIPsecOrClear Encryption = "ipsec-or-clear"
)

// Encryptions lists them.
func Encryptions() []Encryption {
	return []Encryption{NoEncryption, ByWireGuard, ByWireGuardOrClear, ByIPsec, ByIPsecOrClear}
}

// on reports whether something is encrypted.
func (e Encryption) on() bool { return e != "" && e != NoEncryption }

// strict reports whether what cannot be encrypted is not sent.
func (e Encryption) strict() bool { return e == ByWireGuard || e == ByIPsec }

// IPsec reports whether ESP encrypts.
func (e Encryption) IPsec() bool { return e == ByIPsec || e == ByIPsecOrClear }

// By is the name of the protocol that encrypts, for people.
func (e Encryption) By() string { return byName(e.IPsec()) }

func byName(ipsec bool) string {
	if ipsec {
		return "IPsec"
	}
	return "WireGuard"
}

const (
	// WireGuardDevice is the link of WireGuard.
	WireGuardDevice = "nephele-wg"
	// DefaultWireGuardPort is its port of UDP.
	DefaultWireGuardPort = 51820
	// sealed4 and sealed6 are what WireGuard adds to a packet that an Ethernet link carries.
	sealed4, sealed6 = 60, 80
	// IPsecDevice is the link of IPsec where the kernel encrypts, and IPsecMark the number by which
	// the kernel knows what belongs to it. IPsecPort is the port of UDP of IKE and of ESP.
	IPsecDevice = "nephele-ipsec"
	IPsecMark   = 157
	IPsecPort   = 4500
	// esp4 and esp6 are what ESP with AES-GCM in UDP adds to a packet that an Ethernet link
	// carries.
	esp4, esp6 = 66, 86
	// SealedTable is the table of routes that counts before all others but the local one, by rules
	// of this priority. Only what is encrypted is in it.
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

// Sealing is the device of WireGuard or IPsec, with its peers.
type Sealing struct {
	// IPsec is by which, and Link is the name of the device.
	IPsec bool
	Link  string
	// Key is the public half of the Node's own, by IPsec KeyOf its identity.
	Key  PublicKey
	Port uint16
	MTU  int
	// Addresses holds the addresses of the device, sorted.
	Addresses []netip.Addr
	Peers     map[PublicKey]SealedPeer
	// InAgent tells that a process encrypts, because the kernel cannot: the agent by WireGuard,
	// charon by IPsec. It is read, and never wanted.
	InAgent bool
}

// IPsecPeer is what IPsec needs to know of a Node besides.
type IPsecPeer struct {
	// Identity is what its certificate says, and Local the address of this Node toward it.
	Identity string
	Local    netip.Addr
}

// SealedPeer is a Node behind WireGuard or IPsec.
type SealedPeer struct {
	IPsecPeer
	Endpoint netip.AddrPort
	// Allowed are what is sent to it and may come from it, sorted.
	Allowed []netip.Prefix
	// First tells that this Node calls the other one by IPsec, and waits for no call. Wanted only.
	First bool
	// Own are what may be sent to it and is taken from it by IPsec at this end, sorted.
	Own []netip.Prefix
	// Places are all addresses of the Node. Wanted only: an endpoint that WireGuard has found at
	// one of them by itself is right.
	Places []netip.Addr
}

// KeyOf is how an identity is found among peers.
func KeyOf(identity string) PublicKey {
	return sha256.Sum256([]byte("nephele ipsec " + identity))
}

// Way is a route of SealedTable over a device that encrypts, or one of an exit. One that is closed
// counts where there is no other.
type Way struct {
	To     netip.Prefix
	Closed bool
	// IPsec is the name of the device of IPsec; empty for that of WireGuard.
	IPsec string
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

// PeerStep is about a Node behind WireGuard or IPsec.
type PeerStep struct {
	IPsec bool
	Key   PublicKey
	SealedPeer
}

// RuleStep leads packets of a family to SealedTable first, or those with the mark of an exit to its
// table.
type RuleStep struct {
	Six  bool
	Exit uint8
}

// sameDevice reports whether nothing but peers differs.
func (w *Sealing) sameDevice(o *Sealing) bool {
	return w.Link == o.Link && w.Key == o.Key && w.Port == o.Port && w.MTU == o.MTU && slices.Equal(w.Addresses, o.Addresses)
}

// same reports whether a peer is as it is wanted.
func (p SealedPeer) same(want SealedPeer) bool {
	found := p.Endpoint == want.Endpoint || want.Identity == "" && p.Endpoint.Port() == want.Endpoint.Port() && slices.Contains(want.Places, p.Endpoint.Addr())
	return found && p.IPsecPeer == want.IPsecPeer && slices.Equal(p.Allowed, want.Allowed) && slices.Equal(p.Own, want.Own)
}

// deviceSteps are the steps from the present device and its peers to the wanted ones: those to take
// first, and those to take last.
func deviceSteps(is, wanted *Sealing) (first, last []Step) {
	var there map[PublicKey]SealedPeer
	if is != nil {
		there = is.Peers
	}
	switch {
	case wanted == nil && is == nil:
		return nil, nil
	case wanted == nil:
		return nil, []Step{{Verb: Remove, Sealing: is}}
	case is == nil:
		first, there = append(first, Step{Verb: Add, Sealing: wanted}), nil
	case !is.sameDevice(wanted):
		first = append(first, Step{Verb: Replace, Sealing: wanted})
	}
	for _, k := range slices.SortedFunc(maps.Keys(wanted.Peers), compareKeys) {
		if p := wanted.Peers[k]; !there[k].same(p) {
			first = append(first, Step{Verb: verbOf(there, k), Peer: &PeerStep{wanted.IPsec, k, p}})
		}
	}
	for _, k := range slices.SortedFunc(maps.Keys(there), compareKeys) {
		if _, stays := wanted.Peers[k]; !stays {
			last = append(last, Step{Verb: Remove, Peer: &PeerStep{wanted.IPsec, k, there[k]}})
		}
	}
	return first, last
}

// sealedSteps are what leads from what there is of encryption to what is wanted: what comes first,
// and what goes last.
func sealedSteps(is, want *State) (first, last []Step) {
	first, last = deviceSteps(is.WireGuard, want.WireGuard)
	more, end := deviceSteps(is.IPsec, want.IPsec)
	first, end = append(first, more...), append(last, end...)
	last = nil
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
	return first, append(last, end...)
}

// sealedText is such a step for people; empty for others.
func (s Step) sealedText() string {
	switch {
	case s.Sealing != nil:
		return fmt.Sprintf("%s the device of %s %s, port %d, MTU %d", s.Verb, byName(s.Sealing.IPsec), s.Sealing.Link, s.Sealing.Port, s.Sealing.MTU)
	case s.Peer != nil:
		return fmt.Sprintf("%s the Node at %s behind %s, with %v", s.Verb, s.Peer.Endpoint, byName(s.Peer.IPsec), s.Peer.Allowed)
	case s.Way != nil && s.Way.Exit != 0, s.Rule != nil && s.Rule.Exit != 0:
		return s.exitText()
	case s.Way != nil && s.Way.Closed:
		return fmt.Sprintf("%s that nothing goes to %s but encrypted", s.Verb, s.Way.To)
	case s.Way != nil:
		return fmt.Sprintf("%s the route to %s by %s", s.Verb, s.Way.To, byName(s.Way.IPsec != ""))
	case s.Rule != nil && s.Rule.Six:
		return s.Verb.String() + " the rule that what is encrypted comes first, for IPv6"
	case s.Rule != nil:
		return s.Verb.String() + " the rule that what is encrypted comes first, for IPv4"
	}
	return ""
}

// keys finds out the key of each Node, by IPsec that of its identity. Of Nodes that publish the
// same one it is that of the oldest.
func (m *making) keys() {
	m.known = map[string]PublicKey{}
	if !m.Encryption.on() {
		return
	}
	if m.Encryption.IPsec() && m.OwnIdentity == "" {
		m.trouble(Trouble{Kind: NoCertificate, Node: m.Name})
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
		text, key, err := m.publishedKey(n)
		switch {
		case text == "" && len(n.PodCIDRs) > 0:
			m.trouble(Trouble{Kind: NoKey, Node: n.Name, Six: !m.Encryption.strict(), By: m.Encryption.By()})
		case text == "":
		case err != nil:
			m.trouble(Trouble{Kind: BadKey, Node: n.Name, Link: text, By: m.Encryption.By(), Other: n.Identity})
		case owner[key] != "":
			m.trouble(Trouble{Kind: SameKey, Node: n.Name, Other: owner[key]})
		default:
			owner[key], m.known[n.Name] = n.Name, key
		}
	}
}

// publishedKey is what a Node publishes, and which key that is.
func (m *making) publishedKey(n *Node) (text string, key PublicKey, err error) {
	if !m.Encryption.IPsec() {
		key, err = ParsePublicKey(n.PublicKey)
		return n.PublicKey, key, err
	}
	if n.PublishedIdentity != n.Identity {
		err = errIdentity
	}
	return n.PublishedIdentity, KeyOf(n.Identity), err
}

// errIdentity: a Node publishes another identity than is its.
var errIdentity = errors.New("not the identity of the Node")

// device is that which encrypts on this Node.
func (m *making) device() {
	switch {
	case m.Encryption.IPsec():
		mtu := m.out.MTU
		if m.Underlay.IPsecMTU > 0 {
			mtu = min(mtu, m.Underlay.IPsecMTU)
		}
		m.out.State.IPsec = &Sealing{
			IPsec: true, Link: cmp.Or(m.Underlay.IPsecLink, IPsecDevice), Port: IPsecPort, MTU: mtu, Addresses: m.ownAddresses(), Peers: map[PublicKey]SealedPeer{},
		}
		if m.OwnIdentity != "" {
			m.out.State.IPsec.Key = KeyOf(m.OwnIdentity)
		}
	case m.Encryption.on():
		m.out.State.WireGuard = &Sealing{
			Link: WireGuardDevice, Key: m.OwnKey, Port: cmp.Or(m.WireGuardPort, DefaultWireGuardPort), MTU: m.out.MTU,
			Addresses: m.ownAddresses(), Peers: map[PublicKey]SealedPeer{},
		}
	}
}

// Sealing is the device that encrypts; nil for none.
func (s *State) Sealing() *Sealing {
	if s.IPsec != nil {
		return s.IPsec
	}
	return s.WireGuard
}

// seals reports whether packets to Pods of a Node are encrypted, or not sent.
func (m *making) seals(n *Node) bool {
	_, known := m.known[n.Name]
	return m.Encryption.strict() || known
}

// seal makes the ways to the Pods of a Node. It reports whether there are any.
func (m *making) seal(n *Node) bool {
	by := m.out.State.Sealing()
	key, known := m.known[n.Name]
	at := n.address(m.six)
	peer := SealedPeer{Endpoint: netip.AddrPortFrom(at, by.Port)}
	over := ""
	if by.IPsec {
		over = by.Link
		peer.IPsecPeer = IPsecPeer{Identity: n.Identity, Local: m.self.address(m.six)}
		peer.First = m.Name < n.Name
		peer.Own = slices.SortedFunc(slices.Values(m.out.Ranges), netip.Prefix.Compare)
	} else {
		peer.Places = n.Addresses
	}
	for _, p := range m.routed[n.Name] {
		if p.Addr().Is6() && !m.Underlay.IPv6 { // no Pod here could send there
			continue
		}
		m.out.State.Rules[RuleStep{Six: p.Addr().Is6()}] = true
		m.out.State.Ways[Way{To: p, IPsec: over}] = true
		if m.Encryption.strict() {
			m.out.State.Ways[Way{To: p, Closed: true}] = true
			m.out.Sealed = append(m.out.Sealed, p)
		}
		peer.Allowed = append(peer.Allowed, p)
	}
	if !known || !at.IsValid() || len(peer.Allowed) == 0 {
		return false
	}
	slices.SortFunc(peer.Allowed, netip.Prefix.Compare)
	by.Peers[key] = peer
	m.out.Peers = append(m.out.Peers, Peer{Name: n.Name, At: at, Through: OwnAddress(peer.Allowed[0]), Port: by.Port, Sealed: by.by()})
	return true
}

func (w *Sealing) by() string { return byName(w.IPsec) }
