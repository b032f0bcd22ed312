// Package trace follows one packet through what snapshots of a cloud show: whether there is a way
// at all, which addresses change on it, and which rule of which security group lets it through at
// each end.
//
// It owns the meaning of a security group for a single packet, and nothing else: it knows no
// policies and does not care who wrote a rule. Borders are the network ACLs between subnets. What
// it does not see, as route tables and transit gateways, it does not judge.
//
// A Cloud is read only once it is made. All functions are pure; a Cloud may be asked by many
// goroutines at once, as long as nobody changes the snapshots.
package trace

import (
	"net/netip"
	"slices"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan"
	"github.com/nephele-io/nephele/internal/cloud/plan/flow"
)

// Cloud is all that is seen of the accounts.
type Cloud struct {
	regions []*region
	peered  map[[2]string]bool // active peerings, both ways, of any region
	near    map[[2]string]bool // those within one region, over which group references match
}

type region struct {
	snapshot *cloud.Snapshot
	groups   map[string]*cloud.Group
	lists    map[string]*cloud.PrefixList
	vms      map[string]*cloud.VM
	networks map[string]*cloud.Network
}

// New looks at snapshots of different regions and accounts.
func New(snapshots []*cloud.Snapshot) *Cloud {
	c := &Cloud{peered: map[[2]string]bool{}, near: map[[2]string]bool{}}
	for _, s := range snapshots {
		r := &region{
			snapshot: s, groups: map[string]*cloud.Group{}, lists: map[string]*cloud.PrefixList{}, vms: map[string]*cloud.VM{},
			networks: map[string]*cloud.Network{},
		}
		for i := range s.Groups {
			r.groups[s.Groups[i].ID] = &s.Groups[i]
		}
		for i := range s.PrefixLists {
			r.lists[s.PrefixLists[i].ID] = &s.PrefixLists[i]
		}
		for i := range s.VMs {
			r.vms[s.VMs[i].ID] = &s.VMs[i]
		}
		for i := range s.Networks {
			r.networks[s.Networks[i].ID] = &s.Networks[i]
		}
		for _, p := range s.Peerings {
			for _, ends := range [][2]string{{p.A.NetworkID, p.B.NetworkID}, {p.B.NetworkID, p.A.NetworkID}} {
				c.peered[ends] = true
				if p.CarriesGroups() {
					c.near[ends] = true
				}
			}
		}
		c.regions = append(c.regions, r)
	}
	return c
}

// Native is the same cloud without us: every interface that is under our control holds the groups
// that it had before, as its record says, and no group of ours.
func Native(snapshots []*cloud.Snapshot) *Cloud {
	out := make([]*cloud.Snapshot, len(snapshots))
	for i, s := range snapshots {
		ours := map[string]bool{}
		for j := range s.Groups {
			ours[s.Groups[j].ID] = s.Groups[j].Tags[cloud.TagKind] != "" && s.Groups[j].OwnedBy(s.Groups[j].Tags[cloud.TagCluster])
		}
		native := *s
		native.Interfaces = slices.Clone(s.Interfaces)
		for j := range native.Interfaces {
			n := &native.Interfaces[j]
			own := slices.DeleteFunc(slices.Clone(n.GroupIDs), func(id string) bool { return ours[id] })
			if former := plan.Former(n); len(own) < len(n.GroupIDs) && former != nil {
				own = former
			}
			n.GroupIDs = own
		}
		out[i] = &native
	}
	return New(out)
}

// Point is one end of a packet: an address, and the interface that has it.
type Point struct {
	// Addr is the address that the end has itself; of an interface a private one.
	Addr netip.Addr
	// Public is the address by which it is reached from the Internet, if that is how the packet
	// goes; see Path.
	Public netip.Addr
	// Interface is nil for an address that no interface in sight has.
	Interface *cloud.Interface
	// VM is nil if the interface belongs to none.
	VM     *cloud.VM
	region *region
}

