package packet

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/nephele-io/nephele/internal/sim/aws"
	"github.com/nephele-io/nephele/internal/sim/effect"
)

// Judge decides what becomes of packets, given the resources that there are. See the package
// comment for when it has to be made anew.
type Judge struct {
	private  map[vpcAddress]*aws.NetworkInterface
	blocks   map[string][]delegated // by VPC
	public   map[netip.Addr]*aws.NetworkInterface
	nics     map[string]placed
	peerings map[string]*aws.PeeringConnection
	peers    map[string][]string // VPC -> VPCs of active peerings, any region
	sameReg  map[[2]string]bool  // pairs of VPCs with an active peering within one region
	subnets  map[string]border   // subnet -> its ACL and route table, where they say something
	hosts    map[string]hosted   // host name of a service, in small letters
	effects  *effect.Log
}

type vpcAddress struct {
	vpc  string
	addr netip.Addr
}

// delegated is a block that is addresses of an interface as a whole.
type delegated struct {
	block netip.Prefix
	nic   *aws.NetworkInterface
}

// owner is the interface of a VPC that has a private address; nil if none does.
func (x *Judge) owner(vpc string, a netip.Addr) *aws.NetworkInterface {
	if n := x.private[vpcAddress{vpc, a}]; n != nil {
		return n
	}
	for _, d := range x.blocks[vpc] {
		if d.block.Contains(a) {
			return d.nic
		}
	}
	return nil
}

// placed is an interface with the region data that its groups are in.
type placed struct {
	nic  *aws.NetworkInterface
	data *aws.Resources
}

// New makes a Judge of the resources of all accounts and regions, of the peering connections by id,
// and of the edits that are on their way to the interfaces; it keeps all of them.
func New(regions []*aws.Resources, peerings map[string]*aws.PeeringConnection, effects *effect.Log) *Judge {
	x := &Judge{
		private: map[vpcAddress]*aws.NetworkInterface{}, blocks: map[string][]delegated{}, public: map[netip.Addr]*aws.NetworkInterface{},
		nics: map[string]placed{}, peerings: peerings, peers: map[string][]string{}, sameReg: map[[2]string]bool{},
		subnets: filteredSubnets(regions), hosts: map[string]hosted{}, effects: effects,
	}
	for _, d := range regions {
		x.add(d)
	}
	for _, p := range peerings {
		if p.Status != aws.PeeringActive {
			continue
		}
		a, b := p.Requester.VPCID, p.Accepter.VPCID
		x.peers[a], x.peers[b] = append(x.peers[a], b), append(x.peers[b], a)
		if p.Requester.Region == p.Accepter.Region {
			x.sameReg[[2]string{a, b}], x.sameReg[[2]string{b, a}] = true, true
		}
	}
	return x
}

// add indexes the services and interfaces of one account in one region.
func (x *Judge) add(d *aws.Resources) {
	for _, s := range d.Services {
		x.hosts[strings.ToLower(s.HostName())], x.hosts[strings.ToLower(s.ReaderHost())] = hosted{s, d, false}, hosted{s, d, true}
	}
	delete(x.hosts, "")
	for _, n := range d.NICs {
		x.nics[n.ID] = placed{n, d}
		for _, p := range n.PrivateIPs {
			x.private[vpcAddress{n.VPCID, p.Addr}] = n
			if p.Public.IsValid() {
				x.public[p.Public] = n
			}
		}
		for _, a := range n.IPv6 {
			x.private[vpcAddress{n.VPCID, a}] = n
		}
		for _, p := range n.Prefixes {
			x.blocks[n.VPCID] = append(x.blocks[n.VPCID], delegated{p, n})
		}
	}
}

// endpoint is an End made definite: an address, and the interface that has it (nil = outside).
type endpoint struct {
	placed
	addr   netip.Addr // as the other end sees it
	public bool       // reached through a public address: group references do not match
}

func (p endpoint) String() string {
	if p.nic == nil {
		return p.addr.String()
	}
	return p.nic.ID + " (" + p.addr.String() + ")"
}

// Allowed decides a new flow by the security groups of both ends: the egress rules of the source's
// interface and the ingress rules of the destination's must both allow it. An outside end has no
// half of its own; traffic from an interface to itself is not filtered. Between them the route
// tables of both subnets must lead to the other end, and their network ACLs let the flow and its
// answer pass; those that nothing has reported or written say nothing. Power states play no part.
// An error means that the flow makes no sense: an unknown interface, two outside ends, or ends of
// different address families.
func (x *Judge) Allowed(f Flow) (Verdict, error) {
	v, src, dst, err := x.decide(f)
	if err == nil {
		v.Reason = x.reason(v, src, dst, f)
	}
	return v, err
}

