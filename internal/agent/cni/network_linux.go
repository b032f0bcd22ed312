package cni

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/containernetworking/cni/pkg/skel"
	current "github.com/containernetworking/cni/pkg/types/100"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	nodenet "github.com/nephele-io/nephele/internal/agent/network"
)

// kernelLimit bounds the wait for one answer of the kernel.
const kernelLimit = 10 * time.Second

// sandbox is the network namespace of a Pod.
type sandbox struct {
	file   *os.File
	handle *netlink.Handle
}

func openSandbox(path string) (*sandbox, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("the network namespace of the Pod: %w", err)
	}
	h, err := netlink.NewHandleAt(netns.NsHandle(f.Fd()), unix.NETLINK_ROUTE)
	if err == nil {
		err = h.SetSocketTimeout(kernelLimit)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("the network namespace of the Pod: %w", err), f.Close())
	}
	return &sandbox{f, h}, nil
}

func (s *sandbox) close() {
	s.handle.Close()
	_ = s.file.Close()
}

// do runs f in the namespace.
func (s *sandbox) do(f func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // and the thread ends with this goroutine
		if err := unix.Setns(int(s.file.Fd()), unix.CLONE_NEWNET); err != nil {
			done <- fmt.Errorf("enter the network namespace of the Pod: %w", err)
			return
		}
		done <- f()
	}()
	return <-done
}

func openNode() (*netlink.Handle, error) {
	h, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err == nil {
		err = h.SetSocketTimeout(kernelLimit)
	}
	if err != nil {
		return nil, fmt.Errorf("the links of the Node: %w", err)
	}
	return h, nil
}

// makePod makes the link to a Pod, and all that is in the Pod: addresses and routes.
func makePod(args *skel.CmdArgs, got *Assigned) (*current.Result, error) {
	if err := setForwarding(got); err != nil {
		return nil, err
	}
	node, err := openNode()
	if err != nil {
		return nil, err
	}
	defer node.Close()
	in, err := openSandbox(args.Netns)
	if err != nil {
		return nil, err
	}
	defer in.close()
	name := endName(args)
	if err := removeLink(node, name); err != nil { // that of a plugin that was killed
		return nil, err
	}
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MTU = name, got.MTU
	veth := netlink.NewVeth(attrs)
	veth.PeerName, veth.PeerNamespace, veth.PeerMTU = args.IfName, netlink.NsFd(in.file.Fd()), uint32(got.MTU)
	if err := node.LinkAdd(veth); err != nil {
		return nil, fmt.Errorf("make the link %s to the Pod: %w", name, err)
	}
	outside, err := node.LinkByName(name)
	if err == nil {
		err = node.LinkSetAlias(outside, nodenet.EndAlias(args.ContainerID, args.IfName))
	}
	if err == nil {
		err = setLink(name, got, true)
	}
	if err == nil {
		err = node.LinkSetUp(outside)
	}
	if err != nil {
		return nil, fmt.Errorf("the link %s to the Pod: %w", name, err)
	}
	if err := in.do(func() error { return setLink(args.IfName, got, false) }); err != nil {
		return nil, err
	}
	inside, err := in.furnish(args.IfName, got)
	if err != nil {
		return nil, err
	}
	return resultOf(args, got, outside.Attrs().HardwareAddr, inside), nil
}

// furnish gives the interface of a Pod its addresses, and the Pod its routes.
func (s *sandbox) furnish(name string, got *Assigned) (net.HardwareAddr, error) {
	if lo, err := s.handle.LinkByName("lo"); err == nil {
		if err := s.handle.LinkSetUp(lo); err != nil {
			return nil, fmt.Errorf("bring up lo in the Pod: %w", err)
		}
	}
	link, err := s.handle.LinkByName(name)
	if err != nil {
		return nil, fmt.Errorf("interface %s of the Pod: %w", name, err)
	}
	for _, a := range got.Addresses {
		x := &netlink.Addr{IPNet: network(netip.PrefixFrom(a, a.BitLen()))}
		if a.Is6() {
			x.Flags = unix.IFA_F_NODAD // nobody else has it
		}
		if err := s.handle.AddrAdd(link, x); err != nil {
			return nil, fmt.Errorf("give interface %s of the Pod the address %s: %w", name, a, err)
		}
	}
	if err := s.handle.LinkSetUp(link); err != nil {
		return nil, fmt.Errorf("bring up interface %s of the Pod: %w", name, err)
	}
	for _, g := range got.Gateways {
		at := link.Attrs().Index
		routes := []*netlink.Route{{LinkIndex: at, Dst: network(netip.PrefixFrom(anywhere(g.Is6()), 0)), Gw: g.AsSlice()}}
		if g.Is4() {
			routes = append([]*netlink.Route{{LinkIndex: at, Dst: network(netip.PrefixFrom(g, g.BitLen())), Scope: netlink.SCOPE_LINK}}, routes...)
		}
		for _, r := range routes {
			if err := s.handle.RouteReplace(r); err != nil {
				return nil, fmt.Errorf("route to %s in the Pod: %w", r.Dst, err)
			}
		}
	}
	return link.Attrs().HardwareAddr, nil
}

