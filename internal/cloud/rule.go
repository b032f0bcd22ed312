package cloud

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// Direction says which half of a flow a rule decides.
type Direction string

// The two directions, seen from the interface that holds the group.
const (
	Ingress Direction = "ingress"
	Egress  Direction = "egress"
)

// IP protocol numbers (IANA) that have a meaning of their own in rules. Any other number 0..255 is
// legal too.
const (
	AnyProtocol = -1
	ICMP        = 1
	TCP         = 6
	UDP         = 17
	ICMPv6      = 58
	SCTP        = 132
)

// Rule is one allow rule of a security group: one protocol, one range, one peer, as clouds count
// them.
type Rule struct {
	// ID is the cloud's name for the rule ("sgr-..."); empty in a rule that is only wanted. It is
	// not part of the rule's identity.
	ID        string
	Direction Direction
	Match     Match
	Peer      Peer
	// Description is shown in the cloud's console; it is not part of the rule's identity.
	Description string
}

// Match is what a rule matches besides the peer, canonical: see NewMatch.
type Match struct {
	// Protocol is AnyProtocol or an IP protocol number 0..255.
	Protocol int
	// From and To are the inclusive port range for TCP and UDP (0..65535), and the type and code
	// for ICMP and ICMPv6 (-1 means all; a type of -1 forces a code of -1). For every other
	// protocol both are -1.
	From, To int
}

// Peer is the other end of a rule. Exactly one of CIDR, GroupID, GroupName and PrefixListID is set.
type Peer struct {
	CIDR netip.Prefix
	// GroupID is a security group that exists. GroupName represents a group of this plan that is
	// still to be created in the same network; the executor replaces it by the ID.
	GroupID   string
	GroupName string
	// GroupOwner is the cloud account of GroupID if it is not the snapshot's own (reference over a
	// peering); else empty.
	GroupOwner   string
	PrefixListID string
	// Except are addresses that the rule leaves out of the prefix list, whether or not it holds
	// them. Only clouds with Limits.Excepts can say so.
	Except Blocks
}

// Blocks is a list of prefixes as one comparable value: sorted, masked, joined by commas. Equal
// sets are equal values only if both were written from the shortest list of prefixes.
type Blocks string

// BlocksOf writes a list of prefixes.
func BlocksOf(prefixes []netip.Prefix) Blocks {
	texts := make([]string, 0, len(prefixes))
	for _, p := range slices.SortedFunc(slices.Values(prefixes), func(a, b netip.Prefix) int {
		return cmp.Or(a.Addr().Compare(b.Addr()), cmp.Compare(a.Bits(), b.Bits()))
	}) {
		texts = append(texts, p.Masked().String())
	}
	return Blocks(strings.Join(texts, ","))
}

// Prefixes are those that BlocksOf was given. What is no prefix is left out.
func (b Blocks) Prefixes() []netip.Prefix {
	var out []netip.Prefix
	for text := range strings.SplitSeq(string(b), ",") {
		if p, err := netip.ParsePrefix(text); err == nil {
			out = append(out, p)
		}
	}
	return out
}

// Contains reports whether an address lies in one of the blocks.
func (b Blocks) Contains(a netip.Addr) bool {
	return slices.ContainsFunc(b.Prefixes(), func(p netip.Prefix) bool { return p.Contains(a) })
}

// NewMatch returns the canonical form: ports are dropped where the cloud ignores them, so that
// equal rules compare equal after a round trip through the cloud.
func NewMatch(protocol, from, to int) Match {
	switch protocol {
	case TCP, UDP:
		return Match{protocol, from, to}
	case ICMP, ICMPv6:
		if from < 0 {
			return Match{protocol, -1, -1}
		}
		return Match{protocol, from, max(to, -1)}
	default:
		return Match{protocol, -1, -1}
	}
}

// Same reports whether two rules are the same rule to the cloud: direction, match and peer.
func (r Rule) Same(o Rule) bool { return r.Compare(o) == 0 }

