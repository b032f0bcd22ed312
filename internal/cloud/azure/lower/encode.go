package lower

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/nephele-io/nephele/internal/cloud"
)

// Limits of Azure that hold for one network security group.
const (
	RulesPerGroup      = 1000
	PrefixesPerSide    = 4000
	GroupsPerRules     = 100
	longestDescription = 140
)

// The last two priorities are ours in both directions: probes of the load balancer pass, and
// nothing else. What the platform allows by default (everything from the virtual network!) comes
// after them and so never decides.
const (
	firstPriority  = 100
	probesPriority = 4095
	denyPriority   = 4096
)

// GroupID turns the id of one of our groups, by which the port knows it, into the id under which
// rules name it as a peer; empty if the group is not ours.
type GroupID func(id string) string

// Encode writes the rules of a group of ours. The result is the same for the same rules in any
// order.
func Encode(rules []cloud.Rule, peer GroupID) ([]Document, error) {
	var out []Document
	for _, d := range []cloud.Direction{cloud.Ingress, cloud.Egress} {
		part, err := encode(rules, d, peer)
		if err != nil {
			return nil, err
		}
		out = append(out, part...)
	}
	return out, nil
}

// kind is what rules must have in common to be written as one: what Azure takes once per rule.
type kind struct {
	protocol    int
	own         string // the addresses of the interface itself that it is about
	peers       peerKind
	tag         string
	except      cloud.Blocks // what is left out of the tag
	description string
}

type peerKind int

const (
	peersIPv4 peerKind = iota
	peersIPv6
	peersGroup
	peersTag
)

// Families of addresses, as prefixes.
const (
	everyIPv4 = "0.0.0.0/0"
	everyIPv6 = "::/0"
)

func kindOf(r cloud.Rule) (kind, error) {
	k := kind{protocol: r.Match.Protocol, own: star, description: Description(r.Description)}
	switch p := r.Peer; {
	case p.CIDR.IsValid() && p.CIDR.Addr().Is4():
		k.peers = peersIPv4
	case p.CIDR.IsValid() && !p.CIDR.Addr().Is4In6():
		k.peers = peersIPv6
	case p.GroupID != "":
		k.peers = peersGroup
	case p.PrefixListID != "":
		k.peers, k.tag, k.except = peersTag, p.PrefixListID, p.Except
	case p.GroupName != "":
		return k, fmt.Errorf("the group %q that the rule %q refers to has no id yet", p.GroupName, r)
	default:
		return k, fmt.Errorf("the rule %q has no peer", r)
	}
	switch m := r.Match; {
	case m != cloud.NewMatch(m.Protocol, m.From, m.To):
		return k, fmt.Errorf("match %+v is not canonical", m)
	case m.Protocol == cloud.TCP, m.Protocol == cloud.UDP:
		if m.From < 0 || m.To > 0xffff || m.From > m.To {
			return k, fmt.Errorf("%s: ports must be a range within 0-65535", m)
		}
	case m.Protocol == cloud.ICMP, m.Protocol == cloud.ICMPv6:
		if m.From >= 0 {
			return k, fmt.Errorf("%s: network security groups know no types of ICMP", m)
		}
		// One word of Azure means both; the family of the addresses tells them apart.
		family, own := peersIPv4, everyIPv4
		if m.Protocol == cloud.ICMPv6 {
			family, own = peersIPv6, everyIPv6
		}
		if k.peers == peersGroup || k.peers == peersTag {
			k.own = own
		} else if k.peers != family {
			return k, fmt.Errorf("%q: addresses of the other family", r)
		}
	case m.Protocol == cloud.AnyProtocol, m.Protocol == protocolESP, m.Protocol == protocolAH:
	default:
		return k, fmt.Errorf("%s: network security groups know TCP, UDP, ICMP, ESP and AH only", m)
	}
	return k, nil
}

// Description is a text as rules of Azure can have it.
func Description(s string) string {
	s = cloud.Words(s)
	if r := []rune(s); len(r) > longestDescription {
		s = string(r[:longestDescription-3]) + "..."
	}
	return strings.TrimSpace(s)
}