// set writes a setting of the kernel, if it is another one.
func set(path, value string) error {
	path = filepath.Join("/proc/sys/net", path)
	text, err := os.ReadFile(path)
	if err == nil && strings.TrimSpace(string(text)) != value {
		err = os.WriteFile(path, []byte(value), 0o644)
	}
	if err != nil {
		return fmt.Errorf("set %s to %s: %w", path, value, err)
	}
	return nil
}

func hasSix(list []netip.Addr) bool { return slices.ContainsFunc(list, netip.Addr.Is6) }

// setLink makes settings of a link before it is up. Router advertisements on it are ignored.
func setLink(name string, got *Assigned, atNode bool) error {
	at := filepath.Join("ipv6/conf", name)
	if _, err := os.Stat(filepath.Join("/proc/sys/net", at)); errors.Is(err, os.ErrNotExist) && !hasSix(got.Addresses) {
		return nil // there is no IPv6
	}
	switch {
	case hasSix(got.Addresses):
		if err := errors.Join(set(at+"/disable_ipv6", "0"), set(at+"/accept_ra", "0")); err != nil {
			return err
		}
	case atNode: // a Pod without an address of IPv6 does not speak it with its Node either
		return set(at+"/disable_ipv6", "1")
	}
	return nil
}

// allowPings lets the group of root, as which the agent runs, send echo requests without the right
// to send raw packets, where the host lets no group do it. Pods do not depend on it.
func allowPings() {
	const setting = "ipv4/ping_group_range"
	if text, err := os.ReadFile(filepath.Join("/proc/sys/net", setting)); err == nil && slices.Equal(strings.Fields(string(text)), []string{"1", "0"}) {
		_ = set(setting, "0 0")
	}
}

// setForwarding makes the Node pass packets on. Links that learn their routes from routers go on
// doing so, which a Node that passes packets on would not by default.
func setForwarding(got *Assigned) error {
	allowPings()
	if slices.ContainsFunc(got.Addresses, netip.Addr.Is4) {
		if err := set("ipv4/ip_forward", "1"); err != nil {
			return err
		}
	}
	if !hasSix(got.Addresses) {
		return nil
	}
	const all = "ipv6/conf/all/forwarding"
	if text, err := os.ReadFile(filepath.Join("/proc/sys/net", all)); err == nil && strings.TrimSpace(string(text)) == "1" {
		return nil
	}
	paths, err := filepath.Glob("/proc/sys/net/ipv6/conf/*/accept_ra")
	if err != nil {
		return err
	}
	for _, path := range paths {
		if text, err := os.ReadFile(path); err == nil && strings.TrimSpace(string(text)) == "1" {
			if err := os.WriteFile(path, []byte("2"), 0o644); err != nil {
				return fmt.Errorf("set %s to 2: %w", path, err)
			}
		}
	}
	return set(all, "1")
}

func removeLink(node *netlink.Handle, name string) error {
	link, err := node.LinkByName(name)
	if err == nil {
		err = node.LinkDel(link)
	}
	missing := netlink.LinkNotFoundError{}
	if err == nil || errors.As(err, &missing) || errors.Is(err, unix.ENODEV) {
		return nil
	}
	return fmt.Errorf("remove the link %s to the Pod: %w", name, err)
}

// removePod removes the link to a Pod, with all that was in the Pod. It need not be there.
func removePod(container, iface string) error {
	node, err := openNode()
	if err != nil {
		return err
	}
	defer node.Close()
	return removeLink(node, nodenet.EndName(container, iface))
}

// checkPod looks whether a Pod has what it was given.
func checkPod(args *skel.CmdArgs, about *Attachment) error {
	node, err := openNode()
	if err != nil {
		return err
	}
	defer node.Close()
	if _, err := node.LinkByName(endName(args)); err != nil {
		return fmt.Errorf("the link %s to the Pod: %w", endName(args), err)
	}
	in, err := openSandbox(args.Netns)
	if err != nil {
		return err
	}
	defer in.close()
	link, err := in.handle.LinkByName(args.IfName)
	if err != nil {
		return fmt.Errorf("interface %s of the Pod: %w", args.IfName, err)
	}
	if link.Attrs().Flags&net.FlagUp == 0 {
		return fmt.Errorf("interface %s of the Pod is down", args.IfName)
	}
	for _, a := range about.Addresses {
		family := netlink.FAMILY_V4
		if a.Is6() {
			family = netlink.FAMILY_V6
		}
		have, err := in.handle.AddrList(link, family)
		if err != nil {
			return fmt.Errorf("addresses of interface %s of the Pod: %w", args.IfName, err)
		}
		if !slices.ContainsFunc(have, func(x netlink.Addr) bool { return x.IP.Equal(a.AsSlice()) }) {
			return fmt.Errorf("interface %s of the Pod has lost the address %s", args.IfName, a)
		}
		routes, err := in.handle.RouteList(link, family)
		if err != nil {
			return fmt.Errorf("routes of the Pod: %w", err)
		}
		gateway := net.IP(nodenet.GatewayOf(a.Is6()).AsSlice())
		if !slices.ContainsFunc(routes, func(r netlink.Route) bool { return r.Gw.Equal(gateway) }) {
			return fmt.Errorf("the Pod has lost its route by %s", gateway)
		}
	}
	return nil
}
