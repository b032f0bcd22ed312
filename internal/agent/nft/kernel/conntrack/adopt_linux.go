package conntrack

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"

	diag "github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

const (
	// tcpLifetime and udpLifetime are for how many seconds conntrack knows a connection without
	// packets: what the kernel does by default.
	tcpLifetime = 432000
	udpLifetime = 120
	// socketListens is TCP_LISTEN.
	socketListens = 10
	// socketUnconnected is TCP_CLOSE, the state of a socket of UDP that has no other end.
	socketUnconnected = 7
)

// portRange are ports, both ends included.
type portRange struct{ first, last uint16 }

func (r portRange) has(port uint16) bool { return r.first <= port && port <= r.last }

// ephemeralPorts is where kernels give ports to sockets that connect, as this one is configured.
func ephemeralPorts() portRange {
	out := portRange{32768, 60999}
	if text, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range"); err == nil {
		_, _ = fmt.Sscan(strings.TrimSpace(string(text)), &out.first, &out.last) // it stays as it is by default
	}
	return out
}

// sockets are the sockets of the host.
type sockets struct {
	// open are the connections, written from the host to the other end, whichever end is the
	// client.
	open []tuple
	// listening are the addresses at which somebody listens, by port. The unspecified one stands
	// for all.
	listening map[uint16][]netip.Addr
	ephemeral portRange
}

// readSockets reads the sockets of TCP or UDP. It also returns what it has found with an error.
func (c *Connections) readSockets(protocol uint8) (*sockets, error) {
	out := &sockets{listening: map[uint16][]netip.Addr{}, ephemeral: c.ephemeral}
	read := c.sockets.SocketDiagTCP
	if protocol == unix.IPPROTO_UDP {
		read = c.sockets.SocketDiagUDP
	}
	for _, family := range []uint8{unix.AF_INET, unix.AF_INET6} {
		list, err := read(family)
		if err != nil && !errors.Is(err, diag.ErrDumpInterrupted) {
			return out, fmt.Errorf("read the sockets of the host: %w", err)
		}
		for _, s := range list {
			here, there := addressOf(s.ID.Source), addressOf(s.ID.Destination)
			switch {
			case s.State == socketListens, protocol == unix.IPPROTO_UDP && s.State == socketUnconnected:
				out.listening[s.ID.SourcePort] = append(out.listening[s.ID.SourcePort], here)
			case s.ID.SourcePort != 0 && s.ID.DestinationPort != 0 && carries(s.State):
				out.open = append(out.open, tuple{source: here, destination: there, protocol: protocol, sourcePort: s.ID.SourcePort, destinationPort: s.ID.DestinationPort})
			}
		}
	}
	return out, nil
}

func addressOf(ip net.IP) netip.Addr {
	a, _ := netip.AddrFromSlice(ip)
	return a.Unmap()
}

// carries reports whether a socket in a state may still send or receive data: ESTABLISHED,
// FIN_WAIT1, FIN_WAIT2 and CLOSE_WAIT.
func carries(state uint8) bool { return state == 1 || state == 4 || state == 5 || state == 8 }

// maker is which end has made a connection.
type maker uint8

const (
	makerUnknown maker = iota
	makerSource
	makerDestination
)

// maker says which end of a connection is the client: not the end that listens; else the end with
// an ephemeral port, if the other port is below the range of these.
func (s *sockets) maker(t tuple, local map[netip.Addr]bool) maker {
	switch {
	case local[t.source] && s.listens(t.source, t.sourcePort):
		return makerDestination
	case local[t.destination] && s.listens(t.destination, t.destinationPort):
		return makerSource
	}
	from, to := s.ephemeral.has(t.sourcePort), s.ephemeral.has(t.destinationPort)
	switch {
	case from && !to && t.destinationPort < s.ephemeral.first:
		return makerSource
	case to && !from && t.sourcePort < s.ephemeral.first:
		return makerDestination
	}
	return makerUnknown
}

func (s *sockets) listens(at netip.Addr, port uint16) bool {
	for _, a := range s.listening[port] {
		if a == at || a.IsUnspecified() && (a.Is6() || at.Is4()) {
			return true
		}
	}
	return false
}

// Adopt makes conntrack know the connections of TCP and UDP that sockets of the host have. It is
// for the moment at which conntrack begins to follow connections: it would take the end whose
// packet it sees first for the one that has made the connection, and rules would judge it the wrong
// way round.
func (c *Connections) Adopt() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	local, err := c.localSet()
	if err != nil {
		return err
	}
	var errs []error
	for _, protocol := range []uint8{unix.IPPROTO_TCP, unix.IPPROTO_UDP} {
		found, err := c.readSockets(protocol)
		_, failed := c.adopt(found, local, func(tuple) bool { return false })
		errs = append(errs, err, failed)
	}
	return errors.Join(errs...)
}

// adopt makes conntrack know the connections of sockets that were not known, and returns those.
func (c *Connections) adopt(s *sockets, local map[netip.Addr]bool, known func(tuple) bool) ([]connection, error) {
	var list []connection
	var requests []request
	for _, t := range s.open {
		if known(t) || local[t.destination] || t.source.IsLoopback() || t.source.IsLinkLocalUnicast() && t.source.Is6() && t.destination.IsMulticast() {
			continue
		}
		by := s.maker(t, local)
		if by == makerUnknown && t.protocol == unix.IPPROTO_UDP {
			continue // nothing would tell later that it is not known
		}
		if by == makerDestination {
			t = t.back()
		}
		x := connection{orig: t, reply: t.back(), pickedUp: t.protocol == unix.IPPROTO_TCP}
		x.raw = t.marshal()
		list = append(list, x)
		requests = append(requests, request{kind: ctNew, flags: unix.NLM_F_CREATE | unix.NLM_F_EXCL, family: x.family(), attrs: x.made()})
	}
	errs, err := c.send(requests)
	var out []connection
	for i, x := range list {
		// Conntrack may have seen a packet of it meanwhile.
		if e := errs[i]; e == nil || errors.Is(e, unix.EEXIST) || errors.Is(e, unix.EBUSY) {
			out = append(out, x)
		} else {
			err = errors.Join(err, e)
		}
	}
	if err != nil {
		return out, fmt.Errorf("make known connections that are older than the rules: %w", err)
	}
	return out, nil
}