// block is one rule that is to be written: peers times ranges of ports.
type block struct {
	kind
	peers  []cloud.Peer
	ranges []cloud.Match
}

func encode(rules []cloud.Rule, d cloud.Direction, peer GroupID) ([]Document, error) {
	byKind := map[kind]map[cloud.Peer][]cloud.Match{}
	for _, r := range rules {
		if r.Direction != cloud.Ingress && r.Direction != cloud.Egress {
			return nil, fmt.Errorf("the rule %q has no direction", r)
		}
		if r.Direction != d {
			continue
		}
		k, err := kindOf(r)
		if err != nil {
			return nil, err
		}
		if k.peers == peersGroup && peer(r.Peer.GroupID) == "" {
			return nil, fmt.Errorf("the rule %q refers to a group that is not ours", r)
		}
		if byKind[k] == nil {
			byKind[k] = map[cloud.Peer][]cloud.Match{}
		}
		p := r.Peer
		p.GroupOwner = ""
		byKind[k][p] = append(byKind[k][p], r.Match)
	}
	var blocks []block
	for k, peers := range byKind {
		blocks = append(blocks, k.blocks(peers)...)
	}
	slices.SortFunc(blocks, compareBlocks)
	var out []Document
	for _, b := range blocks {
		if b.except == "" {
			out = append(out, b.document(d, firstPriority+len(out), peer))
		}
	}
	excepts, err := encodeExcepts(blocks, d, firstPriority+len(out))
	if err != nil {
		return nil, err
	}
	if out = append(out, excepts...); firstPriority+len(out) > probesPriority {
		return nil, errors.New("there are more rules than priorities")
	}
	return append(out, last(d)...), nil
}

// last are the two rules at the end of a direction.
func last(d cloud.Direction) []Document {
	rule := func(name, access, source string, priority int) Document {
		direction := inbound
		if d == cloud.Egress {
			direction = outbound
		}
		return Document{
			name,
			Properties{Protocol: star, Access: access, Direction: direction, Priority: priority, SourcePort: star, DestinationPort: star, Source: source, Destination: star},
		}
	}
	if d == cloud.Egress {
		return []Document{rule("nephele-out-deny", deny, star, denyPriority)}
	}
	return []Document{rule("nephele-in-probes", allow, "AzureLoadBalancer", probesPriority), rule("nephele-in-deny", deny, star, denyPriority)}
}

// blocks puts together the peers that have the same ranges. A rule of Azure takes no overlapping
// prefixes, and of ours one group, so one set of ranges may need several rules.
func (k kind) blocks(peers map[cloud.Peer][]cloud.Match) []block {
	bySet := map[string]*block{}
	for _, p := range sortedPeers(peers) {
		ranges := slices.Clone(peers[p])
		slices.SortFunc(ranges, func(a, b cloud.Match) int { return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.To, b.To)) })
		for _, layer := range disjointRanges(slices.Compact(ranges)) {
			key := fmt.Sprint(layer)
			if bySet[key] == nil {
				bySet[key] = &block{kind: k, ranges: layer}
			}
			bySet[key].peers = append(bySet[key].peers, p)
		}
	}
	var out []block
	for _, b := range bySet {
		for _, part := range k.split(b.peers) {
			out = append(out, block{k, part, b.ranges})
		}
	}
	return out
}

func sortedPeers(peers map[cloud.Peer][]cloud.Match) []cloud.Peer {
	var out []cloud.Peer
	for p := range peers {
		out = append(out, p)
	}
	slices.SortFunc(out, cloud.Peer.Compare)
	return out
}

// disjointRanges distributes sorted ranges over as few lists as possible, in each of which none
// overlaps another.
func disjointRanges(ranges []cloud.Match) [][]cloud.Match {
	var out [][]cloud.Match
next:
	for _, r := range ranges {
		for i := range out {
			if out[i][len(out[i])-1].To < r.From {
				out[i] = append(out[i], r)
				continue next
			}
		}
		out = append(out, []cloud.Match{r})
	}
	return out
}

