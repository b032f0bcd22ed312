package links

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/nephele-io/nephele/internal/agent/network"
)

// Sealer creates the device of WireGuard or of IPsec and manages its peers. wireguard.Device and
// ipsec.Device implement it.
type Sealer interface {
	// Link is the name of the device, whether or not it is there, empty while that is not known,
	// and the most that it carries; 0 for no bound of its own.
	Link() (name string, mtu int)
	// Read returns it with the keys; nil if it is not there.
	Read() (*network.Sealing, error)
	Ensure(want *network.Sealing) error
	SetPeer(k network.PublicKey, p network.SealedPeer) error
	RemovePeer(k network.PublicKey) error
	Remove() error
}

// Seal makes the kernel have a device of WireGuard where one is wanted, SealIPsec one of IPsec.
// They are called before anything else.
func (k *Kernel) Seal(s Sealer)      { k.sealer = s }
func (k *Kernel) SealIPsec(s Sealer) { k.ipsec = s }

// sealerOf is that of a device; nil for none.
func (k *Kernel) sealerOf(ipsec bool) Sealer {
	if ipsec {
		return k.ipsec
	}
	return k.sealer
}

// ipsecLink is the name of the device of IPsec, and the most that it carries.
func (k *Kernel) ipsecLink() (name string, mtu int) {
	if k.ipsec == nil {
		return network.IPsecDevice, 0
	}
	return k.ipsec.Link()
}

// Handle is by which links are read and written.
func (k *Kernel) Handle() *netlink.Handle { return k.handle }

// errNoSealer: nothing is linked that could encrypt.
var errNoSealer = errors.New("this program cannot encrypt")

// closedMetric is that of ways that count where there is no other one.
const closedMetric = 4096

// readSealed reads a device that encrypts. One that is down has no MTU.
func (k *Kernel) readSealed(ipsec bool, a *netlink.LinkAttrs, addresses []netip.Prefix) (*network.Sealing, error) {
	out := &network.Sealing{}
	if by := k.sealerOf(ipsec); by != nil {
		of, err := by.Read()
		if err != nil {
			return nil, err
		}
		if of != nil {
			out = of
		}
	}
	out.IPsec, out.Link = ipsec, a.Name
	if a.Flags&net.FlagUp != 0 {
		out.MTU = a.MTU
	}
	for _, p := range addresses {
		if !p.Addr().IsLinkLocalUnicast() {
			out.Addresses = append(out.Addresses, p.Addr())
		}
	}
	slices.SortFunc(out.Addresses, netip.Addr.Compare)
	return out, nil
}

// readWays reads the routes and rules that count before others.
func (k *Kernel) readWays(state *network.State, names map[int]string, device int) error {
	list, err := k.handle.RouteListFiltered(netlink.FAMILY_ALL, &netlink.Route{Protocol: network.Protocol}, netlink.RT_FILTER_TABLE|netlink.RT_FILTER_PROTOCOL)
	if err != nil {
		return fmt.Errorf("read the routes of encryption and of exits: %w", err)
	}
	for _, r := range list {
		to, ok := prefixOf(r.Dst)
		exit, ofExit := exitOf(r.Table)
		if !ok || r.Table != network.SealedTable && !ofExit {
			continue
		}
		way := network.Way{To: to, Exit: exit, Closed: r.Type == unix.RTN_UNREACHABLE, Past: r.Type == unix.RTN_THROW}
		if over := names[r.LinkIndex]; over != "" && !ofExit && !way.Closed && over != network.WireGuardDevice {
			way.IPsec = over
		}
		if r.Gw != nil {
			way.Via, way.Wrapped, way.MTU = address(r.Gw), r.LinkIndex == device, r.MTU
		}
		state.Ways[way] = true
	}
	for six, family := range families {
		rules, err := k.handle.RuleList(family)
		if errors.Is(err, unix.EAFNOSUPPORT) || errors.Is(err, unix.EOPNOTSUPP) { // a kernel without IPv6, or with one table of routes
			continue
		}
		if err != nil {
			return fmt.Errorf("read the rules of routes: %w", err)
		}
		for _, r := range rules {
			exit, ofExit := exitOf(r.Table)
			switch {
			case r.Priority == network.SealedPriority && r.Table == network.SealedTable:
				state.Rules[network.RuleStep{Six: six}] = true
			case r.Priority == priorityOf(exit) && ofExit && r.Mark == uint32(exit)<<network.ExitShift && r.Mask != nil && *r.Mask == network.ExitMask:
				state.Rules[network.RuleStep{Six: six, Exit: exit}] = true
			}
		}
	}
	return nil
}

// exitOf is the number of the exit of which a table is.
func exitOf(table int) (number uint8, ok bool) {
	if table <= network.ExitTable || table > network.ExitTable+network.ReturnExit {
		return 0, false
	}
	return uint8(table - network.ExitTable), true
}

