package links

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/nephele-io/nephele/internal/agent/network"
)

const (
	// answerLimit bounds the wait for one answer of the kernel.
	answerLimit = 10 * time.Second
	// readAttempts is how often everything is read while others change links and routes.
	readAttempts = 20
	// mostToward is of how many other Nodes the routes are looked up.
	mostToward = 8
	// mostErrors bounds the errors that are told at once.
	mostErrors = 5
)

// ErrNoVXLAN: the kernel was built without VXLAN.
var ErrNoVXLAN = errors.New("the kernel has no VXLAN (CONFIG_VXLAN): load the module vxlan, or choose the mode noEncap")

// Kernel is that of a network namespace.
type Kernel struct {
	handle *netlink.Handle
	// raw changes what the library cannot, and tracked knows connections; nil where the kernel
	// follows none.
	raw     *nl.SocketHandle
	tracked *netlink.Handle
	// sealer makes the device of WireGuard, ipsec that of IPsec; nil if there is none.
	sealer, ipsec Sealer
}

// Open opens the links and routes of the network namespace of the calling thread.
func Open() (*Kernel, error) {
	h, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err == nil {
		err = h.SetSocketTimeout(answerLimit)
	}
	if err != nil {
		return nil, fmt.Errorf("open links and routes: %w", err)
	}
	raw, err := nl.Subscribe(unix.NETLINK_ROUTE)
	if err != nil {
		h.Close()
		return nil, fmt.Errorf("open links and routes: %w", err)
	}
	k := &Kernel{handle: h, raw: &nl.SocketHandle{Socket: raw}}
	if tracked, err := netlink.NewHandle(unix.NETLINK_NETFILTER); err == nil {
		k.tracked = tracked
	}
	return k, nil
}

// Close ends the work with the kernel, which stays as it is.
func (k *Kernel) Close() {
	k.handle.Close()
	k.raw.Close()
	if k.tracked != nil {
		k.tracked.Close()
	}
}

// Observe reads what there is.
func (k *Kernel) Observe(look network.Look) (*network.State, network.Underlay, error) {
	for attempt := 1; ; attempt++ {
		state, under, err := k.observe(look)
		if err == nil || attempt == readAttempts || !errors.Is(err, netlink.ErrDumpInterrupted) {
			return state, under, err
		}
	}
}

func (k *Kernel) observe(look network.Look) (*network.State, network.Underlay, error) {
	state, under := network.NewState(), network.Underlay{Foreign: map[netip.Prefix]string{}}
	under.IPsecLink, under.IPsecMTU = k.ipsecLink()
	list, err := k.handle.LinkList()
	if err != nil {
		return nil, under, fmt.Errorf("read links: %w", err)
	}
	names, mtu := map[int]string{}, map[string]int{}
	for _, l := range list {
		a := l.Attrs()
		names[a.Index], mtu[a.Name] = a.Name, a.MTU
	}
	addresses, err := k.addresses(nil)
	if err != nil {
		return nil, under, err
	}
	device := 0
	for _, l := range list {
		a := l.Attrs()
		// Where IPv6 is switched off lo has lost its address.
		under.IPv6 = under.IPv6 || slices.ContainsFunc(addresses[a.Index], func(p netip.Prefix) bool { return p.Addr().Is6() })
		switch {
		case a.Name == network.Device:
			v, ok := l.(*netlink.Vxlan)
			if !ok {
				return nil, under, fmt.Errorf("link %s is of kind %s, and not ours: remove it", a.Name, l.Type())
			}
			state.Device, device = deviceOf(v, addresses[a.Index]), a.Index
		case a.Name == network.WireGuardDevice:
			if state.WireGuard, err = k.readSealed(false, a, addresses[a.Index]); err != nil {
				return nil, under, err
			}
		case a.Name == under.IPsecLink:
			if state.IPsec, err = k.readSealed(true, a, addresses[a.Index]); err != nil {
				return nil, under, err
			}
		case strings.HasPrefix(a.Name, network.EndPrefix) && l.Type() == "veth":
			if _, _, ours := network.ParseAlias(a.Alias); ours {
				state.Ends[a.Name] = endOf(a, addresses[a.Index])
			}
		default:
			for _, p := range addresses[a.Index] {
				if !p.Addr().IsLoopback() && !p.Addr().IsLinkLocalUnicast() {
					under.Addresses = append(under.Addresses, p)
				}
			}
		}
	}
	if err := k.readRoutes(look, names, state, &under); err != nil {
		return nil, under, err
	}
	if device != 0 {
		if err := k.readDevice(device, state); err != nil {
			return nil, under, err
		}
	}
	if err := k.readWays(state, names, device); err != nil {
		return nil, under, err
	}
	under.Toward, err = k.toward(look, under.IPsecLink, names, mtu, addresses)
	return state, under, err
}

