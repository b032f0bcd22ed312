package lower

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/nephele-io/nephele/internal/cloud"
	awslower "github.com/nephele-io/nephele/internal/cloud/aws/lower"
	"github.com/nephele-io/nephele/internal/cloud/plan/addrset"
	"github.com/nephele-io/nephele/internal/cloud/plan/flow"
)

// Place is where an interface stands: what the words of rules mean there.
type Place struct {
	// Own are the private addresses of the interface, Groups the keys of its application security
	// groups.
	Own    []netip.Addr
	Groups []string
	// Network is what is known of what the tag VirtualNetwork means: the addresses of the network
	// and of those that it is connected with, the prefixes of routes, and the address of the host.
	// Learned is set if it may mean more, because of routes that gateways learn.
	Network []netip.Prefix
	Learned bool
	// Members are the addresses of the members of an application security group, by its key.
	Members func(group string) []netip.Addr
}

// Native says what a network security group allows one interface, in both directions: the ordered
// rules with their denies, and the default rules, as one list of what is allowed. unread names what
// could not be said; all that it may concern is left out.
//
// A tag of a service stays what it is, because nobody knows its addresses. Application security
// groups are spelled out as the addresses of their members: they are memberships that we never
// change.
func Native(all []Document, at Place) (rules []cloud.Rule, unread []string) {
	n := newNative(at)
	traffic := flow.Traffic{}
	for _, d := range []cloud.Direction{cloud.Ingress, cloud.Egress} {
		cells := n.cells(slices.Concat(ordered(all, d), defaults(d)))
		if d == cloud.Ingress {
			traffic.Ingress = cells
		} else {
			traffic.Egress = cells
		}
	}
	slices.Sort(n.unread)
	return expressible(awslower.AWS{}.Lower(traffic)), slices.Compact(n.unread)
}

// Open is what an interface without any network security group allows: everything. With an address
// or a load balancer of the Standard kind, the platform keeps out what does not come from the
// network.
func Open(at Place, closedToInternet bool) []cloud.Rule {
	var out []cloud.Rule
	for _, d := range []cloud.Direction{cloud.Ingress, cloud.Egress} {
		set := addrset.All()
		if closedToInternet && d == cloud.Ingress {
			set = addrset.OfPrefixes(append(slices.Clone(at.Network), PlatformAddress)...)
		}
		for _, p := range set.Prefixes() {
			out = append(out, cloud.Rule{Direction: d, Match: cloud.NewMatch(cloud.AnyProtocol, -1, -1), Peer: cloud.Peer{CIDR: p}})
		}
	}
	slices.SortFunc(out, cloud.Rule.Compare)
	return out
}

type native struct {
	at Place
	// network is what is known of the tag VirtualNetwork, and internet what the tag Internet means
	// if that is all: a default route to an appliance makes the former mean every address, and it
	// is documented nowhere that the latter means none then.
	network, internet addrset.Set
	unread            []string
}

func newNative(at Place) *native {
	inner := slices.DeleteFunc(slices.Clone(at.Network), func(p netip.Prefix) bool { return p.Bits() == 0 })
	return &native{
		at: at, network: addrset.OfPrefixes(at.Network...), internet: addrset.All().Minus(addrset.OfPrefixes(append(inner, PlatformAddress)...)),
	}
}

// parted reports whether a side is one of the tags VirtualNetwork and Internet whose border is not
// known. Together they are all addresses.
func (n *native) parted(s side) bool {
	return n.at.Learned && !s.any && (strings.EqualFold(s.tag, tagNetwork) || strings.EqualFold(s.tag, tagInternet))
}

// partedNames are the names under which rules keep these tags.
var partedNames = map[string]string{tagNetwork: "VirtualNetwork", tagInternet: "Internet"}

// cells is what ordered rules allow, service by service.
func (n *native) cells(rules []parsed) []flow.Cell {
	var services []flow.Service
	for i := range rules {
		services = append(services, rules[i].services()...)
	}
	var permit flow.Permit
	for _, s := range flow.Partition(services) {
		permit.Grants = append(permit.Grants, n.grant(rules, s))
	}
	permit = permit.CollapseTypes().CollapseProtocols()
	var out []flow.Cell
	for _, g := range permit.Grants {
		out = append(out, flow.Cell{Service: g.Service, Addrs: g.All, Groups: g.Opaque})
	}
	return out
}

// services are what a rule is about, without regard to addresses; everything, if it cannot be read.
func (r parsed) services() []flow.Service {
	if r.bad {
		return []flow.Service{flow.Any()}
	}
	var out []flow.Service
	for _, p := range r.protocols {
		switch {
		case p == cloud.AnyProtocol && !r.ports.all:
			// Ports of every protocol: of those that have some.
			for _, q := range []int{cloud.TCP, cloud.UDP} {
				out = append(out, r.ranges(q)...)
			}
		case p == cloud.AnyProtocol:
			out = append(out, flow.Any())
		case p == cloud.TCP, p == cloud.UDP:
			out = append(out, r.ranges(p)...)
		default: // ports are not looked at
			out = append(out, flow.Whole(p))
		}
	}
	return out
}

