package nfttest

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// Host is a network namespace that stands for a host.
type Host struct {
	t  testing.TB
	fd *os.File
	// Handle configures links and addresses.
	Handle *netlink.Handle
}

// NewHost makes a network namespace with its loopback up. Where the process may not do that the
// test is skipped, and says so.
func NewHost(t testing.TB) *Host {
	t.Helper()
	type made struct {
		fd  *os.File
		err error
	}
	c := make(chan made)
	go func() {
		runtime.LockOSThread() // and the thread ends with this goroutine
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			c <- made{nil, err}
			return
		}
		fd, err := os.Open("/proc/thread-self/ns/net")
		c <- made{fd, err}
	}()
	m := <-c
	if m.err != nil {
		t.Skipf("THIS TEST DID NOT RUN: it needs network namespaces, which only root can make: %v", m.err)
	}
	t.Cleanup(func() { _ = m.fd.Close() })
	handle, err := netlink.NewHandleAt(netns.NsHandle(m.fd.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(handle.Close)
	h := &Host{t: t, fd: m.fd, Handle: handle}
	lo, err := handle.LinkByName("lo")
	if err == nil {
		err = handle.LinkSetUp(lo)
	}
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// Do runs f on a thread that is on the host. What f opens belongs to the host.
func (h *Host) Do(f func() error) error {
	c := make(chan error)
	go func() {
		runtime.LockOSThread()
		if err := unix.Setns(int(h.fd.Fd()), unix.CLONE_NEWNET); err != nil {
			c <- err
			return
		}
		c <- f()
	}()
	return <-c
}

// Path leads to the namespace, for other programs.
func (h *Host) Path() string { return fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), h.fd.Fd()) }

var links atomic.Int32

// Connect joins two hosts by a link with the given addresses, which need no neighbour discovery to
// be complete.
func Connect(t testing.TB, a, b *Host, atA, atB []netip.Prefix) {
	t.Helper()
	n := links.Add(1)
	nameA, nameB := fmt.Sprintf("v%da", n), fmt.Sprintf("v%db", n)
	veth := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: nameA}, PeerName: nameB, PeerNamespace: netlink.NsFd(b.fd.Fd())}
	if err := a.Handle.LinkAdd(veth); err != nil {
		t.Fatalf("add link: %v", err)
	}
	for _, end := range []struct {
		host  *Host
		name  string
		addrs []netip.Prefix
	}{{a, nameA, atA}, {b, nameB, atB}} {
		link, err := end.host.Handle.LinkByName(end.name)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range end.addrs {
			addr := &netlink.Addr{IPNet: &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}}
			if p.Addr().Is6() {
				addr.Flags = unix.IFA_F_NODAD
			}
			if err := end.host.Handle.AddrAdd(link, addr); err != nil {
				t.Fatalf("add address %s: %v", p, err)
			}
		}
		if err := end.host.Handle.LinkSetUp(link); err != nil {
			t.Fatal(err)
		}
	}
}