// addresses reads the addresses of a link, or of all, by the indices of the links.
func (k *Kernel) addresses(of netlink.Link) (map[int][]netip.Prefix, error) {
	list, err := k.handle.AddrList(of, netlink.FAMILY_ALL)
	if err != nil {
		return nil, fmt.Errorf("read addresses: %w", err)
	}
	out := map[int][]netip.Prefix{}
	for _, a := range list {
		if p, ok := prefixOf(a.IPNet); ok {
			out[a.LinkIndex] = append(out[a.LinkIndex], p)
		}
	}
	return out, nil
}

func prefixOf(n *net.IPNet) (netip.Prefix, bool) {
	if n == nil {
		return netip.Prefix{}, false
	}
	a, ok := netip.AddrFromSlice(n.IP)
	ones, _ := n.Mask.Size()
	if !ok {
		return netip.Prefix{}, false
	}
	if a.Is4In6() {
		a = a.Unmap()
	}
	return netip.PrefixFrom(a, ones), ones <= a.BitLen()
}

func address(ip net.IP) netip.Addr {
	a, _ := netip.AddrFromSlice(ip)
	return a.Unmap()
}

func deviceOf(v *netlink.Vxlan, addresses []netip.Prefix) *network.VXLAN {
	out := &network.VXLAN{VNI: v.VxlanId, Port: uint16(v.Port), Local: address(v.SrcAddr), MTU: v.MTU}
	copy(out.MAC[:], v.HardwareAddr)
	for _, p := range addresses {
		if !p.Addr().IsLinkLocalUnicast() {
			out.Addresses = append(out.Addresses, p.Addr())
		}
	}
	slices.SortFunc(out.Addresses, netip.Addr.Compare)
	return out
}

func endOf(a *netlink.LinkAttrs, addresses []netip.Prefix) network.End {
	out := network.End{Up: a.Flags&net.FlagUp != 0, Alias: a.Alias}
	for _, p := range addresses {
		out.Addresses = append(out.Addresses, p.Addr())
	}
	slices.SortFunc(out.Addresses, netip.Addr.Compare)
	return out
}

// readRoutes reads our routes, and routes of others to ranges of interest.
func (k *Kernel) readRoutes(look network.Look, names map[int]string, state *network.State, under *network.Underlay) error {
	list, err := k.handle.RouteListFiltered(netlink.FAMILY_ALL, &netlink.Route{Table: unix.RT_TABLE_MAIN}, netlink.RT_FILTER_TABLE)
	if err != nil {
		return fmt.Errorf("read routes: %w", err)
	}
	for _, r := range list {
		to, ok := prefixOf(r.Dst)
		switch {
		case !ok:
		case r.Protocol == network.Protocol:
			route := network.Route{Link: names[r.LinkIndex]}
			if r.Gw != nil {
				route.Via = address(r.Gw)
			}
			if r.Src != nil {
				route.Source = address(r.Src)
			}
			state.Routes[to] = route
		case slices.Contains(look.Ranges, to):
			under.Foreign[to] = names[r.LinkIndex]
		}
	}
	return nil
}