// split distributes sorted peers over rules. Each group has one of its own, though a rule takes
// ten: Azure was seen to ignore a whole rule of several groups of which one had no member
// (github.com/MicrosoftDocs/azure-docs/issues/77328, confirmed by Microsoft's support in 2021; the
// documentation says nothing of it), and groups lose their last member while others are in use.
func (k kind) split(peers []cloud.Peer) [][]cloud.Peer {
	switch k.peers {
	case peersTag:
		return [][]cloud.Peer{peers}
	case peersGroup:
		return slices.Collect(slices.Chunk(peers, 1))
	}
	var out [][]cloud.Peer
next:
	for _, p := range peers { // a block sorts before those that it contains
		for i := range out {
			if !out[i][len(out[i])-1].CIDR.Overlaps(p.CIDR) {
				out[i] = append(out[i], p)
				continue next
			}
		}
		out = append(out, []cloud.Peer{p})
	}
	return out
}

func compareBlocks(a, b block) int {
	return cmp.Or(
		cmp.Compare(a.protocol, b.protocol), cmp.Compare(a.kind.peers, b.kind.peers), cmp.Compare(a.tag, b.tag), cmp.Compare(a.except, b.except),
		cmp.Compare(a.own, b.own),
		slices.CompareFunc(a.ranges, b.ranges, func(x, y cloud.Match) int { return cmp.Or(cmp.Compare(x.From, y.From), cmp.Compare(x.To, y.To)) }),
		slices.CompareFunc(a.peers, b.peers, cloud.Peer.Compare), cmp.Compare(a.description, b.description),
	)
}

func (b block) document(d cloud.Direction, priority int, peer GroupID) Document {
	p := Properties{Description: b.description, Access: allow, Priority: priority, SourcePort: star, Direction: inbound, Protocol: word(b.protocol)}
	if b.protocol == cloud.TCP || b.protocol == cloud.UDP {
		var texts []string
		for _, r := range b.ranges {
			text := strconv.Itoa(r.From)
			if r.From != r.To {
				text += "-" + strconv.Itoa(r.To)
			}
			texts = append(texts, text)
		}
		p.DestinationPort, p.DestinationPorts = single(texts)
	} else {
		p.DestinationPort = star
	}
	var one string
	var many []string
	var groups []Reference
	switch b.kind.peers {
	case peersTag:
		one = b.tag
	case peersGroup:
		for _, g := range b.peers {
			groups = append(groups, Reference{peer(g.GroupID)})
		}
	default:
		var texts []string
		for _, g := range b.peers {
			texts = append(texts, g.CIDR.String())
		}
		one, many = single(texts)
	}
	name := "nephele-in-"
	if d == cloud.Egress {
		name = "nephele-out-"
		p.Direction, p.Source = outbound, b.own
		p.Destination, p.Destinations, p.DestinationsGroups = one, many, groups
	} else {
		p.Destination = b.own
		p.Source, p.Sources, p.SourceGroups = one, many, groups
	}
	return Document{fmt.Sprintf("%s%04d", name, priority), p}
}

// single is a list as Azure wants it: one value in a member of its own.
func single(texts []string) (one string, many []string) {
	if len(texts) == 1 {
		return texts[0], nil
	}
	return "", texts
}

func word(protocol int) string {
	switch protocol {
	case cloud.TCP:
		return "Tcp"
	case cloud.UDP:
		return "Udp"
	case cloud.ICMP, cloud.ICMPv6:
		return "Icmp"
	case protocolESP:
		return "Esp"
	case protocolAH:
		return "Ah"
	}
	return star
}

// Size is what a list of rules takes of the limits of a network security group.
type Size struct {
	Rules, Sources, Destinations, Groups int
}

// SizeOf counts what was encoded.
func SizeOf(all []Document) Size {
	out := Size{Rules: len(all)}
	groups := map[string]bool{}
	count := func(one string, many []string) int {
		if _, err := netip.ParsePrefix(one); err == nil {
			return 1
		}
		return len(many)
	}
	for i := range all {
		p := &all[i].Properties
		out.Sources += count(p.Source, p.Sources)
		out.Destinations += count(p.Destination, p.Destinations)
		for _, g := range slices.Concat(p.SourceGroups, p.DestinationsGroups) {
			groups[strings.ToLower(g.ID)] = true
		}
	}
	out.Groups = len(groups)
	return out
}
