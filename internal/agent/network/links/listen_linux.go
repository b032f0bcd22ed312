package links

import (
	"context"
	"errors"
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// ListenWhole opens a socket of UDP whose packets are not cut into pieces.
func ListenWhole(ctx context.Context, network, address string) (net.PacketConn, error) {
	c := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		var failed error
		err := c.Control(func(fd uintptr) {
			// A socket is of one family, and the other option fails there.
			failed = unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_PROBE)
			if six := unix.SetsockoptInt(int(fd), unix.IPPROTO_IPV6, unix.IPV6_MTU_DISCOVER, unix.IPV6_PMTUDISC_PROBE); six == nil {
				failed = nil
			}
		})
		return errors.Join(err, failed)
	}}
	return c.ListenPacket(ctx, network, address)
}