// readDevice reads the peers of the VXLAN device.
func (k *Kernel) readDevice(index int, state *network.State) error {
	neighbours, err := k.handle.NeighList(index, netlink.FAMILY_ALL)
	if err != nil {
		return fmt.Errorf("read neighbours: %w", err)
	}
	for _, n := range neighbours {
		if n.State&netlink.NUD_PERMANENT != 0 && len(n.HardwareAddr) == len(network.MAC{}) && n.Family != unix.AF_BRIDGE {
			state.Neighbours[address(n.IP)] = network.MAC(n.HardwareAddr)
		}
	}
	forwards, err := k.handle.NeighList(index, unix.AF_BRIDGE)
	if err != nil {
		return fmt.Errorf("read the ways of VXLAN: %w", err)
	}
	for _, n := range forwards {
		if len(n.HardwareAddr) == len(network.MAC{}) && n.IP != nil {
			state.Forwards[network.MAC(n.HardwareAddr)] = address(n.IP)
		}
	}
	return nil
}

// toward finds the links by which other Nodes are reached.
func (k *Kernel) toward(look network.Look, ipsec string, names map[int]string, mtu map[string]int, addresses map[int][]netip.Prefix) ([]network.Hop, error) {
	var out []network.Hop
	add := func(index int) {
		h := network.Hop{Link: names[index], MTU: mtu[names[index]]}
		if h.Link != "" && h.Link != "lo" && h.Link != network.Device && h.Link != network.WireGuardDevice && h.Link != ipsec && !slices.Contains(out, h) {
			out = append(out, h)
		}
	}
	for _, a := range look.Others[:min(len(look.Others), mostToward)] {
		routes, err := k.handle.RouteGet(a.AsSlice())
		if err == nil && len(routes) > 0 { // else there is no route at the moment
			add(routes[0].LinkIndex)
		}
	}
	if len(out) == 0 {
		for index, list := range addresses {
			if slices.ContainsFunc(list, func(p netip.Prefix) bool { return slices.Contains(look.Own, p.Addr()) }) {
				add(index)
			}
		}
	}
	return out, nil
}

// End reads a link to a Pod and its routes. It reports whether it is there.
func (k *Kernel) End(name string) (*network.State, bool, error) {
	state := network.NewState()
	l, err := k.handle.LinkByName(name)
	if missing := (netlink.LinkNotFoundError{}); errors.As(err, &missing) {
		return state, false, nil
	}
	if err != nil {
		return nil, false, fmt.Errorf("read link %s: %w", name, err)
	}
	addresses, err := k.addresses(l)
	if err != nil {
		return nil, false, err
	}
	state.Ends[name] = endOf(l.Attrs(), addresses[l.Attrs().Index])
	list, err := k.handle.RouteListFiltered(netlink.FAMILY_ALL, &netlink.Route{Table: unix.RT_TABLE_MAIN, LinkIndex: l.Attrs().Index, Protocol: network.Protocol},
		netlink.RT_FILTER_TABLE|netlink.RT_FILTER_OIF|netlink.RT_FILTER_PROTOCOL)
	if err != nil {
		return nil, false, fmt.Errorf("read the routes of link %s: %w", name, err)
	}
	for _, r := range list {
		if to, ok := prefixOf(r.Dst); ok {
			route := network.Route{Link: name}
			if r.Src != nil {
				route.Source = address(r.Src)
			}
			state.Routes[to] = route
		}
	}
	return state, true, nil
}

// Apply does steps, one after the other. One that fails keeps no other one from being done.
func (k *Kernel) Apply(steps []network.Step) error {
	w := writing{Kernel: k, index: map[string]int{}}
	var errs []error
	for _, s := range steps {
		if err := w.do(s); err != nil {
			if len(errs) < mostErrors {
				errs = append(errs, fmt.Errorf("%s: %w", s, err))
			}
		}
	}
	return errors.Join(errs...)
}