// priorityOf is that of the rule that leads to an exit.
func priorityOf(exit uint8) int {
	if exit == network.ReturnExit {
		return network.ReturnPriority
	}
	return network.ExitPriority
}

var families = map[bool]int{false: netlink.FAMILY_V4, true: netlink.FAMILY_V6}

// sealed does a step about encryption; others are none.
func (w *writing) sealed(s network.Step) error {
	switch {
	case s.Way != nil:
		return w.way(s.Verb, s.Way)
	case s.Rule != nil:
		return w.rule(s.Verb, s.Rule)
	case s.Sealing == nil && s.Peer == nil:
		return nil
	case s.Sealing != nil:
		return w.sealing(s.Verb, s.Sealing)
	}
	by := w.sealerOf(s.Peer.IPsec)
	switch {
	case by == nil:
		return errNoSealer
	case s.Verb == network.Remove:
		return by.RemovePeer(s.Peer.Key)
	}
	return by.SetPeer(s.Peer.Key, s.Peer.SealedPeer)
}

// sealing makes or removes a device that encrypts.
func (w *writing) sealing(v network.Verb, d *network.Sealing) error {
	delete(w.index, d.Link)
	by := w.sealerOf(d.IPsec)
	switch {
	case by == nil && v == network.Remove: // of an agent that could encrypt
		l, err := w.handle.LinkByName(d.Link)
		if err == nil {
			err = w.handle.LinkDel(l)
		}
		if gone(err) {
			err = nil
		}
		return err
	case by == nil:
		return errNoSealer
	case v == network.Remove:
		return by.Remove()
	}
	if err := by.Ensure(d); err != nil {
		return err
	}
	name, _ := by.Link()
	l, err := w.handle.LinkByName(name)
	if err != nil {
		return err
	}
	if d.MTU > 0 && l.Attrs().MTU != d.MTU {
		if err := w.handle.LinkSetMTU(l, d.MTU); err != nil {
			return err
		}
	}
	err = w.handle.LinkSetUp(l)
	if errors.Is(err, unix.EADDRINUSE) {
		return fmt.Errorf("UDP port %d is in use by another program of the Node: %w", d.Port, err)
	}
	if err != nil {
		return err
	}
	return w.giveAll(l, d.Addresses)
}

// way adds or removes a route of the table of what is encrypted, or of an exit.
func (w *writing) way(v network.Verb, s *network.Way) error {
	r := &netlink.Route{Dst: &net.IPNet{IP: s.To.Addr().AsSlice(), Mask: net.CIDRMask(s.To.Bits(), s.To.Addr().BitLen())}, Protocol: network.Protocol, Table: network.SealedTable}
	if s.Exit != 0 {
		r.Table = network.ExitTable + int(s.Exit)
	}
	switch {
	case s.Closed:
		r.Type, r.Priority = unix.RTN_UNREACHABLE, closedMetric
	case s.Past:
		r.Type = unix.RTN_THROW
	case s.Via.IsValid():
		r.Gw = s.Via.AsSlice()
		if s.Wrapped {
			index, err := w.link(network.Device)
			if gone(err) && v == network.Remove {
				return nil // it went with the device
			}
			if err != nil {
				return err
			}
			// Answers come by the device though the way back would be another one.
			if err := w.loosen(index); err != nil && v != network.Remove {
				return err
			}
			r.LinkIndex, r.Flags, r.MTU = index, int(netlink.FLAG_ONLINK), s.MTU
		}
	default:
		over := s.IPsec
		if over == "" {
			over = network.WireGuardDevice
		}
		index, err := w.link(over)
		if gone(err) && (v == network.Remove || s.IPsec != "") {
			return nil // it went with the device, and charon, which makes it, is away
		}
		if err != nil {
			return err
		}
		if r.LinkIndex = index; s.To.Addr().Is4() {
			r.Scope = unix.RT_SCOPE_LINK
		}
	}
	if v == network.Remove {
		if err := w.handle.RouteDel(r); err != nil && !gone(err) {
			return err
		}
		return nil
	}
	return w.handle.RouteReplace(r)
}

// rule makes routing begin with the table of what is encrypted, or not.
func (w *writing) rule(v network.Verb, s *network.RuleStep) error {
	r := netlink.NewRule()
	r.Family, r.Table, r.Priority, r.Protocol = families[s.Six], network.SealedTable, network.SealedPriority, network.Protocol
	if s.Exit != 0 {
		mask := uint32(network.ExitMask)
		r.Table, r.Priority, r.Mark, r.Mask = network.ExitTable+int(s.Exit), priorityOf(s.Exit), uint32(s.Exit)<<network.ExitShift, &mask
	}
	if v == network.Remove {
		if err := w.handle.RuleDel(r); err != nil && !gone(err) {
			return err
		}
		return nil
	}
	if err := w.handle.RuleAdd(r); err != nil && !errors.Is(err, unix.EEXIST) {
		return err
	}
	return nil
}