// Network is the network of the interface; empty for others.
func (p Point) Network() string {
	if p.Interface == nil {
		return ""
	}
	return p.Interface.NetworkID
}

// Service is the native service that has the interface; nil if none does, or the snapshot does not
// show it.
func (p Point) Service() *cloud.Service {
	if p.Interface == nil || p.region == nil {
		return nil
	}
	services := p.region.snapshot.Services
	for i := range services {
		if slices.Contains(services[i].Interfaces, p.Interface.ID) {
			return &services[i]
		}
	}
	return nil
}

// FrontOf is an address of a further service of the region, by its ID; not valid if there is none.
func (p Point) FrontOf(service string) netip.Addr {
	if p.region == nil {
		return netip.Addr{}
	}
	for i := range p.region.snapshot.Services {
		if s := &p.region.snapshot.Services[i]; s.ID == service && len(s.Private) > 0 {
			return s.Private[0]
		}
	}
	return netip.Addr{}
}

// Region is the region of the interface; empty for others.
func (p Point) Region() string {
	if p.region == nil {
		return ""
	}
	return p.region.snapshot.Region
}

func (r *region) point(n *cloud.Interface, a, public netip.Addr) Point {
	return Point{Addr: a, Public: public, Interface: n, VM: r.vms[n.VMID], region: r}
}

// VM returns the points that a VM has, by its private addresses; none if it is not in sight.
func (c *Cloud) VM(regionName, id string) []Point {
	var out []Point
	for _, r := range c.regions {
		if r.snapshot.Region != regionName || r.vms[id] == nil {
			continue
		}
		for i := range r.snapshot.Interfaces {
			if n := &r.snapshot.Interfaces[i]; n.VMID == id {
				for _, a := range n.PrivateIPs {
					out = append(out, r.point(n, a, netip.Addr{}))
				}
			}
		}
		return out // another account that sees the same region sees the same VM
	}
	return nil
}

// At returns who has an address for somebody in a network: an interface there or in a peered
// network by a private address, else the one that is reached by the public address, else the only
// one in sight with this private address, to which there may be no way.
func (c *Cloud) At(a netip.Addr, network string) Point {
	var here, peer, public, any []Point
	for _, r := range c.regions {
		for i := range r.snapshot.Interfaces {
			n := &r.snapshot.Interfaces[i]
			switch {
			case slices.Contains(n.PrivateIPs, a):
				p := r.point(n, a, netip.Addr{})
				any = add(any, p)
				if n.NetworkID == network {
					here = add(here, p)
				} else if c.peered[[2]string{network, n.NetworkID}] {
					peer = add(peer, p)
				}
			case slices.Contains(n.PublicIPs, a):
				if own := private(n, a); own.IsValid() {
					public = add(public, r.point(n, own, a))
				} else if n.Managed { // the front end of a balancer, which has no other address
					public = add(public, r.point(n, a, a))
				}
			}
		}
	}
	for _, found := range [][]Point{here, peer, public} {
		if len(found) > 0 {
			return found[0]
		}
	}
	if len(any) == 1 {
		return any[0]
	}
	return Point{Addr: a}
}

// add leaves out an interface that several accounts see.
func add(list []Point, p Point) []Point {
	if slices.ContainsFunc(list, func(o Point) bool { return o.Interface.ID == p.Interface.ID }) {
		return list
	}
	return append(list, p)
}

// private is the first private address of the interface in the family of a public one. Which one it
// is translated to the snapshot does not tell; the groups are the same.
func private(n *cloud.Interface, public netip.Addr) netip.Addr {
	for _, a := range n.PrivateIPs {
		if a.Is4() == public.Is4() {
			return a
		}
	}
	return netip.Addr{}
}

