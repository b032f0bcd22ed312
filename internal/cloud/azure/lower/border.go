package lower

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/nephele-io/nephele/internal/cloud"
)

// Border is what a network security group does at the border of a subnet, as entries that are asked
// in order, the default rules among them. Of the place the network and the members of groups count:
// which addresses of the subnet a rule is about stands in the entries. What a rule says that no one
// knows here (addresses of a service, source ports, a word that is new) makes its entries unsure.
func Border(all []Document, at Place) []cloud.ACLEntry {
	n := newNative(at)
	var out []cloud.ACLEntry
	for _, d := range []cloud.Direction{cloud.Ingress, cloud.Egress} {
		written := ordered(all, d)
		for i, r := range slices.Concat(written, defaults(d)) {
			if r.priority == 0 { // default rules are the last ones
				r.priority = firstDefault + i
			}
			known := r
			switch {
			case !n.parted(r.peer):
			case strings.EqualFold(r.peer.tag, tagNetwork):
				known.peer = side{prefixes: n.network.Prefixes()}
				out = append(out, n.entries(&known)...) // and then what may be of it, too
			case r.allow && !n.denied(written[min(i, len(written)):]):
				// What of this is of the network in truth, the default rule lets through all the
				// same.
				r.peer = side{prefixes: n.internet.Prefixes()}
			}
			out = append(out, n.entries(&r)...)
		}
	}
	return out
}

// denied reports whether one of some rules may deny what one of the tags VirtualNetwork and
// Internet means.
func (n *native) denied(rules []parsed) bool {
	return slices.ContainsFunc(rules, func(r parsed) bool {
		peers, _ := n.addresses(r.peer)
		return !r.allow && (r.bad || n.parted(r.peer) || peers.Overlaps(n.internet))
	})
}

// firstDefault is the first priority of the default rules.
const firstDefault = 65000

func (n *native) entries(r *parsed) []cloud.ACLEntry {
	base := cloud.ACLEntry{Number: r.priority, Name: cloud.Words(r.name), Egress: r.direction == cloud.Egress, Allow: r.allow, From: -1, To: -1}
	if r.bad {
		base.Protocol, base.Unsure = cloud.AnyProtocol, true
		return []cloud.ACLEntry{base}
	}
	var known [2]bool
	base.Peers, known[0] = n.blocks(r.peer)
	base.Own, known[1] = n.blocks(r.own)
	base.Unsure = !known[0] || !known[1] || !r.sources.all
	var out []cloud.ACLEntry
	add := func(protocol, from, to int, unsure bool) {
		e := base
		e.Protocol, e.From, e.To, e.Unsure = protocol, from, to, e.Unsure || unsure
		out = append(out, e)
	}
	for _, p := range r.protocols {
		switch {
		case p == cloud.AnyProtocol && !r.ports.all:
			for _, x := range r.ports.ranges {
				add(cloud.TCP, x[0], x[1], false)
				add(cloud.UDP, x[0], x[1], false)
			}
			for _, q := range []int{cloud.ICMP, cloud.ICMPv6, protocolESP, protocolAH} {
				add(q, -1, -1, true) // ports of any protocol do not tell what they mean for those without
			}
		case (p == cloud.TCP || p == cloud.UDP) && !r.ports.all:
			for _, x := range r.ports.ranges {
				add(p, x[0], x[1], false)
			}
		case p == cloud.TCP || p == cloud.UDP:
			add(p, 0, 0xffff, false)
		default:
			add(p, -1, -1, false)
		}
	}
	return out
}

// blocks are the addresses of a side, nil for all; false if they are not known.
func (n *native) blocks(s side) ([]netip.Prefix, bool) {
	if s.any {
		return nil, true
	}
	set, known := n.addresses(s)
	if !known {
		return nil, false
	}
	return append([]netip.Prefix{}, set.Prefixes()...), true // empty is not nil: no one, not everybody
}
