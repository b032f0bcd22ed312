package kernel

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// injectorLink is the link by which packets come that are made to be traced.
const injectorLink = "nephele-trace"

const (
	// attrInetConf is IFLA_INET_CONF, settingReversePath IPV4_DEVCONF_RP_FILTER; loosePath lets a
	// packet pass that would be answered by another link.
	attrInetConf       = 1
	settingReversePath = 8
	loosePath          = 2
	// injectorAddress is one that links to Pods have. The kernel takes packets by a link without
	// one only if each of them would be answered by it.
	injectorAddress = "169.254.1.1/32"
)

// Injector makes packets of this host come to it from without, as if a Pod had sent them.
type Injector struct{ device *os.File }

// OpenInjector makes its link, in the network namespace of the calling thread. It needs
// /dev/net/tun, and no right but CAP_NET_ADMIN. The kernel removes the link when the process ends.
func OpenInjector() (*Injector, error) {
	fail := func(err error) (*Injector, error) {
		return nil, fmt.Errorf("make the link %s for packets that are traced: %w", injectorLink, err)
	}
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return fail(fmt.Errorf("/dev/net/tun: %w", err))
	}
	request, err := unix.NewIfreq(injectorLink)
	if err == nil {
		request.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI)
		err = unix.IoctlIfreq(fd, unix.TUNSETIFF, request)
	}
	if err != nil {
		return fail(errors.Join(err, unix.Close(fd)))
	}
	device := os.NewFile(uintptr(fd), injectorLink)
	if err := upLoosely(injectorLink); err != nil {
		return fail(errors.Join(err, device.Close()))
	}
	return &Injector{device}, nil
}

// upLoosely sets a link up that takes packets from everywhere, whatever the host wants of new
// links.
func upLoosely(name string) error {
	l, err := netlink.LinkByName(name)
	if err != nil {
		return err
	}
	set := nl.NewNetlinkRequest(unix.RTM_NEWLINK, unix.NLM_F_ACK)
	message := nl.NewIfInfomsg(unix.AF_UNSPEC)
	message.Index = int32(l.Attrs().Index)
	set.AddData(message)
	families := nl.NewRtAttr(unix.IFLA_AF_SPEC, nil)
	families.AddRtAttr(unix.AF_INET, nil).AddRtAttr(attrInetConf, nil).AddRtAttr(settingReversePath, binary.NativeEndian.AppendUint32(nil, loosePath))
	set.AddData(families)
	if _, err := set.Execute(unix.NETLINK_ROUTE, 0); err != nil {
		return err
	}
	address, err := netlink.ParseAddr(injectorAddress)
	if err != nil {
		return err
	}
	address.Scope = unix.RT_SCOPE_LINK
	if err := netlink.AddrAdd(l, address); err != nil {
		return err
	}
	return netlink.LinkSetUp(l)
}

// Send lets a packet come.
func (i *Injector) Send(packet []byte) error {
	_, err := i.device.Write(packet)
	return err
}

// Close removes the link.
func (i *Injector) Close() error { return i.device.Close() }

// IsOfPod reports whether a link of the network namespace of the calling thread leads to a Pod: it
// is one end of a pair.
func IsOfPod(index int) bool {
	l, err := netlink.LinkByIndex(index)
	return err == nil && l.Type() == "veth"
}
