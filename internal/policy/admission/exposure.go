package admission

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"strings"

	"github.com/nephele-io/nephele/internal/policy"
)

// Door is a way by which people get at machines.
type Door struct {
	// Name is how a sentence calls it.
	Name string
	// Port is that of TCP.
	Port int32
}

// Doors are the ways by which people get at machines.
func Doors() []Door { return []Door{{"ssh (tcp 22)", 22}, {"remote desktop (tcp 3389)", 3389}} }

// OpensManagement returns the rules of an Antrea policy by which anybody in the Internet gets at
// machines: each lets ssh or remote desktop in from more of it than anybody administers from.
func OpensManagement(p *policy.Policy) []policy.FieldError { return exposed(p, true) }

// OpensToInternet returns the rules by which anybody in the Internet reaches VMs in another way. Of
// rules for Pods nothing is said: what is reachable of these is the affair of their Services.
func OpensToInternet(p *policy.Policy) []policy.FieldError { return exposed(p, false) }

func exposed(p *policy.Policy, management bool) []policy.FieldError {
	c := &checker{}
	for i := range p.Ingress {
		r := &p.Ingress[i]
		if r.Action != policy.Allow || r.NoPeers || !fromInternet(r) {
			continue
		}
		machines := slices.ContainsFunc(p.AppliedTo, isMachine) || slices.ContainsFunc(r.AppliedTo, isMachine)
		doors, other := doorsOf(r)
		all := len(r.Ports)+len(r.Protocols) == 0
		path := at("spec.ingress", i)
		switch {
		case management && len(doors) > 0 && (machines || !all):
			c.given(path, strings.Join(doors, " and ")+" from anywhere in the Internet", "the blocks of the administrators of the machines")
		case !management && other && machines:
			c.given(path, "an Allow rule for the whole Internet", "blocks or groups of the clients that need it, unless it is meant for everybody")
		}
	}
	return c.errs
}

// isMachine tells the entries of appliedTo that are about machines, and not about Pods.
func isMachine(a policy.AppliedTo) bool {
	return a.ExternalEntitySelector != nil || a.NodeSelector != nil
}

// doorsOf returns the doors that a rule opens, and whether it opens anything else.
func doorsOf(r *policy.Rule) (doors []string, other bool) {
	other = len(r.Protocols) > 0 || len(r.Ports) == 0
	for _, d := range Doors() {
		in := func(p policy.Port) bool {
			switch {
			case p.Protocol != "" && p.Protocol != policy.TCP:
				return false
			case p.Port == nil:
				return true
			case p.Port.Name != "":
				return false
			case p.EndPort != nil:
				return p.Port.Number <= d.Port && d.Port <= *p.EndPort
			}
			return p.Port.Number == d.Port
		}
		if len(r.Ports)+len(r.Protocols) == 0 || slices.ContainsFunc(r.Ports, in) {
			doors = append(doors, d.Name)
		}
	}
	for _, p := range r.Ports {
		single := p.Port != nil && p.Port.Name == "" && (p.EndPort == nil || *p.EndPort == p.Port.Number) && (p.Protocol == "" || p.Protocol == policy.TCP)
		if !single || !slices.ContainsFunc(Doors(), func(d Door) bool { return d.Port == p.Port.Number }) {
			other = true
		}
	}
	return doors, other
}

// fromInternet reports whether the peers of a rule hold much of the Internet.
func fromInternet(r *policy.Rule) bool {
	if len(r.Peers) == 0 {
		return true
	}
	four, six := blocksOf(r.Peers)
	return Wide(four) || Wide(six)
}

// OneFamily returns the Drop and Reject rules of a policy that are about all of one family of
// addresses, or nearly, and leave the other alone: IPv6 passes where somebody has closed IPv4.
func OneFamily(p *policy.Policy) []policy.FieldError {
	c := &checker{}
	for side, rules := range map[string][]policy.Rule{"spec.ingress": p.Ingress, "spec.egress": p.Egress} {
		rules = rules[:min(len(rules), mostCompared)]
		pairs := &comparison{mostPairs}
		for i := range rules {
			of, other, block := families(&rules[i])
			if of == "" || slices.ContainsFunc(rules, func(o policy.Rule) bool { return pairs.closesAsWell(&o, &rules[i], other) }) {
				continue
			}
			if pairs.left < 0 {
				break
			}
			c.given(at(side, i), fmt.Sprintf("a %s rule for %s alone", rules[i].Action, of),
				fmt.Sprintf("the block %s in it as well, or in a rule of its own: %s passes", block, other))
		}
	}
	slices.SortFunc(c.errs, func(a, b policy.FieldError) int { return cmp.Compare(a.Field, b.Field) })
	return c.errs
}