func (r parsed) ranges(protocol int) []flow.Service {
	if r.ports.all {
		return []flow.Service{flow.Whole(protocol)}
	}
	var out []flow.Service
	for _, x := range r.ports.ranges {
		out = append(out, flow.Service{Protocol: protocol, From: uint16(x[0]), To: uint16(x[1])}) //nolint:gosec // checked when they were read
	}
	return out
}

// grant is what the rules allow of a service that each of them matches wholly or not at all.
func (n *native) grant(rules []parsed, s flow.Service) flow.Grant {
	left, denied := flow.Family(s.Protocol), addrset.Set{}
	out := flow.Grant{Service: s}
	decided := map[string]bool{} // of the two tags that are parted, which one a rule has decided, and how
	for i := range rules {
		r := &rules[i]
		if !slices.ContainsFunc(r.services(), func(o flow.Service) bool { return o.Covers(s) }) {
			// Ports of any protocol do not tell what they mean for those without ports.
			if r.bad || !n.portsOfAny(r, s) {
				continue
			}
		}
		own, ownKnown := n.ownFamily(r.own)
		if ownKnown && own.Empty() {
			continue
		}
		peers, peersKnown := n.addresses(r.peer)
		exact := !r.bad && ownKnown && r.sources.all && !n.portsOfAny(r, s)
		peers = peers.Intersect(own)
		whole := flow.Family(s.Protocol).Within(own)
		if n.parted(r.peer) && exact {
			// What it says of a family of which the interface has no address, no packet meets.
			mine := n.families().Intersect(flow.Family(s.Protocol))
			if !own.Overlaps(mine) {
				continue
			}
			if mine.Within(own) {
				left, denied = n.partedGrant(&out, strings.ToLower(r.peer.tag), r.allow, decided, left, denied)
				continue
			}
		}
		if open, some := n.undecided(decided); some && r.allow && peers.Intersect(left).Overlaps(open) {
			n.note(r, left) // which of these a Deny of a tag has taken away is not known
			peers = peers.Minus(open)
		}
		switch {
		case exact && peersKnown && r.allow:
			out.All = out.All.Union(peers.Intersect(left))
			left = left.Minus(peers)
		case exact && peersKnown:
			denied = denied.Union(peers.Intersect(left))
			left = left.Minus(peers)
		case exact && r.allow && r.peer.tag != "" && whole:
			if !flow.Family(s.Protocol).Within(denied) {
				out.Opaque = append(out.Opaque, flow.Except(cloud.Peer{PrefixListID: r.peer.tag}, denied))
			}
		case r.allow:
			// What it allows is left out. Later rules may allow it or not; that it is allowed is
			// certain, so nothing is taken away.
			n.note(r, left)
		default:
			// It may take away anything it may be about.
			if !peersKnown || r.bad {
				peers = addrset.All()
			}
			if !left.Intersect(peers).Empty() {
				n.note(r, left)
			}
			denied = denied.Union(peers.Intersect(left))
			left = left.Minus(peers)
		}
		if left.Empty() {
			break
		}
	}
	if flow.Family(s.Protocol).Within(out.All) { // both tags together are all addresses
		out.Opaque = slices.DeleteFunc(out.Opaque, func(p cloud.Peer) bool {
			return p.PrefixListID == partedNames[tagNetwork] || p.PrefixListID == partedNames[tagInternet]
		})
	}
	out.Opaque = flow.Opaques(out.Opaque)
	return out
}

// families are all addresses of the families that the interface has addresses of.
func (n *native) families() addrset.Set {
	own, out := addrset.Of(n.at.Own...), addrset.Set{}
	for _, family := range []addrset.Set{addrset.AllIPv4(), addrset.AllIPv6()} {
		if own.Overlaps(family) {
			out = out.Union(family)
		}
	}
	return out
}

// partedGrant takes a rule about one of two tags into account of which nobody knows where the one
// ends. What is known is allowed by address, and the tag itself is kept for the rest; once both are
// allowed, everything is.
func (n *native) partedGrant(out *flow.Grant, tag string, allow bool, decided map[string]bool, left, denied addrset.Set) (addrset.Set, addrset.Set) {
	if _, before := decided[tag]; before {
		return left, denied // an earlier rule has decided about all of it
	}
	decided[tag] = allow
	known := n.network
	if tag == tagInternet {
		known = addrset.Set{}
		if decided[tagNetwork] {
			known = n.internet
		}
	} else if decided[tagInternet] {
		known = known.Union(n.internet)
	}
	known = known.Intersect(left)
	if !allow {
		if tag == tagInternet {
			known = addrset.Set{}
		}
		return left.Minus(known), denied.Union(known)
	}
	out.All = out.All.Union(known)
	if family := flow.Family(out.Service.Protocol); !family.Within(denied) {
		out.Opaque = append(out.Opaque, flow.Except(cloud.Peer{PrefixListID: partedNames[tag]}, denied))
	}
	return left.Minus(known), denied
}

