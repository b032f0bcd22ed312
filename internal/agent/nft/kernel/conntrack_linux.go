package kernel

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"github.com/nephele-io/nephele/internal/agent/nft"
)

// Numbers of ctnetlink that the unix package does not have.
const (
	ctNew = 0
	ctGet = 1

	ctTupleOrig  = 1
	ctTupleReply = 2
	ctStatus     = 3
	ctZone       = 18
	ctLabels     = 22
	ctLabelsMask = 23

	tupleIP    = 1
	tupleProto = 2

	ipSource4      = 1
	ipDestination4 = 2
	ipSource6      = 3
	ipDestination6 = 4

	protoNumber      = 1
	protoSource      = 2
	protoDestination = 3
	protoType        = 5
	protoCode        = 6
	protoType6       = 8
	protoCode6       = 9

	// statusExpected is IPS_EXPECTED: the connection belongs to another one, as the data of FTP do.
	statusExpected = 1
	// labelsAtOnce is how many labels go to the kernel at once.
	labelsAtOnce = 200
)

// Connections are those of the host that conntrack knows. It is safe for concurrent use.
type Connections struct {
	mu     sync.Mutex
	socket *socket
	// Local returns the addresses of the host; by default those of the network namespace of the
	// caller.
	Local func() ([]netip.Addr, error)
	// Through tells that connections that pass through the host are judged as well: on a Node they
	// are those of its Pods.
	Through bool
}

// OpenConnections opens the connections of the network namespace of the calling thread.
func OpenConnections() (*Connections, error) {
	s, err := openSocket()
	if err != nil {
		return nil, err
	}
	return &Connections{socket: s, Local: localAddresses}, nil
}

// Close ends the work with connections, which stay as they are.
func (c *Connections) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.socket.close()
}

func localAddresses() ([]netip.Addr, error) {
	list, err := net.InterfaceAddrs()
	if err != nil {
		return nil, fmt.Errorf("addresses of the host: %w", err)
	}
	var out []netip.Addr
	for _, a := range list {
		if n, ok := a.(*net.IPNet); ok {
			if ip, ok := netip.AddrFromSlice(n.IP); ok {
				out = append(out, ip.Unmap())
			}
		}
	}
	return out, nil
}

// tuple is one direction of a connection.
type tuple struct {
	source, destination         netip.Addr
	protocol                    uint8
	sourcePort, destinationPort uint16
	kind, code                  uint8
}

// connection is one of conntrack.
type connection struct {
	raw         []byte // the tuple that names it
	zone        []byte
	orig, reply tuple
	expected    bool
	dead        bool
}

// Cut marks the connections that a program does not allow as dead, such that its rules drop them in
// both directions, and takes the mark from those that it allows again. It returns how many it has
// marked. Connections that belong to others, as expected by a helper of the kernel, are left alone,
// and so are those that only pass through the host, unless Through says otherwise.
func (c *Connections) Cut(ctx context.Context, p *nft.Program) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	addresses, err := c.Local()
	if err != nil {
		return 0, err
	}
	local := map[netip.Addr]bool{}
	for _, a := range addresses {
		local[a] = true
	}
	var kill, revive []connection
	err = c.socket.ask(unix.NFNL_SUBSYS_CTNETLINK, ctGet, unix.AF_UNSPEC, true, nil, func(_ uint16, body []byte) error {
		x, err := parseConnection(body)
		if err != nil || x.expected {
			return err
		}
		packet, way := x.packet(local)
		if packet.Loopback || way == nft.Passing && !c.Through {
			return nil
		}
		switch allowed := p.JudgeWay(way, packet).Allows(); {
		case !allowed && !x.dead:
			kill = append(kill, x)
		case allowed && x.dead:
			revive = append(revive, x)
		}
		return ctx.Err()
	})
	// What a dump of connections misses while they come and go is found by the next one.
	if err != nil && !errors.Is(err, errInterrupted) {
		return 0, fmt.Errorf("read connections: %w", err)
	}
	n, err := c.label(kill, deadMask())
	if err == nil {
		_, err = c.label(revive, make([]byte, len(deadMask())))
	}
	return n, err
}