// writing is a run of Apply.
type writing struct {
	*Kernel
	// index has the indices of links that were looked up.
	index map[string]int
}

func (w *writing) link(name string) (int, error) {
	if w.index[name] == 0 {
		l, err := w.handle.LinkByName(name)
		if err != nil {
			return 0, err
		}
		w.index[name] = l.Attrs().Index
	}
	return w.index[name], nil
}

func (w *writing) do(s network.Step) error {
	switch {
	case s.Device != nil:
		return w.device(s.Verb, s.Device)
	case s.End != nil:
		return w.end(s.Verb, s.End)
	case s.Route != nil:
		return w.route(s.Verb, s.Route)
	case s.Neighbour != nil:
		return w.neighbour(s.Verb, &netlink.Neigh{IP: s.Neighbour.Address.AsSlice(), HardwareAddr: s.Neighbour.MAC[:], State: netlink.NUD_PERMANENT})
	case s.Forward != nil:
		return w.neighbour(s.Verb, &netlink.Neigh{
			Family: unix.AF_BRIDGE, Flags: netlink.NTF_SELF, IP: s.Forward.To.AsSlice(), HardwareAddr: s.Forward.MAC[:], State: netlink.NUD_PERMANENT,
		})
	}
	return w.sealed(s)
}

// gone reports whether an error says that what was to be removed is not there.
func gone(err error) bool {
	missing := netlink.LinkNotFoundError{}
	return errors.As(err, &missing) || errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ESRCH) || errors.Is(err, unix.ENODEV) || errors.Is(err, unix.EADDRNOTAVAIL)
}

func (w *writing) device(v network.Verb, d *network.VXLAN) error {
	delete(w.index, network.Device)
	if v == network.Remove {
		l, err := w.handle.LinkByName(network.Device)
		if err == nil {
			err = w.handle.LinkDel(l)
		}
		if err != nil && !gone(err) {
			return err
		}
		return nil
	}
	if v == network.Add {
		attrs := netlink.NewLinkAttrs()
		attrs.Name, attrs.MTU, attrs.HardwareAddr = network.Device, d.MTU, d.MAC[:]
		err := w.handle.LinkAdd(&netlink.Vxlan{LinkAttrs: attrs, VxlanId: d.VNI, SrcAddr: d.Local.AsSlice(), Port: int(d.Port), Learning: false})
		switch {
		case errors.Is(err, unix.EOPNOTSUPP):
			return fmt.Errorf("%w: %w", ErrNoVXLAN, err)
		case err != nil && !errors.Is(err, unix.EEXIST):
			return err
		}
	}
	l, err := w.handle.LinkByName(network.Device)
	if err != nil {
		return err
	}
	a := l.Attrs()
	if !bytes.Equal(a.HardwareAddr, d.MAC[:]) {
		if err := w.handle.LinkSetHardwareAddr(l, d.MAC[:]); err != nil {
			return err
		}
	}
	if d.MTU > 0 && a.MTU != d.MTU {
		if err := w.handle.LinkSetMTU(l, d.MTU); err != nil {
			return err
		}
	}
	if a.Flags&net.FlagUp == 0 {
		err := w.handle.LinkSetUp(l)
		if errors.Is(err, unix.EADDRINUSE) {
			return fmt.Errorf("UDP port %d is in use by another program of the Node, or another VXLAN: %w", d.Port, err)
		}
		if err != nil {
			return err
		}
	}
	return w.giveAll(l, d.Addresses)
}

