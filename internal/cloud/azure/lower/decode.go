package lower

import (
	"fmt"
	"slices"
	"strings"

	"github.com/nephele-io/nephele/internal/cloud"
)

// foreignRule begins the name of a peer for a rule in a group of ours that we would not have
// written.
const foreignRule = "rule "

// Foreign reports whether a rule of Decode is one that others have put into the group, or is in
// place of one of ours that is gone.
func Foreign(r cloud.Rule) bool { return strings.HasPrefix(r.Peer.PrefixListID, foreignRule) }

// Decode reads the rules of a group of ours. A rule that Encode would not write becomes a rule with
// an unknown peer, so that a comparison with the wanted rules finds and removes it. Then exact is
// false.
func Decode(all []Document, group GroupID) (rules []cloud.Rule, exact bool) {
	exact = true
	mark := func(d cloud.Direction, what string) {
		exact = false
		rules = append(rules, cloud.Rule{Direction: d, Match: cloud.NewMatch(cloud.AnyProtocol, -1, -1), Peer: cloud.Peer{PrefixListID: foreignRule + cloud.Words(what)}})
	}
	for _, d := range []cloud.Direction{cloud.Ingress, cloud.Egress} {
		end := map[string]bool{}
		var pairs excepting
		foreign := func(names ...string) {
			for _, name := range names {
				mark(d, name)
			}
		}
		in := ordered(all, d)
		for i, r := range in {
			switch {
			case slices.ContainsFunc(last(d), func(l Document) bool { return sameRule(parse(l), r) }):
				end[r.name] = true
				continue
			case isProbes(r) && i+1 < len(in) && !in[i+1].allow:
				continue // what is denied next may have the address of the probes
			case !r.allow:
				foreign(pairs.deny(r)...)
				continue
			}
			except, others := pairs.allow(r)
			foreign(others...)
			list, known := r.expand(group, except)
			if !known {
				mark(d, r.name)
				continue
			}
			exact = exact && len(r.peer.groups) < 2 // as it was written once: see split
			rules = append(rules, list...)
		}
		foreign(pairs.end()...)
		for _, l := range last(d) {
			if !end[l.Name] {
				mark(d, fmt.Sprintf("%s is missing", l.Name))
			}
		}
	}
	slices.SortFunc(rules, cloud.Rule.Compare)
	if n := len(rules); n != len(slices.CompactFunc(rules, cloud.Rule.Same)) {
		exact = false
		rules = slices.CompactFunc(rules, cloud.Rule.Same)
	}
	return rules, exact
}

func sameRule(a, b parsed) bool {
	return a.name == b.name && a.priority == b.priority && a.allow == b.allow && slices.Equal(a.protocols, b.protocols) && a.sources.all && b.sources.all &&
		a.ports.all && b.ports.all && a.own.any && b.own.any && a.peer.any == b.peer.any && strings.EqualFold(a.peer.tag, b.peer.tag) && !b.bad
}

// expand is an Allow rule as the port has it, less what is left out of its tag, one for each peer
// and range; false if it has none of that form.
func (r parsed) expand(group GroupID, except cloud.Blocks) ([]cloud.Rule, bool) {
	if r.bad || !r.allow || !r.sources.all {
		return nil, false
	}
	family, whole := r.own.family()
	if !whole {
		return nil, false
	}
	var peers []cloud.Peer
	switch {
	case r.peer.any:
		return nil, false // of ours, everything is written as two blocks
	case r.peer.tag != "":
		peers = []cloud.Peer{{PrefixListID: r.peer.tag, Except: except}}
	case len(r.peer.groups) > 0:
		for _, id := range r.peer.groups {
			g := group(id)
			if g == "" {
				return nil, false
			}
			peers = append(peers, cloud.Peer{GroupID: g})
		}
	default:
		for _, p := range r.peer.prefixes {
			peers = append(peers, cloud.Peer{CIDR: p})
		}
	}
	var out []cloud.Rule
	for _, p := range peers {
		matches, known := r.matches(p, family)
		if !known {
			return nil, false
		}
		for _, m := range matches {
			out = append(out, cloud.Rule{Direction: r.direction, Match: m, Peer: p, Description: r.description})
		}
	}
	return out, true
}

// family is the one that a side is about, "" for both; false if it is about less.
func (s side) family() (string, bool) {
	switch {
	case s.any:
		return "", true
	case len(s.prefixes) == 1 && (s.prefixes[0].String() == everyIPv4 || s.prefixes[0].String() == everyIPv6):
		return s.prefixes[0].String(), true
	}
	return "", false
}

func (r parsed) matches(p cloud.Peer, family string) ([]cloud.Match, bool) {
	switch r.protocols[0] {
	case cloud.ICMP:
		switch {
		case p.CIDR.IsValid() && family == "" && p.CIDR.Addr().Is4(), !p.CIDR.IsValid() && family == everyIPv4:
			return []cloud.Match{cloud.NewMatch(cloud.ICMP, -1, -1)}, true
		case p.CIDR.IsValid() && family == "", !p.CIDR.IsValid() && family == everyIPv6:
			return []cloud.Match{cloud.NewMatch(cloud.ICMPv6, -1, -1)}, true
		}
		return nil, false
	case cloud.TCP, cloud.UDP:
		if r.ports.all {
			return []cloud.Match{cloud.NewMatch(r.protocols[0], 0, 0xffff)}, family == ""
		}
		var out []cloud.Match
		for _, x := range r.ports.ranges {
			out = append(out, cloud.NewMatch(r.protocols[0], x[0], x[1]))
		}
		return out, family == ""
	}
	return []cloud.Match{cloud.NewMatch(r.protocols[0], -1, -1)}, family == "" && r.ports.all
}
