// Package trace follows one packet through what snapshots of a cloud show: whether there is a way
// at all, which addresses change on it, and which rule of which security group lets it through at
// each end.
//
// It owns the meaning of a security group, for a single packet and for all addresses at once (see
// Membership), and nothing else: it knows no policies, and foreign rules count like ours. Borders
// are the network ACLs between subnets. Route tables and transit gateways are not in a snapshot, so
// they are not judged.
//
// A Cloud is read only once it is made. All functions are pure; a Cloud may be asked by many
// goroutines at once, as long as the snapshots do not change.
package trace

import (
	"net/netip"
	"slices"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan/flow"
)

// Cloud is all that is seen of the accounts.
type Cloud struct {
	regions []*region
	peered  map[[2]string]bool // active peerings, both ways, of any region
	near    map[[2]string]bool // those within one region, over which group references match
	// interfaces are all of them, by ID, and holders those that have an address, private or public.
	interfaces map[string]place
	holders    map[netip.Addr][]place
	// delegated are the interfaces that have blocks of addresses.
	delegated []place
	// untold are interfaces of which it is not known which groups they hold.
	untold map[string]bool
	// partly says that some interfaces are left out: of addresses without a visible interface it is
	// not known which groups they hold.
	partly bool
}

// Partly marks a cloud of which some interfaces are left out.
func (c *Cloud) Partly() { c.partly = true }

// place is an interface and the region that shows it.
type place struct {
	*region
	*cloud.Interface
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
	c := &Cloud{peered: map[[2]string]bool{}, near: map[[2]string]bool{}, interfaces: map[string]place{}, holders: map[netip.Addr][]place{}}
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
		for i := range s.Interfaces {
			n := &s.Interfaces[i]
			if _, seen := c.interfaces[n.ID]; seen {
				continue // another account sees it, too
			}
			c.interfaces[n.ID] = place{r, n}
			for _, a := range slices.Concat(n.PrivateIPs, n.PublicIPs) {
				c.holders[a] = append(c.holders[a], place{r, n})
			}
			if len(n.Prefixes) > 0 {
				c.delegated = append(c.delegated, place{r, n})
			}
		}
		c.regions = append(c.regions, r)
	}
	return c
}