// giveAll gives a link the addresses that it is to have, and takes others.
func (w *writing) giveAll(l netlink.Link, wanted []netip.Addr) error {
	have, err := w.addresses(l)
	if err != nil {
		return err
	}
	for _, p := range have[l.Attrs().Index] {
		if !slices.Contains(wanted, p.Addr()) && !p.Addr().IsLinkLocalUnicast() {
			if err := w.handle.AddrDel(l, addrOf(p.Addr(), p.Bits(), unix.RT_SCOPE_UNIVERSE)); err != nil && !gone(err) {
				return err
			}
		}
	}
	for _, ip := range wanted {
		if err := w.give(l, have[l.Attrs().Index], ip, unix.RT_SCOPE_UNIVERSE); err != nil {
			return err
		}
	}
	return nil
}

func addrOf(a netip.Addr, length, scope int) *netlink.Addr {
	out := &netlink.Addr{IPNet: &net.IPNet{IP: a.AsSlice(), Mask: net.CIDRMask(length, a.BitLen())}, Scope: scope}
	if a.Is6() {
		out.Flags = unix.IFA_F_NODAD
	}
	return out
}

// give gives a link an address, if it has not got it.
func (w *writing) give(l netlink.Link, have []netip.Prefix, a netip.Addr, scope int) error {
	if slices.ContainsFunc(have, func(p netip.Prefix) bool { return p.Addr() == a }) {
		return nil
	}
	length := a.BitLen()
	if a.Is6() && a.IsLinkLocalUnicast() {
		length = 64
	}
	if err := w.handle.AddrAdd(l, addrOf(a, length, scope)); err != nil && !errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("address %s: %w", a, err)
	}
	return nil
}

func (w *writing) end(v network.Verb, e *network.EndStep) error {
	l, err := w.handle.LinkByName(e.Name)
	if v == network.Remove {
		if err == nil {
			err = w.handle.LinkDel(l)
		}
		if gone(err) {
			err = nil
		}
		return err
	}
	if gone(err) { // the Pod has gone meanwhile
		return nil
	}
	if err != nil {
		return err
	}
	if err := w.handle.LinkSetUp(l); err != nil {
		return err
	}
	for _, a := range e.Add {
		if err := w.give(l, nil, a, unix.RT_SCOPE_LINK); err != nil {
			return err
		}
	}
	return nil
}

func (w *writing) route(v network.Verb, s *network.RouteStep) error {
	r := &netlink.Route{Dst: &net.IPNet{IP: s.To.Addr().AsSlice(), Mask: net.CIDRMask(s.To.Bits(), s.To.Addr().BitLen())}, Protocol: network.Protocol, Table: unix.RT_TABLE_MAIN}
	if s.Link != "" {
		index, err := w.link(s.Link)
		if gone(err) && (v == network.Remove || strings.HasPrefix(s.Link, network.EndPrefix)) {
			return nil // the route went with its link, or the Pod has gone meanwhile
		}
		if err != nil {
			return err
		}
		r.LinkIndex = index
	}
	if s.Via.IsValid() {
		r.Gw = s.Via.AsSlice()
		if s.Link == network.Device {
			r.Flags = int(netlink.FLAG_ONLINK)
		}
	} else if s.To.Addr().Is4() {
		r.Scope = unix.RT_SCOPE_LINK
	}
	if s.Source.IsValid() {
		r.Src = s.Source.AsSlice()
	}
	switch v {
	case network.Remove:
		if err := w.handle.RouteDel(r); err != nil && !gone(err) {
			return err
		}
		return nil
	case network.Replace:
		return w.handle.RouteReplace(r)
	}
	err := w.handle.RouteAdd(r)
	if errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("somebody else has made a route there: %w", err)
	}
	return err
}

func (w *writing) neighbour(v network.Verb, n *netlink.Neigh) error {
	index, err := w.link(network.Device)
	if err != nil && v == network.Remove && gone(err) {
		return nil
	}
	if err != nil {
		return err
	}
	n.LinkIndex = index
	if v == network.Remove {
		if err := w.handle.NeighDel(n); err != nil && !gone(err) {
			return err
		}
		return nil
	}
	return w.handle.NeighSet(n)
}
