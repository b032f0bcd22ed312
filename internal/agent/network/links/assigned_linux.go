package links

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"syscall"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/nephele-io/nephele/internal/agent/network"
)

const (
	// attrInetConf is IFLA_INET_CONF, settingReversePath IPV4_DEVCONF_RP_FILTER; loosePath lets a
	// packet pass that would be answered by another link.
	attrInetConf       = 1
	settingReversePath = 8
	loosePath          = 2
	// forever is how long an address is valid that does not expire.
	forever = 1<<32 - 1
	// maxAsked bounds the neighbours that learn of an address.
	maxAsked = 64
	// discardPort is the port of the protocol discard.
	discardPort = 9
)

// dummyAddress is one that no host has (RFC 7600).
var dummyAddress = netip.MustParseAddr("192.0.0.8")

// Assigned are the addresses of the host, by for how many seconds they are valid still; 0 for ever,
// or where the address is part of a subnet of its link.
func (k *Kernel) Assigned() (map[netip.Addr]int, error) {
	list, err := k.handle.AddrList(nil, netlink.FAMILY_ALL)
	if err != nil {
		return nil, fmt.Errorf("read addresses: %w", err)
	}
	out := map[netip.Addr]int{}
	for _, a := range list {
		if p, ok := prefixOf(a.IPNet); ok && !p.Addr().IsLoopback() && !p.Addr().IsLinkLocalUnicast() {
			out[p.Addr()] = 0
			if a.ValidLft != forever && p.IsSingleIP() {
				out[p.Addr()] = max(a.ValidLft, 1)
			}
		}
	}
	return out, nil
}

// Hold gives the link by which other Nodes are reached an address for some seconds, or prolongs
// that. The kernel itself takes the address when nothing does. It returns the name of the link.
func (k *Kernel) Hold(a, own netip.Addr, seconds int) (link string, err error) {
	index, err := k.linkOf(own)
	if err != nil {
		return "", err
	}
	l, err := k.handle.LinkByIndex(index)
	if err != nil {
		return "", fmt.Errorf("address %s: %w", a, err)
	}
	address := addrOf(a, a.BitLen(), unix.RT_SCOPE_UNIVERSE)
	// What is not preferred the Node does not send from by itself.
	address.ValidLft, address.PreferedLft = seconds, 0
	address.Flags |= unix.IFA_F_NOPREFIXROUTE
	if err := k.handle.AddrReplace(l, address); err != nil {
		return "", fmt.Errorf("give link %s the address %s: %w", l.Attrs().Name, a, err)
	}
	return l.Attrs().Name, nil
}

// linkOf finds the link with an address.
func (k *Kernel) linkOf(own netip.Addr) (int, error) {
	list, err := k.addresses(nil)
	if err != nil {
		return 0, err
	}
	for index, of := range list {
		if slices.ContainsFunc(of, func(p netip.Prefix) bool { return p.Addr() == own }) {
			return index, nil
		}
	}
	return 0, fmt.Errorf("no link of the Node has its address %s", own)
}

// Drop takes an address that Hold has given.
func (k *Kernel) Drop(a netip.Addr) error {
	list, err := k.handle.AddrList(nil, netlink.FAMILY_ALL)
	if err != nil {
		return fmt.Errorf("read addresses: %w", err)
	}
	for _, have := range list {
		p, ok := prefixOf(have.IPNet)
		if !ok || p.Addr() != a || !p.IsSingleIP() || have.ValidLft == forever {
			continue
		}
		l, err := k.handle.LinkByIndex(have.LinkIndex)
		if err == nil {
			err = k.handle.AddrDel(l, addrOf(a, p.Bits(), unix.RT_SCOPE_UNIVERSE))
		}
		if err != nil && !gone(err) {
			return fmt.Errorf("take the address %s: %w", a, err)
		}
	}
	return nil
}