// Interface returns the point that an interface, by its ID or MAC address, has with an address,
// which need not be one of its own: it may pass on what others send. It returns false if no
// interface in sight is called so.
func (c *Cloud) Interface(name string, a netip.Addr) (Point, bool) {
	for _, r := range c.regions {
		for i := range r.snapshot.Interfaces {
			if n := &r.snapshot.Interfaces[i]; n.ID == name || n.MAC != "" && n.MAC == name {
				return r.point(n, a, netip.Addr{}), true
			}
		}
	}
	return Point{}, false
}

// Way is how a packet gets from one end to the other.
type Way string

// The ways.
const (
	// WayItself: it never leaves the interface, and nothing filters it.
	WayItself Way = "Itself"
	// WayNetwork: both ends are in one network.
	WayNetwork Way = "Network"
	// WayPeering: an active peering connects the networks.
	WayPeering Way = "Peering"
	// WayInternet: through the gateways, which translate addresses.
	WayInternet Way = "Internet"
	// WayOutside: the other end is an address that no interface in sight has.
	WayOutside Way = "Outside"
	// WayNone: nothing that is in sight connects the networks.
	WayNone Way = "None"
)

// Path is what happens to a packet.
type Path struct {
	Way Way
	// SeenSource is the address that the destination sees, and SeenDestination the one that the
	// source sends to. SeenSource is not valid if a gateway translates it to an address that is not
	// known.
	SeenSource, SeenDestination netip.Addr
	// Egress and Ingress are what filters it; nil where there is no interface.
	Egress, Ingress *Filter
}

// Filter is what the groups of an interface do with a packet.
type Filter struct {
	Interface *cloud.Interface
	Allowed   bool
	// Uncertain tells that it depends on who is in a group or prefix list that cannot be read, or
	// on an address that is not known. Then Allowed is false.
	Uncertain bool
	// Group and Rule are what lets it through, or might; nil if nothing does.
	Group *cloud.Group
	Rule  *cloud.Rule
	// Held are the groups of the interface, those that do not exist any more left out.
	Held []*cloud.Group
}

// Follow follows the first packet of a connection, whose service is a single one.
func (c *Cloud) Follow(src, dst Point, s flow.Service) Path {
	out := Path{Way: c.way(src, dst), SeenSource: src.Addr, SeenDestination: dst.Addr}
	switch out.Way {
	case WayItself:
		out.Egress, out.Ingress = c.unfiltered(src), c.unfiltered(dst)
		return out
	case WayInternet, WayOutside:
		if dst.Public.IsValid() {
			out.SeenDestination = dst.Public
		}
		if src.Interface != nil && (out.Way == WayInternet || Global(dst.Addr)) {
			out.SeenSource = c.leaves(src)
		}
	}
	byAddress := out.Way == WayInternet
	if src.Interface != nil {
		out.Egress = c.filter(src, dst, out.SeenDestination, byAddress, cloud.Egress, s)
	}
	if dst.Interface != nil {
		out.Ingress = c.filter(dst, src, out.SeenSource, byAddress, cloud.Ingress, s)
	}
	return out
}

func (c *Cloud) way(src, dst Point) Way {
	switch {
	case src.Interface == nil || dst.Interface == nil:
		return WayOutside
	case src.Interface.ID == dst.Interface.ID:
		return WayItself
	case src.Public.IsValid() || dst.Public.IsValid():
		return WayInternet
	case src.Network() == dst.Network():
		return WayNetwork
	case c.peered[[2]string{src.Network(), dst.Network()}]:
		return WayPeering
	}
	return WayNone
}

// Connected reports whether packets between two networks keep their private addresses.
func (c *Cloud) Connected(a, b string) bool { return a == b || c.peered[[2]string{a, b}] }

// leaves is the address with which what an interface sends appears outside; not valid if that is
// not known.
func (c *Cloud) leaves(p Point) netip.Addr {
	if p.Addr.Is6() { // nothing translates these
		return p.Addr
	}
	if p.Public.IsValid() {
		return p.Public
	}
	for _, a := range p.Interface.PublicIPs {
		if a.Is4() {
			return a
		}
	}
	return netip.Addr{}
}

