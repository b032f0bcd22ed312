package ruleset

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
)

// Direction tells traffic to the host from traffic of the host.
type Direction uint8

// The directions.
const (
	Ingress Direction = iota
	Egress
)

func (d Direction) String() string { return [...]string{"ingress", "egress"}[d] }

// Family is a family of addresses.
type Family uint8

// The families.
const (
	IPv4 Family = 4
	IPv6 Family = 6
)

// The protocols that rules know, as IP numbers them.
const (
	ICMP   uint8 = 1
	IGMP   uint8 = 2
	TCP    uint8 = 6
	UDP    uint8 = 17
	ICMPv6 uint8 = 58
	SCTP   uint8 = 132
)

// ID stands for a group, a named port of one, a domain name or a Service, in the keys of sets. It
// is made from the name, so that it is the same in every process, and long enough that nobody finds
// two names with the same ID.
type ID [16]byte

// IDOf is the ID of a list of names.
func IDOf(parts ...string) ID {
	h := Sum(parts...)
	return ID(h[:16])
}

// Sum hashes texts such that no two lists of texts look alike.
func Sum(parts ...string) [32]byte {
	h := sha256.New()
	for _, p := range parts {
		fmt.Fprintf(h, "%d:%s", len(p), p)
	}
	return [32]byte(h.Sum(nil))
}

// SetName names a set of the kernel. The first five are always there; sets of ranges are named
// after their content.
type SetName string

// The sets of keyed elements.
const (
	Members4 SetName = "members4"
	Members6 SetName = "members6"
	Ports4   SetName = "ports4"
	Ports6   SetName = "ports6"
	// BlockPorts are the protocols and ports that rules of blocks are about.
	BlockPorts SetName = "blockports"
)

// KeyedSets lists them.
func KeyedSets() []SetName { return []SetName{Members4, Members6, Ports4, Ports6, BlockPorts} }

// PartKey names the elements that one ID has in a set.
type PartKey struct {
	Set SetName
	ID  ID
}

// Part are the elements that one ID has in a set.
type Part struct {
	// Of is what the ID stands for, to be printed.
	Of string
	// Keys are the rest of the keys in the form of the kernel, each field filled up to four bytes.
	Keys Keys
}

// Range is a range of addresses, both ends included.
type Range struct{ From, To netip.Addr }

// MatchKind is what a Match looks at.
type MatchKind uint8

// The kinds of matches.
const (
	// MatchDead: the connection was allowed once and is not any more.
	MatchDead MatchKind = iota + 1
	// MatchEstablished: the packet belongs to a known connection, or tells of an error of one.
	MatchEstablished
	// MatchLoopback: the packet does not leave the host.
	MatchLoopback
	// MatchFamily: Lo is the Family.
	MatchFamily
	// MatchNeighbour: neighbour discovery of IPv6 from the same link.
	MatchNeighbour
	// MatchProtocol: Lo is the number.
	MatchProtocol
	// MatchSourcePort and MatchPort: Lo..Hi.
	MatchSourcePort
	MatchPort
	// MatchType and MatchCode, of ICMP, ICMPv6 and IGMP: Lo. Types may be Lo..Hi.
	MatchType
	MatchCode
	// MatchHopLimit: Lo is the hop limit, or of IPv4 the time to live.
	MatchHopLimit
	// MatchIGMPGroup: the group of an IGMP message is in Peer.
	MatchIGMPGroup
	// MatchProcess: a process of the host has made the packet.
	MatchProcess
	// MatchRouted: the source of the packet is no address of the host.
	MatchRouted
	// MatchPeer: the address of the other end is in Peer.
	MatchPeer
	// MatchPeerIn: the address of the other end is in the ranges of the set of Of.
	MatchPeerIn
	// MatchMember: Of holds the address of the other end.
	MatchMember
	// MatchNamedPort: Of holds the address of the other end with the protocol and the port.
	MatchNamedPort
	// MatchService: Of holds the address, protocol and port that the connection was made to, before
	// that was translated.
	MatchService
	// MatchTranslated: the connection was made to another destination, such as a Service.
	MatchTranslated
	// MatchPodLink: the packet came over a link that leads to a Pod.
	MatchPodLink
	// MatchFromPeer: the packet came over one end of a pair of links, the other of which is, as a
	// rule, in a Pod. MatchLink: it came over the link that is the Set of Of.
	MatchFromPeer
	// MatchToLink: it goes by that link.
	MatchLink
	MatchToLink
	// MatchNoWayBack: no route leads back to the source over the link that the packet came by.
	MatchNoWayBack
	// MatchToNode: the packet is sent to an address of the host.
	MatchToNode
	// MatchAskedPort: Lo..Hi of the port that the connection was made to, before that was
	// translated.
	MatchAskedPort
	// MatchPortOf: Of holds the protocol of the packet with its port, MatchAskedPortOf with the
	// port that the connection was made to, before that was translated.
	MatchPortOf
	MatchAskedPortOf
	// MatchFromBridge and MatchToBridge: the packet comes from a bridge of the host, or goes to
	// one.
	MatchFromBridge
	MatchToBridge
	// MatchInClear: the packet goes by another link than the Set of Of, which encrypts, or with
	// Source comes by one.
	MatchInClear
	// MatchAsked: the packet goes from the end that has made the connection to the other one.
	MatchAsked
	// MatchExit: the packet takes the exit Lo; 0 for any.
	MatchExit
	// MatchSourceTranslated: the other end sees another source of the connection.
	// MatchAnsweredElsewhere: it sees another one than Peer. MatchAnsweredAt: it sees Peer.
	MatchSourceTranslated
	// MatchInvalid: conntrack assigns the packet to no connection, so its addresses are translated
	// by none.
	MatchInvalid
	MatchAnsweredElsewhere
	MatchAnsweredAt
)