// Peers are the other ends of the connections that the host has.
func (c *Connections) Peers() (map[netip.Addr]bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := map[netip.Addr]bool{}
	err := c.socket.ask(unix.NFNL_SUBSYS_CTNETLINK, ctGet, unix.AF_UNSPEC, true, nil, func(_ uint16, body []byte) error {
		x, err := parseConnection(body)
		if err == nil && !x.dead {
			out[x.orig.source], out[x.reply.source] = true, true
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read connections: %w", err)
	}
	return out, nil
}

// packet is the first packet of the connection as rules see it: after the destination was
// translated, and before the source is.
func (x *connection) packet(local map[netip.Addr]bool) (nft.Packet, nft.Way) {
	p := nft.Packet{Source: x.orig.source, Destination: x.reply.source, Protocol: x.orig.protocol, SourcePort: x.orig.sourcePort,
		Port: x.reply.sourcePort, Type: x.orig.kind, Code: x.orig.code, Translated: x.orig.destination != x.reply.source || x.orig.destinationPort != x.reply.sourcePort,
		Original: netip.AddrPortFrom(x.orig.destination, x.orig.destinationPort)}
	from, to := local[p.Source], local[p.Destination]
	p.Loopback = from && to
	switch {
	case from:
		p.Direction = nft.Egress
		return p, nft.Leaving
	case to:
		return p, nft.Arriving
	}
	return p, nft.Passing
}

// label sets the dead label of connections, and returns of how many.
func (c *Connections) label(list []connection, value []byte) (int, error) {
	done, unlabelled := 0, 0
	for chunk := range slices.Chunk(list, labelsAtOnce) {
		var b []byte
		first, last := uint32(0), uint32(0)
		for i, x := range chunk {
			attrs := attr(nil, ctTupleOrig|unix.NLA_F_NESTED, x.raw)
			if x.zone != nil {
				attrs = attr(attrs, ctZone, x.zone)
			}
			attrs = attr(attr(attrs, ctLabels, value), ctLabelsMask, deadMask())
			flags := uint16(0)
			if i == len(chunk)-1 {
				flags = unix.NLM_F_ACK
			}
			family := uint8(unix.AF_INET6)
			if x.orig.source.Is4() {
				family = unix.AF_INET
			}
			b, last = c.socket.append(b, unix.NFNL_SUBSYS_CTNETLINK, ctNew, flags, 0, family, attrs)
			if i == 0 {
				first = last
			}
		}
		if err := c.socket.send(b); err != nil {
			return done, fmt.Errorf("label connections: %w", err)
		}
		var failed error
		failures := 0
		for end := false; !end; {
			err := c.socket.receive(func(kind, _ uint16, seq uint32, body []byte) error {
				if kind != unix.NLMSG_ERROR || seq < first || seq > last {
					return nil
				}
				end = end || seq == last
				switch err := errnoOf(body); {
				case err == nil:
					return nil
				case errors.Is(err, unix.ENOENT): // it has ended by itself
				case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EOPNOTSUPP):
					unlabelled++
				default:
					failed = err
				}
				failures++
				return nil
			})
			if err != nil {
				return done, fmt.Errorf("label connections: %w", err)
			}
		}
		done += len(chunk) - failures
		if failed != nil {
			return done, fmt.Errorf("label connections: %w", failed)
		}
	}
	if unlabelled > 0 {
		return done, fmt.Errorf("%d connections: %w", unlabelled, ErrUnlabelled)
	}
	return done, nil
}

func parseConnection(body []byte) (x connection, err error) {
	var inner error
	note := func(err error) {
		if err != nil {
			inner = err
		}
	}
	err = attributes(body[4:], func(ad *netlink.AttributeDecoder) {
		switch ad.Type() {
		case ctTupleOrig:
			x.raw = slices.Clone(ad.Bytes())
			note(x.orig.parse(x.raw))
		case ctTupleReply:
			note(x.reply.parse(ad.Bytes()))
		case ctStatus:
			x.expected = ad.Uint32()&statusExpected != 0
		case ctZone:
			x.zone = slices.Clone(ad.Bytes())
		case ctLabels:
			labels, mask := ad.Bytes(), deadMask()
			for i := range min(len(labels), len(mask)) {
				x.dead = x.dead || labels[i]&mask[i] != 0
			}
		}
	})
	return x, errors.Join(err, inner)
}

func (t *tuple) parse(b []byte) error {
	var inner error
	note := func(err error) {
		if err != nil {
			inner = err
		}
	}
	err := attributes(b, func(ad *netlink.AttributeDecoder) {
		switch ad.Type() {
		case tupleIP:
			note(attributes(ad.Bytes(), func(ad *netlink.AttributeDecoder) {
				a, _ := netip.AddrFromSlice(ad.Bytes())
				switch ad.Type() {
				case ipSource4, ipSource6:
					t.source = a
				case ipDestination4, ipDestination6:
					t.destination = a
				}
			}))
		case tupleProto:
			note(attributes(ad.Bytes(), func(ad *netlink.AttributeDecoder) {
				switch ad.Type() {
				case protoNumber:
					t.protocol = ad.Uint8()
				case protoSource:
					t.sourcePort = ad.Uint16()
				case protoDestination:
					t.destinationPort = ad.Uint16()
				case protoType, protoType6:
					t.kind = ad.Uint8()
				case protoCode, protoCode6:
					t.code = ad.Uint8()
				}
			}))
		}
	})
	return errors.Join(err, inner)
}