// Native is the same cloud without us: every interface that is under our control holds the groups
// that it had before, as its record says or that of the service that it belongs to, and no group of
// ours. Where nothing but ours is left and no record, it is not known which groups those are.
func Native(snapshots []*cloud.Snapshot) *Cloud {
	out, untold := make([]*cloud.Snapshot, len(snapshots)), map[string]bool{}
	for i, s := range snapshots {
		ours := map[string]bool{}
		for j := range s.Groups {
			ours[s.Groups[j].ID] = s.Groups[j].Tags[cloud.TagKind] != "" && s.Groups[j].OwnedBy(s.Groups[j].Tags[cloud.TagCluster])
		}
		records := map[string]map[string]string{} // the tags of services, by interface
		for j := range s.Services {
			for _, id := range s.Services[j].Interfaces {
				records[id] = s.Services[j].Tags
			}
		}
		native := *s
		native.Interfaces = slices.Clone(s.Interfaces)
		for j := range native.Interfaces {
			n := &native.Interfaces[j]
			own := slices.DeleteFunc(slices.Clone(n.GroupIDs), func(id string) bool { return ours[id] })
			if len(own) < len(n.GroupIDs) {
				former := cloud.FormerGroups(n.Tags)
				if former == nil {
					former = cloud.FormerGroups(records[n.ID])
				}
				switch {
				case former != nil:
					own = former
				case len(own) == 0: // else it only has ours besides, to be named by
					untold[n.ID] = true
				}
			}
			n.GroupIDs = own
		}
		out[i] = &native
	}
	c := New(out)
	c.untold = untold
	return c
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
	VM *cloud.VM
	// Hosted tells that the end is a Pod, a Node or a host, and the interface belongs to the
	// machine that it is on: what goes on within the machine does not pass its interfaces.
	Hosted bool
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

// At returns the holder of an address as seen from a network: an interface there or in a peered
// network with that private address; else the interface behind that public address; else the only
// known interface with that private address, to which there may be no route.
func (c *Cloud) At(a netip.Addr, network string) Point {
	private, public := c.Holders(a)
	for _, p := range private {
		if p.Network() == network {
			return p
		}
	}
	for _, p := range private {
		if c.peered[[2]string{network, p.Network()}] {
			return p
		}
	}
	switch {
	case len(public) > 0:
		return public[0]
	case len(private) == 1:
		return private[0]
	}
	return Point{Addr: a}
}

// Holders are the interfaces with an address: as a private one, and as one by which the Internet
// reaches them.
func (c *Cloud) Holders(a netip.Addr) (byPrivate, byPublic []Point) {
	for _, h := range c.delegated {
		if h.HasPrivate(a) && !slices.Contains(h.PrivateIPs, a) {
			byPrivate = append(byPrivate, h.point(h.Interface, a, netip.Addr{}))
		}
	}
	for _, h := range c.holders[a] {
		if slices.Contains(h.PrivateIPs, a) {
			byPrivate = append(byPrivate, h.point(h.Interface, a, netip.Addr{}))
			continue
		}
		if own := private(h.Interface, a); own.IsValid() {
			byPublic = append(byPublic, h.point(h.Interface, own, a))
		} else if h.Managed { // the front end of a balancer, which has no other address
			byPublic = append(byPublic, h.point(h.Interface, a, a))
		}
	}
	return byPrivate, byPublic
}

// PointsOf returns the points that an interface has, by its private addresses; none if it is not
// in sight. Of one that has only public addresses these are told.
func (c *Cloud) PointsOf(id string) []Point {
	at, known := c.interfaces[id]
	if !known {
		return nil
	}
	var out []Point
	for _, a := range at.PrivateIPs {
		out = append(out, at.point(at.Interface, a, netip.Addr{}))
	}
	for _, a := range at.PublicIPs {
		if len(at.PrivateIPs) == 0 && at.Managed {
			out = append(out, at.point(at.Interface, a, a))
		}
	}
	return out
}

// Service returns the points that a native service has, by its interfaces; none if it is not in
// sight.
func (c *Cloud) Service(regionName, id string) []Point {
	for _, r := range c.regions {
		if r.snapshot.Region != regionName {
			continue
		}
		if s := r.snapshot.Service(id); s != nil {
			var out []Point
			for _, n := range s.Interfaces {
				out = append(out, c.PointsOf(n)...)
			}
			return out
		}
	}
	return nil
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
	// WayItself: it never leaves the interface, or the machine, and nothing filters it.
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
	// Uncertain says that it depends on the members of a group or prefix list that cannot be read,
	// or on an unknown address. Then Allowed is false.
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
	case src.Interface.ID == dst.Interface.ID, (src.Hosted || dst.Hosted) && src.VM != nil && dst.VM != nil && src.VM.ID == dst.VM.ID:
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
	return &Filter{Interface: p.Interface, Allowed: true, Held: c.membership(p.region, p.Interface).held}
}

// filter judges a packet at one of its ends by the rules of its groups: other is the other end,
// which is seen by an address.
func (c *Cloud) filter(self, other Point, seen netip.Addr, byAddress bool, d cloud.Direction, s flow.Service) *Filter {
	m, o := c.membership(self.region, self.Interface), (*Membership)(nil)
	if other.Interface != nil {
		o = c.membership(other.region, other.Interface)
	}
	out := &Filter{Interface: self.Interface, Held: m.held, Allowed: m.open, Uncertain: m.untold}
	m.rules(d, s, func(g *cloud.Group, r *cloud.Rule) bool {
		switch m.extent(o, byAddress, r.Peer).match(seen) {
		case yes:
			out.Allowed, out.Uncertain, out.Group, out.Rule = true, false, g, r
			return false
		case perhaps:
			if out.Rule == nil {
				out.Uncertain, out.Group, out.Rule = true, g, r
			}
		}
		return true
	})
	return out
}

func (c *Cloud) known(group string) *cloud.Group {
	for _, r := range c.regions {
		if g := r.groups[group]; g != nil {
			return g
		}
	}
	return nil
}

// Same finds an end of another cloud that has the same interfaces.
func (c *Cloud) Same(p Point) Point {
	if p.Interface == nil {
		return p
	}
	if at, known := c.interfaces[p.Interface.ID]; known {
		p.Interface, p.region = at.Interface, at.region
	}
	return p
}