// Global reports whether an address is one of the Internet, and not of private networks.
func Global(a netip.Addr) bool {
	return a.IsValid() && a.IsGlobalUnicast() && !a.IsPrivate() && !netip.MustParsePrefix("100.64.0.0/10").Contains(a)
}

func (c *Cloud) unfiltered(p Point) *Filter {
	return &Filter{Interface: p.Interface, Allowed: true, Held: held(p)}
}

func held(p Point) []*cloud.Group {
	var out []*cloud.Group
	for _, id := range p.Interface.GroupIDs {
		if g := p.region.groups[id]; g != nil {
			out = append(out, g)
		}
	}
	return out
}

// match is how a rule's peer stands to the other end.
type match int

const (
	no match = iota
	perhaps
	yes
)

// filter judges a packet at one of its ends by the rules of its groups: other is the other end,
// which is seen by an address.
func (c *Cloud) filter(self, other Point, seen netip.Addr, byAddress bool, d cloud.Direction, s flow.Service) *Filter {
	if self.Interface.Managed && len(self.Interface.GroupIDs) == 0 { // as of load balancers that were made without any
		return c.unfiltered(self)
	}
	out := &Filter{Interface: self.Interface, Held: held(self)}
	for _, g := range out.Held {
		for i := range g.Rules {
			r := &g.Rules[i]
			if r.Direction != d || !flow.ServiceOf(r.Match).Covers(s) {
				continue
			}
			switch c.peer(self, other, seen, byAddress, r.Peer) {
			case yes:
				out.Allowed, out.Uncertain, out.Group, out.Rule = true, false, g, r
				return out
			case perhaps:
				if !out.Uncertain {
					out.Uncertain, out.Group, out.Rule = true, g, r
				}
			}
		}
	}
	return out
}

// peer judges whether the other end is in the peer of a rule.
func (c *Cloud) peer(self, other Point, seen netip.Addr, byAddress bool, p cloud.Peer) match {
	switch {
	case p.CIDR.IsValid():
		return within(seen, []netip.Prefix{p.CIDR})
	case p.PrefixListID != "":
		l := self.region.lists[p.PrefixListID]
		switch {
		case p.Except.Contains(seen):
			return no
		case l == nil || !l.Known():
			return perhaps
		}
		return within(seen, l.Entries)
	case other.Interface == nil:
		// A group of another account may have members that are not in sight, over a peering.
		if p.GroupOwner != "" && p.GroupOwner != self.region.snapshot.OwnerID && c.known(p.GroupID) == nil && !Global(other.Addr) {
			return perhaps
		}
		return no
	case byAddress || !slices.Contains(other.Interface.GroupIDs, p.GroupID):
		return no
	case self.Network() == other.Network() || c.near[[2]string{self.Network(), other.Network()}]:
		return yes
	}
	return no
}

func (c *Cloud) known(group string) *cloud.Group {
	for _, r := range c.regions {
		if g := r.groups[group]; g != nil {
			return g
		}
	}
	return nil
}

// within reports whether an address is in one of the blocks. One that is not known is in those of
// all of its family.
func within(a netip.Addr, blocks []netip.Prefix) match {
	out := no
	for _, b := range blocks {
		switch {
		case a.IsValid() && b.Contains(a), !a.IsValid() && b.Addr().Is4() && b.Bits() == 0:
			return yes
		case !a.IsValid() && b.Addr().Is4() && Global(b.Addr()):
			out = perhaps
		}
	}
	return out
}

// Same finds an end of another cloud that has the same interfaces.
func (c *Cloud) Same(p Point) Point {
	if p.Interface == nil {
		return p
	}
	for _, r := range c.regions {
		for i := range r.snapshot.Interfaces {
			if n := &r.snapshot.Interfaces[i]; n.ID == p.Interface.ID {
				p.Interface, p.region = n, r
				return p
			}
		}
	}
	return p
}