// Unlearn lets the kernel ask again where the neighbours on a link are, of a family, and returns
// them: asking, it tells them where an address is by then.
func (k *Kernel) Unlearn(link string, six bool) ([]netip.Addr, error) {
	l, err := k.handle.LinkByName(link)
	if err != nil {
		return nil, fmt.Errorf("read link %s: %w", link, err)
	}
	list, err := k.handle.NeighList(l.Attrs().Index, families[six])
	if err != nil {
		return nil, fmt.Errorf("read neighbours on %s: %w", link, err)
	}
	var out []netip.Addr
	for i := range list {
		n := &list[i]
		if n.State&(netlink.NUD_PERMANENT|netlink.NUD_NOARP) != 0 || len(out) == maxAsked {
			continue
		}
		if err := k.handle.NeighDel(n); err == nil {
			out = append(out, address(n.IP))
		}
	}
	return out, nil
}

// Announce tells the hosts on a link that an address is here now. Of IPv4 all of them hear it when
// the kernel asks for one that no host has; of IPv6 the hosts that are asked themselves. It needs
// no raw socket, and no right for one.
func Announce(ctx context.Context, link string, a netip.Addr, asked []netip.Addr) error {
	if a.Is4() {
		asked = []netip.Addr{dummyAddress}
	}
	control := func(_, _ string, c syscall.RawConn) (err error) {
		outer := c.Control(func(fd uintptr) {
			err = errors.Join(unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_DONTROUTE, 1), unix.BindToDevice(int(fd), link))
		})
		return errors.Join(outer, err)
	}
	c, err := (&net.ListenConfig{Control: control}).ListenPacket(ctx, "udp", netip.AddrPortFrom(a, 0).String())
	if err != nil {
		return fmt.Errorf("announce %s on %s: %w", a, link, err)
	}
	defer func() { _ = c.Close() }()
	var errs []error
	for _, to := range asked {
		if to.IsLinkLocalUnicast() {
			to = to.WithZone(link)
		}
		_, err := c.WriteTo([]byte{0}, net.UDPAddrFromAddrPort(netip.AddrPortFrom(to, discardPort)))
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// Sever ends the connections of which a function says so: of those that are made from some
// addresses. The arguments are the end that has made one, the other end, and where its answers
// come to.
func (k *Kernel) Sever(of map[netip.Addr]bool, ends func(from, to, answers netip.Addr) bool) (int, error) {
	if k.tracked == nil || len(of) == 0 {
		return 0, nil
	}
	n := 0
	var errs []error
	for _, family := range families {
		ended, err := k.tracked.ConntrackDeleteFilters(netlink.ConntrackTable, netlink.InetFamily(family), severing{of, ends})
		n += int(ended)
		if err != nil && !errors.Is(err, netlink.ErrDumpInterrupted) && !strings.Contains(err.Error(), unix.ENOENT.Error()) {
			errs = append(errs, err)
		}
	}
	return n, errors.Join(errs...)
}

type severing struct {
	of   map[netip.Addr]bool
	ends func(from, to, answers netip.Addr) bool
}

// MatchConntrackFlow implements netlink.CustomConntrackFilter.
func (s severing) MatchConntrackFlow(flow *netlink.ConntrackFlow) bool {
	from := address(flow.Forward.SrcIP)
	return s.of[from] && s.ends(from, address(flow.Reverse.SrcIP), address(flow.Reverse.DstIP))
}

// loosen lets a link take packets that would be answered by another one.
func (k *Kernel) loosen(index int) error {
	set := nl.NewNetlinkRequest(unix.RTM_NEWLINK, unix.NLM_F_ACK)
	set.Sockets = map[int]*nl.SocketHandle{unix.NETLINK_ROUTE: k.raw}
	message := nl.NewIfInfomsg(unix.AF_UNSPEC)
	message.Index = int32(index)
	set.AddData(message)
	all := nl.NewRtAttr(unix.IFLA_AF_SPEC, nil)
	all.AddRtAttr(unix.AF_INET, nil).AddRtAttr(attrInetConf, nil).AddRtAttr(settingReversePath, binary.NativeEndian.AppendUint32(nil, loosePath))
	set.AddData(all)
	if _, err := set.Execute(unix.NETLINK_ROUTE, 0); err != nil {
		return fmt.Errorf("let link %s take what would be answered elsewhere: %w", network.Device, err)
	}
	return nil
}