// undecided are the addresses of which it is not known whether a Deny of one of the parted tags has
// taken them away; false if there was none.
func (n *native) undecided(decided map[string]bool) (addrset.Set, bool) {
	for _, allow := range decided {
		if !allow {
			return n.internet.Minus(n.network), true
		}
	}
	return addrset.Set{}, false
}

// portsOfAny reports whether a rule has ports and is about every protocol, and the service is of
// one without ports.
func (n *native) portsOfAny(r *parsed, s flow.Service) bool {
	return !r.bad && r.protocols[0] == cloud.AnyProtocol && !r.ports.all && s.Protocol != cloud.TCP && s.Protocol != cloud.UDP
}

func (n *native) note(r *parsed, left addrset.Set) {
	if left.Empty() {
		return
	}
	why := "its addresses are not known"
	switch {
	case r.bad:
		why = "it is not understood"
	case !r.sources.all:
		why = "it tells source ports apart"
	case r.protocols[0] == cloud.AnyProtocol && !r.ports.all:
		why = "it has ports and is about every protocol"
	}
	n.unread = append(n.unread, fmt.Sprintf("rule %s: %s", cloud.Words(r.name), why))
}

// addresses are those that a side means; false if that is not known.
func (n *native) addresses(s side) (addrset.Set, bool) {
	host := addrset.OfPrefixes(PlatformAddress)
	switch {
	case s.any:
		return addrset.All(), true
	case len(s.groups) > 0:
		var all []netip.Addr
		for _, g := range s.groups {
			all = append(all, n.at.Members(g)...)
		}
		return addrset.Of(all...), true
	case strings.EqualFold(s.tag, tagNetwork):
		return n.network, !n.at.Learned
	case strings.EqualFold(s.tag, tagInternet):
		return n.internet, !n.at.Learned
	case strings.EqualFold(s.tag, tagBalancer):
		return host, true
	case s.tag != "":
		return addrset.All(), false
	}
	return addrset.OfPrefixes(s.prefixes...), true
}

// ownFamily says for which family of addresses a side means the interface itself, as all addresses
// of that family; false if it means a part of its addresses, or that is not known.
func (n *native) ownFamily(s side) (addrset.Set, bool) {
	if s.any {
		return addrset.All(), true
	}
	if len(s.groups) > 0 {
		if slices.ContainsFunc(s.groups, func(g string) bool { return slices.Contains(n.at.Groups, g) }) {
			return addrset.All(), true
		}
		return addrset.Set{}, true
	}
	set, known := n.addresses(s)
	if !known && !n.parted(s) { // of those the addresses of the network itself are known
		return addrset.All(), false
	}
	own, out := addrset.Of(n.at.Own...), addrset.Set{}
	for _, family := range []addrset.Set{addrset.AllIPv4(), addrset.AllIPv6()} {
		mine := own.Intersect(family)
		switch {
		case mine.Within(set):
			out = out.Union(family)
		case mine.Overlaps(set):
			return addrset.All(), false
		}
	}
	return out, true
}

// expressible leaves out rules for protocols that Azure has no word for, and of what is left out of
// a tag the addresses that packets of the rule cannot have.
func expressible(rules []cloud.Rule) []cloud.Rule {
	for i := range rules {
		if p := &rules[i].Peer; p.Except != "" {
			p.Except = cloud.BlocksOf(flow.Excepted(*p).Intersect(flow.Family(rules[i].Match.Protocol)).Prefixes())
		}
	}
	slices.SortFunc(rules, cloud.Rule.Compare)
	rules = slices.CompactFunc(rules, cloud.Rule.Same)
	return slices.DeleteFunc(rules, func(r cloud.Rule) bool { return !Holds(r.Match) })
}

// Holds reports whether a rule of a network security group can have this match.
func Holds(m cloud.Match) bool {
	switch m.Protocol {
	case cloud.AnyProtocol, cloud.TCP, cloud.UDP, protocolESP, protocolAH:
		return true
	case cloud.ICMP, cloud.ICMPv6:
		return m.From < 0
	}
	return false
}

// TellsOwnAddresses reports whether what the rules mean to an interface depends on the addresses
// that it has itself.
func TellsOwnAddresses(all []Document) bool {
	return slices.ContainsFunc(all, func(d Document) bool {
		own := parse(d).own
		return !own.any && len(own.groups) == 0
	})
}