// Match is one condition of a rule. What it points to is shared and never changes: there are more
// matches than anything else in a large program.
type Match struct {
	Kind MatchKind
	// Source tells that the other end is the source of the packet.
	Source bool
	Lo, Hi uint16
	Peer   *Range
	Of     *PartKey
}

func (m Match) equal(o Match) bool {
	return m.Kind == o.Kind && m.Source == o.Source && m.Lo == o.Lo && m.Hi == o.Hi && same(m.Peer, o.Peer) && same(m.Of, o.Of)
}

// same reports whether two pointers are to the same, or to nothing.
func same[T comparable](a, b *T) bool { return a == b || a != nil && b != nil && *a == *b }

// Action is what a rule does.
type Action uint8

// The actions.
const (
	Accept Action = iota + 1
	Drop
	// RejectReset answers with a TCP reset, RejectICMP with "administratively prohibited".
	RejectReset
	RejectICMP
	// Jump goes on in another chain and comes back, Goto does not come back.
	Jump
	Goto
	// Queue hands the packet to the agent, which lets it go on. Without an agent it goes on at
	// once.
	Queue
	// Log tells of the packet, a limited number of times a second, and the next rule goes on with
	// it.
	Log
	// Lookup goes on in the chain that the dispatch of the name Target has for the packet, and does
	// not come back. If it has none the next rule goes on.
	Lookup
	// Masquerade gives the connection the address of the host as its source.
	Masquerade
	// BalanceBackends chooses where the connection goes, as Balance says.
	BalanceBackends
	// RejectPort answers that nobody listens.
	RejectPort
	// SourceNAT gives the connection the address Target as its source.
	SourceNAT
	// SetExit notes that the packet takes the exit with the number Target, and the next rule goes
	// on with it.
	SetExit
	// ClampSegments lowers what a new connection of TCP allows in one segment to what fits the
	// routes of its packets, and the next rule goes on with it.
	ClampSegments
	// NoTrack keeps conntrack from following the packet, and the next rule goes on with it.
	NoTrack
)

func (a Action) String() string {
	return [...]string{"", "accept", "drop", "reject with tcp reset", "reject with icmpx admin-prohibited", "jump", "goto", "queue", "log", "lookup", "masquerade", "balance", "reject with icmpx port-unreachable", "snat to", "take exit", "clamp segments", "notrack"}[a]
}

// OriginKind is why a rule is there.
type OriginKind uint8