const ipv4, ipv6 = "IPv4", "IPv6"

// families tells the family that a rule closes alone, and the one that it forgets with the block of
// all of it; nothing if it does not close one of them.
func families(r *policy.Rule) (of, other, block string) {
	if r.Action != policy.Drop && r.Action != policy.Reject || len(r.Peers) == 0 || slices.ContainsFunc(r.Peers, func(x policy.Peer) bool { return x.Group != "" }) {
		return "", "", ""
	}
	four, six := blocksOf(r.Peers)
	switch {
	case Wide(four) && len(six) == 0:
		return ipv4, ipv6, "::/0"
	case Wide(six) && len(four) == 0:
		return ipv6, ipv4, "0.0.0.0/0"
	}
	return "", "", ""
}

// closesAsWell reports whether another rule closes what a rule forgets, or may.
func (c *comparison) closesAsWell(o, r *policy.Rule, family string) bool {
	if o.Action != policy.Drop && o.Action != policy.Reject || !reflect.DeepEqual(o.AppliedTo, r.AppliedTo) || !c.trafficTakesAll(o, r) {
		return false
	}
	if len(o.Peers) == 0 || slices.ContainsFunc(o.Peers, func(x policy.Peer) bool { return x.Group != "" }) {
		return true
	}
	four, six := blocksOf(o.Peers)
	if family == ipv4 {
		return len(four) > 0
	}
	return len(six) > 0
}

// span is a range of addresses by their first 32 bits, the end not included.
type span struct{ from, to uint64 }

// special are the addresses of IPv4 that nobody in the Internet has.
func special() []span {
	var out []span
	for _, text := range []string{"0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.168.0.0/16", "198.18.0.0/15", "224.0.0.0/3"} {
		out = append(out, spanOf(netip.MustParsePrefix(text)))
	}
	return out
}

// global6 are the addresses of IPv6 that hosts in the Internet have.
func global6() span { return spanOf(netip.MustParsePrefix("2000::/3")) }

func spanOf(p netip.Prefix) span {
	raw := p.Masked().Addr().AsSlice()
	from := uint64(binary.BigEndian.Uint32(raw[:4]))
	return span{from, from + 1<<max(0, 32-p.Bits())}
}

// wide is how many parts of 2^32 of the space of a family make much of the Internet: as many as a
// block /8 of IPv4 has.
const wide = 1 << 24

// Block is a range of addresses without some of them.
type Block struct {
	Prefix netip.Prefix
	Except []netip.Prefix
}

// Wide reports whether blocks of one family hold much of the Internet: public addresses as many as
// a block /8 of IPv4, or the like of IPv6. What is written in many pieces is as wide as in one.
func Wide(blocks []Block) bool {
	var all []span
	for _, b := range blocks {
		left := []span{spanOf(b.Prefix)}
		holes := special()
		if b.Prefix.Addr().Is6() {
			g := global6()
			holes = []span{{0, g.from}, {g.to, 1 << 32}}
		}
		for _, e := range b.Except {
			// Below 32 bits an exception takes away too little to count.
			if e.Bits() <= 32 && e.Addr().Is4() == b.Prefix.Addr().Is4() {
				holes = append(holes, spanOf(e))
			}
		}
		for _, h := range holes {
			left = minus(left, h)
		}
		all = append(all, left...)
	}
	slices.SortFunc(all, func(a, b span) int { return cmp.Compare(a.from, b.from) })
	var sum, end uint64
	for _, s := range all {
		if s.to > end {
			sum += s.to - max(s.from, end)
			end = s.to
		}
	}
	return sum >= wide
}

func minus(in []span, hole span) []span {
	var out []span
	for _, s := range in {
		for _, rest := range []span{{s.from, min(s.to, hole.from)}, {max(s.from, hole.to), s.to}} {
			if rest.from < rest.to {
				out = append(out, rest)
			}
		}
	}
	return out
}

// blocksOf returns the blocks of peers by family. What is no block is left out.
func blocksOf(peers []policy.Peer) (four, six []Block) {
	add := func(cidr string, except []string) {
		prefix, err := netip.ParsePrefix(cidr)
		if err != nil {
			return
		}
		b := Block{Prefix: prefix}
		for _, text := range except {
			if e, err := netip.ParsePrefix(text); err == nil {
				b.Except = append(b.Except, e)
			}
		}
		if prefix.Addr().Is4() {
			four = append(four, b)
		} else {
			six = append(six, b)
		}
	}
	for i := range peers {
		if b := peers[i].IPBlock; b != nil {
			add(b.CIDR, b.Except)
		}
		for _, network := range peers[i].Networks {
			add(network, nil)
		}
	}
	return four, six
}