// Passes is Verdict.Allowed of what Allowed returns, without words, which take longer.
func (x *Judge) Passes(f Flow) (bool, error) {
	v, _, _, err := x.decide(f)
	return v.Allowed, err
}

// decide is Allowed without words.
func (x *Judge) decide(f Flow) (v Verdict, src, dst endpoint, err error) {
	if src, dst, err = x.parties(f); err != nil {
		return v, src, dst, fmt.Errorf("flow %s: %w", f, err)
	}
	v = Verdict{Allowed: true, Egress: Half{Allowed: true}, Ingress: Half{Allowed: true}}
	if src.nic == nil || src.nic != dst.nic {
		v = x.judge(src, src, dst, f)
	}
	return v, src, dst, nil
}

// judge decides about a packet of src that dst sees coming from seen.
func (x *Judge) judge(src, seen, dst endpoint, f Flow) Verdict {
	v := Verdict{Egress: x.half(src, dst, true, f), Ingress: x.half(dst, seen, false, f)}
	v.Obstacle, v.StoppedBy = x.obstacle(seen, dst, f)
	v.Allowed = v.Egress.Allowed && v.Ingress.Allowed && v.Obstacle == ""
	return v
}

// parties makes both ends definite.
func (x *Judge) parties(f Flow) (src, dst endpoint, err error) {
	srcVPC, dstVPC := f.Src.VPC, f.Dst.VPC
	if p, ok := x.nics[f.Src.NIC]; ok {
		srcVPC = p.nic.VPCID
	}
	if p, ok := x.nics[f.Dst.NIC]; ok {
		dstVPC = p.nic.VPCID
	}
	v6 := f.Src.Addr.Is6() || f.Dst.Addr.Is6()
	if !f.Src.Addr.IsValid() && !f.Dst.Addr.IsValid() {
		v6 = !x.hasIPv4(f.Src.NIC) || !x.hasIPv4(f.Dst.NIC)
	}
	if src, err = x.endpoint(f.Src, srcVPC, dstVPC, v6); err != nil {
		return src, dst, fmt.Errorf("source: %w", err)
	}
	if dst, err = x.endpoint(f.Dst, dstVPC, srcVPC, v6); err != nil {
		return src, dst, fmt.Errorf("destination: %w", err)
	}
	if src.nic == nil && dst.nic == nil {
		return src, dst, fmt.Errorf("neither %s nor %s is an address of the cloud", src.addr, dst.addr)
	}
	if src.addr.Is4() != dst.addr.Is4() {
		return src, dst, fmt.Errorf("%s and %s are of different families", src.addr, dst.addr)
	}
	if src.public && dst.nic != nil || dst.public && src.nic != nil {
		// Through the internet gateway both ends see public addresses and no interface.
		src, dst = src.throughInternet(), dst.throughInternet()
	}
	return src, dst, nil
}

func (p endpoint) throughInternet() endpoint {
	p.public = true
	if p.nic != nil {
		for _, ip := range p.nic.PrivateIPs {
			if ip.Addr == p.addr && ip.Public.IsValid() {
				p.addr = ip.Public
			}
		}
	}
	return p
}

func (x *Judge) hasIPv4(nic string) bool {
	p, ok := x.nics[nic]
	return !ok || len(p.nic.PrivateIPs) > 0
}

func (x *Judge) endpoint(e End, vpc, otherVPC string, v6 bool) (endpoint, error) {
	e.Addr = e.Addr.Unmap()
	if e.NIC != "" {
		p, ok := x.nics[e.NIC]
		if !ok {
			return endpoint{}, fmt.Errorf("there is no network interface %s", e.NIC)
		}
		return x.nicSide(p, e.Addr, v6)
	}
	if !e.Addr.IsValid() {
		return endpoint{}, fmt.Errorf("neither an interface nor an address is given")
	}
	where := append([]string{vpc, otherVPC}, x.peers[otherVPC]...)
	for _, v := range where {
		if n := x.owner(v, e.Addr); v != "" && n != nil {
			return endpoint{placed: x.nics[n.ID], addr: e.Addr}, nil
		}
	}
	if n := x.public[e.Addr]; n != nil {
		return endpoint{placed: x.nics[n.ID], addr: e.Addr, public: true}, nil
	}
	return endpoint{addr: e.Addr}, nil
}