// The origins of rules.
const (
	// OriginFrame: it holds the program together.
	OriginFrame OriginKind = iota
	OriginFailsafe
	OriginPolicy
	// OriginIsolation: policies allow some traffic, so the rest is dropped.
	OriginIsolation
	// OriginNative: no policy decides.
	OriginNative
	// OriginNames: answers of resolvers, by which the agent learns the addresses of names.
	OriginNames
	// OriginUnknown: the address is one for Pods, and none is known to have it, or it is not known
	// yet which policies apply to the Pod.
	OriginUnknown
	// OriginItself: a Pod reaches itself through a Service.
	OriginItself
	// OriginRevision: no packet comes to the rule, which carries the revision of the program.
	OriginRevision
	// OriginSpoofed: a Pod sends from an address that is not its own.
	OriginSpoofed
	// OriginNetwork: the network of the Node needs it.
	OriginNetwork
)

// Origin tells where a rule comes from. It is comparable. Rules share theirs.
type Origin struct {
	Kind   OriginKind
	Policy v1beta2.NetworkPolicyReference
	// Name is that of the rule in the policy, or of the failsafe flow.
	Name string
	// Index is the place of the rule among the rules of its direction in the policy.
	Index int32
	// Logged is set for rules that log.
	Logged Logged
}

// Logged is what the log says of a rule besides.
type Logged struct {
	Direction Direction
	// Action is what the policy says, and Label what it wants written with every line.
	Action v1beta2.RuleAction
	Label  string
	// Unasked tells that the policy does not want it logged: the packet is told because it was
	// denied.
	Unasked bool
}

func (o Origin) String() string {
	switch o.Kind {
	case OriginFailsafe:
		return "failsafe " + o.Name
	case OriginIsolation:
		return "isolated"
	case OriginNative:
		return "no policy"
	case OriginNames:
		return "answers of resolvers"
	case OriginUnknown:
		return "no Pod that is known"
	case OriginItself:
		return "the Pod itself"
	case OriginSpoofed:
		return "not the address of the Pod"
	case OriginNetwork:
		return "network: " + o.Name
	case OriginRevision:
		return revisionPrefix + o.Name
	case OriginPolicy:
		name := o.Policy.Name
		if o.Policy.Namespace != "" {
			name = o.Policy.Namespace + "/" + name
		}
		return strings.TrimSpace(fmt.Sprintf("%s %s rule %d %s", o.Policy.Type, name, o.Index, o.Name))
	}
	return ""
}

// Rule acts on packets for which all matches hold.
type Rule struct {
	Matches []Match
	Action  Action
	// Target is the chain of Jump and Goto, or what else the action says.
	Target string
	// Origin is nil for OriginFrame.
	Origin *Origin
	// Balance says what BalanceBackends does.
	Balance *BalanceTo
}

// From tells where the rule comes from.
func (r *Rule) From() Origin {
	if r.Origin == nil {
		return Origin{}
	}
	return *r.Origin
}

func (r *Rule) equal(s *Rule) bool {
	return r.Action == s.Action && r.Target == s.Target && same(r.Origin, s.Origin) && same(r.Balance, s.Balance) && slices.EqualFunc(r.Matches, s.Matches, Match.equal)
}

// Chain is a list of rules. The chains that packets enter are those that Bases names; what comes to
// the end of these is accepted.
type Chain struct{ Rules []Rule }

// Elements are where packets go on by their addresses and ports, both in the form of the kernel.
type Elements = Layered[string, string]

// Program is all that is in the kernel.
type Program struct {
	Chains map[string]*Chain
	Parts  *Parts
	// Ranges are sorted and do not touch. Their names are made from them.
	Ranges map[SetName][]Range
	// Dispatch says by addresses, in the form of the kernel, in which chain a packet goes on.
	Dispatch map[SetName]*Elements
	// Leaves tells that what dispatches for Services have, and the chains that they lead to, is not
	// known: what is there stays.
	Leaves bool
	// Lineage tells how the dispatches for Services came about.
	Lineage Lineage
	// Names are the domain names, and patterns of such, that rules name, sorted.
	Names []string
}

// Counted reports whether the kernel counts what the rule decides: a policy wants it so. What goes
// on to other rules is not decided yet.
func (r *Rule) Counted() bool {
	return r.Origin != nil && r.Origin.Kind == OriginPolicy && (r.Action == Accept || r.Action == Drop || r.Action == RejectReset || r.Action == RejectICMP)
}