// CanBecome reports whether OpReplaceRules can turn the rule into another one: direction and kind
// of peer stay.
func (r Rule) CanBecome(o Rule) bool {
	return r.Direction == o.Direction && r.Peer.CIDR.Addr().BitLen() == o.Peer.CIDR.Addr().BitLen() &&
		(r.Peer.PrefixListID == "") == (o.Peer.PrefixListID == "")
}

// Key returns the rule without ID and description: usable as a map key, equal exactly if Same.
func (r Rule) Key() Rule {
	r.ID, r.Description = "", ""
	return r
}

// Rules are rules of one group, or wanted for one.
type Rules []Rule

// Minus returns the rules that are not among others, whatever their descriptions say. The order
// stays.
func (r Rules) Minus(others []Rule) Rules {
	there := make(map[Rule]bool, len(others))
	for _, o := range others {
		there[o.Key()] = true
	}
	var out Rules
	for _, o := range r {
		if !there[o.Key()] {
			out = append(out, o)
		}
	}
	return out
}

// Sorted returns the rules in the order of Compare. It does not change r.
func (r Rules) Sorted() Rules { return slices.SortedFunc(slices.Values(r), Rule.Compare) }

// RuleKeys returns the keys of rules, sorted, each once.
func RuleKeys(rules []Rule) []Rule {
	out := make([]Rule, len(rules))
	for i, r := range rules {
		out[i] = r.Key()
	}
	slices.SortFunc(out, Rule.Compare)
	return slices.Compact(out)
}

// Compare orders rules by direction, match and peer.
func (r Rule) Compare(o Rule) int {
	if r.Direction != o.Direction {
		return cmp.Compare(r.Direction, o.Direction)
	}
	if r.Match != o.Match {
		return cmp.Or(
			cmp.Compare(r.Match.Protocol, o.Match.Protocol),
			cmp.Compare(r.Match.From, o.Match.From),
			cmp.Compare(r.Match.To, o.Match.To),
		)
	}
	return r.Peer.Compare(o.Peer)
}

// Compare orders peers: CIDRs, then groups, then prefix lists.
func (p Peer) Compare(o Peer) int {
	if p == o { // as rules of one list mostly are
		return 0
	}
	return cmp.Or(
		p.CIDR.Addr().Compare(o.CIDR.Addr()),
		cmp.Compare(p.CIDR.Bits(), o.CIDR.Bits()),
		cmp.Compare(p.GroupID, o.GroupID),
		cmp.Compare(p.GroupName, o.GroupName),
		cmp.Compare(p.GroupOwner, o.GroupOwner),
		cmp.Compare(p.PrefixListID, o.PrefixListID),
		cmp.Compare(p.Except, o.Except),
	)
}

func (p Peer) String() string {
	switch {
	case p.CIDR.IsValid():
		return p.CIDR.String()
	case p.GroupID != "":
		return p.GroupID
	case p.GroupName != "":
		return "group " + p.GroupName
	case p.Except != "":
		return p.PrefixListID + " except " + strings.ReplaceAll(string(p.Except), ",", ", ")
	default:
		return p.PrefixListID
	}
}

func (m Match) String() string {
	name := ProtocolName(m.Protocol)
	switch {
	case m.Protocol == TCP || m.Protocol == UDP:
		if m.From == m.To {
			return fmt.Sprintf("%s %d", name, m.From)
		}
		return fmt.Sprintf("%s %d-%d", name, m.From, m.To)
	case (m.Protocol == ICMP || m.Protocol == ICMPv6) && m.From >= 0:
		if m.To < 0 {
			return fmt.Sprintf("%s type %d", name, m.From)
		}
		return fmt.Sprintf("%s type %d code %d", name, m.From, m.To)
	}
	return name
}

func (r Rule) String() string {
	toFrom := "from"
	if r.Direction == Egress {
		toFrom = "to"
	}
	return strings.Join([]string{string(r.Direction), r.Match.String(), toFrom, r.Peer.String()}, " ")
}