// nicSide picks the address of an interface that takes part in the flow.
func (x *Judge) nicSide(p placed, addr netip.Addr, v6 bool) (endpoint, error) {
	n := p.nic
	if !addr.IsValid() {
		if v6 && len(n.IPv6) > 0 {
			return endpoint{placed: p, addr: n.IPv6[0]}, nil
		}
		if !v6 && len(n.PrivateIPs) > 0 {
			return endpoint{placed: p, addr: n.PrivateIPs[0].Addr}, nil
		}
		return endpoint{}, fmt.Errorf("%s has no address of the flow's family", n.ID)
	}
	if x.owner(n.VPCID, addr) == n {
		return endpoint{placed: p, addr: addr}, nil
	}
	if x.public[addr] == n {
		return endpoint{placed: p, addr: addr, public: true}, nil
	}
	return endpoint{}, fmt.Errorf("%s does not have the address %s", n.ID, addr)
}

// half judges one end: the rules of its groups in one direction against the other end.
func (x *Judge) half(self, other endpoint, egress bool, f Flow) Half {
	if self.nic == nil || len(self.nic.Groups) == 0 && self.nic.MayHoldNone() {
		return Half{Allowed: true}
	}
	h := Half{Filtered: true, NIC: self.nic.ID}
	for _, g := range x.groupsAt(self.nic, self.nic) {
		rules := x.rulesAt(self.placed, g.ID)
		for i := range rules {
			rule := &rules[i]
			if rule.Egress == egress && covers(rule, f) && x.peerMatches(rule, self, other) {
				h.Allowed, h.GroupID, h.RuleID = true, g.ID, rule.ID
				return h
			}
		}
	}
	return h
}

// peerMatches reports whether the other end is in the peer of a rule.
func (x *Judge) peerMatches(rule *aws.SecurityGroupRule, self, other endpoint) bool {
	switch {
	case rule.Group != nil:
		if other.nic == nil || other.public || !slices.ContainsFunc(x.groupsAt(self.nic, other.nic), func(g aws.GroupName) bool { return g.ID == rule.Group.GroupID }) {
			return false
		}
		return other.nic.VPCID == self.nic.VPCID || x.sameReg[[2]string{self.nic.VPCID, other.nic.VPCID}]
	case rule.PrefixListID != "":
		return slices.ContainsFunc(x.entriesAt(self.placed, rule.PrefixListID), func(e aws.PrefixListEntry) bool { return e.CIDR.Contains(other.addr) })
	}
	return rule.CIDR.Contains(other.addr)
}

// reason puts a verdict into one line.
func (x *Judge) reason(v Verdict, src, dst endpoint, f Flow) string {
	if src.nic != nil && src.nic == dst.nic {
		return "allowed: both ends are " + src.nic.ID + ", which never filters itself"
	}
	var parts []string
	for _, side := range []struct {
		name string
		half Half
		self endpoint
		peer string
	}{{"egress", v.Egress, src, "to " + dst.String()}, {"ingress", v.Ingress, dst, "from " + src.String()}} {
		h := side.half
		switch {
		case !h.Filtered:
			continue
		case h.Allowed:
			g := side.self.data.Groups[h.GroupID]
			for i := range g.Rules {
				if g.Rules[i].ID == h.RuleID {
					parts = append(parts, fmt.Sprintf("%s of %s: %s of %s (%s) allows %s", side.name, h.NIC, h.RuleID, g.ID, g.Name, &g.Rules[i]))
				}
			}
		default:
			parts = append(parts, fmt.Sprintf("%s of %s: no rule of %s allows %s %s", side.name, h.NIC, groupList(side.self.nic), f.service(), side.peer))
		}
	}
	word := "denied: "
	if v.Egress.Allowed && v.Ingress.Allowed {
		word = "allowed: "
	}
	if v.Obstacle == "" {
		return word + strings.Join(parts, "; ")
	}
	return "denied: " + v.Obstacle + " (the security groups: " + word + strings.Join(parts, "; ") + ")"
}

func groupList(n *aws.NetworkInterface) string {
	var names []string
	for _, g := range n.Groups {
		names = append(names, fmt.Sprintf("%s (%s)", g.ID, g.Name))
	}
	return strings.Join(names, ", ")
}

// covers reports whether protocol and ports of a flow are in a rule.
func covers(r *aws.SecurityGroupRule, f Flow) bool {
	if r.Protocol == aws.AllProtocols {
		return true
	}
	if aws.ProtocolNumber(r.Protocol) != f.Protocol {
		return false
	}
	switch r.Protocol {
	case "tcp", "udp":
		return int(r.FromPort) <= f.Port && f.Port <= int(r.ToPort)
	case "icmp", "icmpv6":
		return (r.FromPort == -1 || int(r.FromPort) == f.ICMPType) && (r.ToPort == -1 || int(r.ToPort) == f.ICMPCode)
	}
	return true
}