// LogID is what the kernel says of a packet that a rule logs.
func (r *Rule) LogID() string {
	o := r.From()
	parts := []string{
		string(o.Policy.Type),
		o.Policy.Namespace,
		o.Policy.Name,
		string(o.Policy.UID),
		o.Name,
		fmt.Sprint(o.Index),
		o.Logged.Direction.String(),
		string(o.Logged.Action),
		o.Logged.Label,
	}
	if o.Logged.Unasked {
		parts = append(parts, "unasked")
	}
	id := Sum(parts...)
	return hex.EncodeToString(id[:8])
}

// Logs are the origins of the rules that log, by LogID.
func (p *Program) Logs() map[string]Origin {
	out := map[string]Origin{}
	for _, c := range p.Chains {
		for i := range c.Rules {
			if r := &c.Rules[i]; r.Action == Log {
				out[r.LogID()] = r.From()
			}
		}
	}
	return out
}

// Rules counts the rules.
func (p *Program) Rules() int {
	n := 0
	for _, c := range p.Chains {
		n += len(c.Rules)
	}
	return n
}

// Elements counts the elements of the keyed sets.
func (p *Program) Elements() int {
	if p.Parts == nil {
		return 0
	}
	return p.Parts.elements
}

// String prints the program for people, always in the same order.
func (p *Program) String() string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(p.Chains)) {
		fmt.Fprintf(&b, "chain %s\n", name)
		for _, r := range p.Chains[name].Rules {
			fmt.Fprintf(&b, "  %s\n", &r)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(p.Ranges)) {
		fmt.Fprintf(&b, "set %s\n", name)
		for _, r := range p.Ranges[name] {
			fmt.Fprintf(&b, "  %s-%s\n", r.From, r.To)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(p.Dispatch)) {
		fmt.Fprintf(&b, "dispatch %s\n", name)
		elements := maps.Collect(p.Dispatch[name].All())
		for _, key := range slices.Sorted(maps.Keys(elements)) {
			if name.HoldsBackends() {
				fmt.Fprintf(&b, "  %x is %x\n", key, elements[key])
				continue
			}
			fmt.Fprintf(&b, "  %x goto %s\n", key, elements[key])
		}
	}
	parts := maps.Collect(p.Parts.All())
	keys := slices.SortedFunc(maps.Keys(parts), func(a, b PartKey) int {
		return strings.Compare(string(a.Set)+parts[a].Of, string(b.Set)+parts[b].Of)
	})
	for _, k := range keys {
		fmt.Fprintf(&b, "set %s of %s\n", k.Set, parts[k].Of)
		for e := range parts[k].Keys.All() {
			fmt.Fprintf(&b, "  %s\n", keyText(k.Set, e))
		}
	}
	return b.String()
}

func keyText(set SetName, key string) string {
	if set == BlockPorts {
		return fmt.Sprintf("protocol %d port %d", key[0], int(key[4])<<8|int(key[5]))
	}
	size := 4
	if set == Members6 || set == Ports6 {
		size = 16
	}
	a, _ := netip.AddrFromSlice([]byte(key[:size]))
	if len(key) == size {
		return a.String()
	}
	return fmt.Sprintf("%s protocol %d port %d", a, key[size], int(key[size+4])<<8|int(key[size+5]))
}

// String prints the rule for people.
func (r *Rule) String() string {
	words := make([]string, 0, len(r.Matches)+2)
	for _, m := range r.Matches {
		words = append(words, m.String())
	}
	words = append(words, r.Action.String())
	if r.Target != "" {
		words = append(words, r.Target)
	}
	if r.Balance != nil {
		words = append(words, r.Balance.String())
	}
	if o := r.From().String(); o != "" {
		words = append(words, "# "+o)
	}
	return strings.Join(words, " ")
}

// String prints the match for people.
func (m Match) String() string {
	peer := "daddr"
	if m.Source {
		peer = "saddr"
	}
	span := func(word string) string {
		if m.Lo == m.Hi {
			return fmt.Sprintf("%s %d", word, m.Lo)
		}
		return fmt.Sprintf("%s %d-%d", word, m.Lo, m.Hi)
	}
	switch m.Kind {
	case MatchDead:
		return "dead"
	case MatchEstablished:
		return "established,related"
	case MatchInvalid:
		return "invalid"
	case MatchLoopback:
		return "loopback"
	case MatchFamily:
		return fmt.Sprintf("ipv%d", m.Lo)
	case MatchNeighbour:
		return "neighbour-discovery"
	case MatchProtocol:
		return fmt.Sprintf("protocol %d", m.Lo)
	case MatchSourcePort:
		return span("sport")
	case MatchPort:
		return span("dport")
	case MatchType:
		if m.Hi > m.Lo {
			return span("type")
		}
		return fmt.Sprintf("type %d", m.Lo)
	case MatchHopLimit:
		return fmt.Sprintf("hop limit %d", m.Lo)
	case MatchCode:
		return fmt.Sprintf("code %d", m.Lo)
	case MatchIGMPGroup:
		return "igmp group " + m.Peer.From.String()
	case MatchTranslated:
		return "translated"
	case MatchPodLink:
		return "from a link to a Pod"
	case MatchFromPeer:
		return "from a link with a peer"
	case MatchLink:
		return "from link " + string(m.Of.Set)
	case MatchToLink:
		return "to link " + string(m.Of.Set)
	case MatchNoWayBack:
		return "no way back"
	case MatchInClear:
		return "by another link than " + string(m.Of.Set)
	case MatchToNode:
		return "to the host"
	case MatchAsked:
		return "from the client"
	case MatchExit:
		return fmt.Sprintf("by exit %d", m.Lo)
	case MatchSourceTranslated:
		return "source translated"
	case MatchAnsweredElsewhere:
		return "not answered to " + m.Peer.From.String()
	case MatchAnsweredAt:
		return "answered to " + m.Peer.From.String()
	case MatchPeer:
		return fmt.Sprintf("%s %s-%s", peer, m.Peer.From, m.Peer.To)
	case MatchPeerIn:
		return fmt.Sprintf("%s @%s", peer, m.Of.Set)
	case MatchService:
		return fmt.Sprintf("original destination @%s of %s", m.Of.Set, hex.EncodeToString(m.Of.ID[:4]))
	case MatchPortOf:
		return fmt.Sprintf("dport @%s of %s", m.Of.Set, hex.EncodeToString(m.Of.ID[:4]))
	case MatchAskedPortOf:
		return fmt.Sprintf("original dport @%s of %s", m.Of.Set, hex.EncodeToString(m.Of.ID[:4]))
	case MatchMember, MatchNamedPort:
		return fmt.Sprintf("%s @%s of %s", peer, m.Of.Set, hex.EncodeToString(m.Of.ID[:4]))
	}
	return "?"
}

// LetPass is the program that lets everything pass while the kernel tracks connections. So when
// other rules come, the client of each connection is known.
func LetPass() *Program {
	out := &Program{Chains: map[string]*Chain{}}
	for _, b := range []Base{ToHost, FromHost} {
		out.Chains[string(b)] = &Chain{Rules: []Rule{{Matches: []Match{{Kind: MatchDead}}, Action: Accept}, {Matches: []Match{{Kind: MatchEstablished}}, Action: Accept}}}
	}
	return out
}

// RevisionChain is a chain that nothing leads to. Its rule says which revision of what is enforced
// the program is.
const (
	RevisionChain  = "revision"
	revisionPrefix = "revision "
)

// WithRevision returns the program with a revision.
func (p *Program) WithRevision(n uint64) *Program {
	out := *p
	out.Chains = maps.Clone(p.Chains)
	if out.Chains == nil {
		out.Chains = map[string]*Chain{}
	}
	out.Chains[RevisionChain] = &Chain{Rules: []Rule{{Action: Accept, Origin: &Origin{Kind: OriginRevision, Name: strconv.FormatUint(n, 10)}}}}
	return &out
}

// ParseRevision reads what the comment of the rule in RevisionChain says; 0 if that is nothing.
func ParseRevision(comment string) uint64 {
	text, found := strings.CutPrefix(comment, revisionPrefix)
	n, err := strconv.ParseUint(text, 10, 64)
	if !found || err != nil {
		return 0
	}
	return n
}
