package nfttest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Result is what the client of an attempt saw.
type Result string

// The results.
const (
	Passed   Result = "passed"
	Silent   Result = "silent"
	Rejected Result = "rejected"
)

// Attempt is one connection.
type Attempt struct {
	// From is the host of the client, which uses the address Source, and To where it connects.
	From                *Host
	Source, Destination netip.AddrPort
	// Network is tcp, udp, or icmp, where ports do not count.
	Network string
}

// Serve answers on ports of TCP and UDP of a host, by its given addresses, until the test ends:
// bytes come back as they are.
func Serve(t testing.TB, h *Host, first, last uint16, addresses ...netip.Addr) {
	t.Helper()
	err := h.Do(func() error {
		// Everybody may ping, and errors by ICMP are not limited in number, as they are by default:
		// 1 a second to an address.
		for name, value := range map[string]string{"ipv4/ping_group_range": "0 2147483647", "ipv4/icmp_ratelimit": "0", "ipv6/icmp/ratelimit": "0"} {
			if err := os.WriteFile("/proc/sys/net/"+name, []byte(value), 0o644); err != nil {
				return err
			}
		}
		for port := first; port <= last; port++ {
			l, err := net.Listen("tcp", net.JoinHostPort("::", strconv.Itoa(int(port))))
			if err != nil {
				return err
			}
			t.Cleanup(func() { _ = l.Close() })
			go func() {
				for {
					c, err := l.Accept()
					if err != nil {
						return
					}
					go func() {
						_, _ = io.Copy(c, c)
						_ = c.Close()
					}()
				}
			}()
			for _, a := range addresses { // one for each, so that answers come from where they are expected
				if err := echo(t, netip.AddrPortFrom(a, port)); err != nil {
					return err
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func echo(t testing.TB, at netip.AddrPort) error {
	p, err := net.ListenPacket("udp", at.String())
	if err != nil {
		return err
	}
	t.Cleanup(func() { _ = p.Close() })
	go func() {
		b := make([]byte, 100)
		for {
			n, from, err := p.ReadFrom(b)
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if err == nil {
				_, _ = p.WriteTo(b[:n], from)
			}
		}
	}()
	return nil
}

// Run makes the attempt and waits up to a limit for an answer. An error is one of the test.
func (a Attempt) Run(limit time.Duration) (result Result, err error) {
	outer := a.From.Do(func() error {
		if a.Network == "icmp" {
			result, err = a.ping(limit)
			return nil
		}
		c, dialErr := a.dial(limit)
		if dialErr != nil {
			result, err = resultOf(dialErr)
			return nil
		}
		defer func() { _ = c.Close() }()
		if a.Network == "tcp" {
			_ = c.(*net.TCPConn).SetLinger(0)
			result = Passed
			return nil
		}
		_ = c.SetDeadline(time.Now().Add(limit))
		_, dialErr = c.Write([]byte("x"))
		if dialErr == nil || errors.Is(dialErr, unix.EPERM) { // it was stopped here, and reading tells how
			_, dialErr = c.Read(make([]byte, 1))
		}
		result, err = resultOf(dialErr)
		return nil
	})
	return result, errors.Join(outer, err)
}

// Open makes a connection that stays.
func (a Attempt) Open(limit time.Duration) (c net.Conn, err error) {
	outer := a.From.Do(func() error {
		c, err = a.dial(limit)
		return nil
	})
	return c, errors.Join(outer, err)
}

func (a Attempt) dial(limit time.Duration) (net.Conn, error) {
	d := net.Dialer{Timeout: limit, LocalAddr: net.TCPAddrFromAddrPort(a.Source)}
	if a.Network == "udp" {
		d.LocalAddr = net.UDPAddrFromAddrPort(a.Source)
	}
	d.ControlContext = func(_ context.Context, _, _ string, c syscall.RawConn) error {
		return c.Control(func(fd uintptr) { _ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEADDR, 1) })
	}
	return d.Dial(a.Network, a.Destination.String())
}

func resultOf(err error) (Result, error) {
	var timeout net.Error
	switch {
	case err == nil:
		return Passed, nil
	case errors.Is(err, unix.ECONNREFUSED), errors.Is(err, unix.EHOSTUNREACH), errors.Is(err, unix.EACCES), errors.Is(err, unix.ECONNRESET):
		return Rejected, nil
	case errors.Is(err, unix.EPERM), errors.As(err, &timeout) && timeout.Timeout():
		return Silent, nil
	}
	return "", err
}

// ping sends an echo request from an ICMP socket.
func (a Attempt) ping(limit time.Duration) (Result, error) {
	family, protocol, request := unix.AF_INET, unix.IPPROTO_ICMP, byte(8)
	if a.Source.Addr().Is6() {
		family, protocol, request = unix.AF_INET6, unix.IPPROTO_ICMPV6, 128
	}
	fd, err := unix.Socket(family, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, protocol)
	if err != nil {
		return "", fmt.Errorf("icmp socket: %w", err)
	}
	defer func() { _ = unix.Close(fd) }()
	wait := unix.NsecToTimeval(limit.Nanoseconds())
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &wait); err != nil {
		return "", err
	}
	address := func(a netip.Addr) unix.Sockaddr {
		if a.Is4() {
			return &unix.SockaddrInet4{Addr: a.As4()}
		}
		return &unix.SockaddrInet6{Addr: a.As16()}
	}
	if err := unix.Bind(fd, address(a.Source.Addr())); err != nil {
		return "", err
	}
	if err = unix.Connect(fd, address(a.Destination.Addr())); err == nil {
		if _, err = unix.Write(fd, []byte{request, 0, 0, 0, 0, 0, 0, 1}); err == nil || errors.Is(err, unix.EPERM) {
			_, err = unix.Read(fd, make([]byte, 64))
		}
	}
	if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR) {
		return Silent, nil
	}
	return resultOf(err)
}

// String names the attempt.
func (a Attempt) String() string {
	return strings.Join([]string{a.Network, a.Source.String(), "to", a.Destination.String()}, " ")
}
