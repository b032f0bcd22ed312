package conntrack

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"

	diag "github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/nephele-io/nephele/internal/agent/nft/kernel/netfilter"
	"github.com/nephele-io/nephele/internal/agent/nft/ruleset"
)

// Numbers of ctnetlink that the unix package does not have.
const (
	ctNew    = 0
	ctGet    = 1
	ctDelete = 2

	ctTupleOrig  = 1
	ctTupleReply = 2
	ctStatus     = 3
	ctProtoInfo  = 4
	ctTimeout    = 7
	ctZone       = 18
	ctLabels     = 22
	ctLabelsMask = 23

	protoInfoTCP  = 1
	tcpState      = 1
	tcpFlagsOrig  = 4
	tcpFlagsReply = 5
	// tcpLiberal is IP_CT_TCP_FLAG_BE_LIBERAL: conntrack does not know the windows of this end,
	// because it has not seen the connection being made.
	tcpLiberal = 8
	// tcpEstablished is TCP_CONNTRACK_ESTABLISHED.
	tcpEstablished = 3

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
	// The others are IPS_SEEN_REPLY, IPS_ASSURED and IPS_CONFIRMED.
	statusExpected  = 1
	statusSeenReply = 2
	statusAssured   = 4
	statusConfirmed = 8
	// requestsAtOnce is how many requests about connections go to the kernel at once.
	requestsAtOnce = 200
)

// Connections are the connections of the host that conntrack knows. It is safe for concurrent use.
type Connections struct {
	mu     sync.Mutex
	socket *netfilter.Socket
	// Local returns the addresses of the host; by default the addresses of the network namespace of
	// the caller.
	Local func() ([]netip.Addr, error)
	// Through tells that connections that pass through the host are judged as well: on a Node
	// the connections of its Pods.
	Through bool
	// sockets reads sockets and links of the host, ephemeral is where the kernel gives ports
	// to those that connect.
	sockets   *diag.Handle
	ephemeral portRange
}

// Open opens the connections of the network namespace of the calling thread.
func Open() (*Connections, error) {
	s, err := netfilter.Open(netfilter.AnswerBuffer)
	if err != nil {
		return nil, err
	}
	sockets, err := diag.NewHandle(unix.NETLINK_INET_DIAG, unix.NETLINK_ROUTE)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("read the sockets of the host: %w", err), s.Close())
	}
	return &Connections{socket: s, Local: LocalAddresses, sockets: sockets, ephemeral: ephemeralPorts()}, nil
}

// Close ends the work with connections, which stay as they are.
func (c *Connections) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sockets.Close()
	return c.socket.Close()
}

// LocalAddresses are the addresses of the network namespace of the calling thread.
func LocalAddresses() ([]netip.Addr, error) {
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
	// pickedUp tells that conntrack has not seen it being made. It took for the way of the
	// connection that of the packet that it saw first.
	pickedUp bool
}

// translated reports whether addresses or ports are translated.
func (x *connection) translated() bool {
	return x.orig.ends() != x.reply.back()
}

// Cut marks the connections that a program does not allow as dead, such that its rules drop them in
// both directions, and takes the mark from those that it allows again. It returns how many it has
// marked. Connections that belong to others, as expected by a helper of the kernel, are left alone,
// and so are those that only pass through the host, unless Through says otherwise.
//
// For a connection that is older than the rules, conntrack does not know which end is the client.
// The sockets of the host show it, or the ports; else the connection continues if it is allowed in
// either direction. Cut first adds connections that conntrack does not know at all.
func (c *Connections) Cut(ctx context.Context, p *ruleset.Program) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	local, err := c.localSet()
	if err != nil {
		return 0, err
	}
	// Connections are judged also where sockets cannot be read.
	sockets, unread := c.readSockets(unix.IPPROTO_TCP)
	known := map[tuple]bool{}
	var kill, revive []connection
	var bridges *bridges
	if p.Chains[string(ruleset.ForwardedOut)] != nil {
		if bridges, err = readBridges(c.sockets); err != nil {
			return 0, err
		}
	}
	judge := func(x connection) {
		if c.judge(p, &x, local, bridges, sockets) {
			if x.dead {
				revive = append(revive, x)
			}
		} else if !x.dead {
			kill = append(kill, x)
		}
	}
	err = c.socket.Ask(unix.NFNL_SUBSYS_CTNETLINK, ctGet, unix.AF_UNSPEC, true, nil, func(_ uint16, body []byte) error {
		x, err := parseConnection(body)
		if err != nil {
			return err
		}
		if x.orig.protocol == unix.IPPROTO_TCP {
			known[x.orig.ends()], known[x.reply.ends()] = true, true
		}
		if !x.expected {
			judge(x)
		}
		return ctx.Err()
	})
	interrupted := errors.Is(err, netfilter.ErrInterrupted)
	// What a dump of connections misses while they come and go is found by the next one.
	if err != nil && !interrupted {
		return 0, fmt.Errorf("read connections: %w", err)
	}
	adopted, err := c.adopt(sockets, local, func(t tuple) bool { return known[t] })
	for _, x := range adopted {
		judge(x)
	}
	n, cutErr := c.label(kill, netfilter.DeadMask())
	if cutErr == nil {
		_, cutErr = c.label(revive, make([]byte, len(netfilter.DeadMask())))
	}
	return n, errors.Join(cutErr, err, unread)
}

// judge reports whether a connection may go on.
func (c *Connections) judge(p *ruleset.Program, x *connection, local map[netip.Addr]bool, bridges *bridges, sockets *sockets) bool {
	packet, way := x.packet(local)
	if packet.Loopback || way == ruleset.Passing && !c.Through {
		return true
	}
	allows := func(packet ruleset.Packet, way ruleset.Way) bool {
		if way == ruleset.Passing {
			packet.FromBridge, packet.ToBridge = packet.FromBridge || bridges.lead(packet.Source), bridges.lead(packet.Destination)
		}
		return p.JudgeWay(way, packet).Allows()
	}
	if !x.pickedUp {
		return allows(packet, way)
	}
	back, wayBack := x.reversed().packet(local)
	switch sockets.maker(x.orig, local) {
	case makerSource:
		return allows(packet, way)
	case makerDestination:
		return allows(back, wayBack)
	}
	return allows(packet, way) || allows(back, wayBack)
}

// reversed is the connection as if the other end had made it.
func (x *connection) reversed() *connection {
	return &connection{orig: x.reply, reply: x.orig}
}

func (c *Connections) localSet() (map[netip.Addr]bool, error) {
	addresses, err := c.Local()
	if err != nil {
		return nil, err
	}
	local := map[netip.Addr]bool{}
	for _, a := range addresses {
		local[a] = true
	}
	return local, nil
}

// Peers are the other ends of the connections that the host has.
func (c *Connections) Peers() (map[netip.Addr]bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := map[netip.Addr]bool{}
	err := c.socket.Ask(unix.NFNL_SUBSYS_CTNETLINK, ctGet, unix.AF_UNSPEC, true, nil, func(_ uint16, body []byte) error {
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
func (x *connection) packet(local map[netip.Addr]bool) (ruleset.Packet, ruleset.Way) {
	p := ruleset.Packet{Source: x.orig.source, Destination: x.reply.source, Protocol: x.orig.protocol, SourcePort: x.orig.sourcePort,
		Port: x.reply.sourcePort, Type: x.orig.kind, Code: x.orig.code, Translated: x.orig.destination != x.reply.source || x.orig.destinationPort != x.reply.sourcePort,
		Original: netip.AddrPortFrom(x.orig.destination, x.orig.destinationPort)}
	from, to := local[p.Source], local[p.Destination]
	p.Loopback = from && to
	switch {
	case from:
		p.Direction = ruleset.Egress
		return p, ruleset.Leaving
	case to:
		return p, ruleset.Arriving
	}
	// A guest whose address the host masquerades is on one of its bridges as far as conntrack can
	// tell; see also bridges.
	p.FromBridge = x.orig.source != x.reply.destination
	return p, ruleset.Passing
}

// label sets the dead label of connections, and returns of how many.
func (c *Connections) label(list []connection, value []byte) (int, error) {
	requests := make([]request, len(list))
	for i := range list {
		x := &list[i]
		requests[i] = request{kind: ctNew, family: x.family(), attrs: labelled(x.name(), value)}
	}
	errs, err := c.send(requests)
	unlabelled := 0
	done := len(list) - len(errs)
	var failed error
	var again []connection
	for i, e := range errs {
		switch {
		case errors.Is(e, unix.ENOENT): // it has ended by itself
		case errors.Is(e, unix.ENOSPC), errors.Is(e, unix.EOPNOTSUPP):
			if again = append(again, list[i]); list[i].translated() {
				again, unlabelled = again[:len(again)-1], unlabelled+1
			}
		default:
			failed = e
		}
	}
	if err == nil {
		var renewed int
		renewed, err = c.renew(again, value)
		done, unlabelled = done+renewed, unlabelled+len(again)-renewed
	}
	if err = errors.Join(err, failed); err != nil {
		return done, fmt.Errorf("label connections: %w", err)
	}
	if unlabelled > 0 {
		return done, fmt.Errorf("%d connections: %w", unlabelled, ErrUnlabelled)
	}
	return done, nil
}

// renew replaces connections that have no room for labels, because they are older than the first
// rule that uses some, by such that have, and labels them. It returns how many.
func (c *Connections) renew(list []connection, value []byte) (int, error) {
	done := 0
	for i := range list {
		x := &list[i]
		if p := x.orig.protocol; p != unix.IPPROTO_TCP && p != unix.IPPROTO_UDP {
			continue
		}
		errs, err := c.send([]request{
			{kind: ctDelete, family: x.family(), attrs: x.name()},
			{kind: ctNew, flags: unix.NLM_F_CREATE | unix.NLM_F_EXCL, family: x.family(), attrs: labelled(x.made(), value)},
		})
		if err != nil {
			return done, err
		}
		if len(errs) == 0 {
			done++
		}
	}
	return done, nil
}

// request is a request about a connection.
type request struct {
	kind, flags uint16
	family      uint8
	attrs       []byte
}

// send sends requests, and returns the errors of those that have failed, by their places.
func (c *Connections) send(list []request) (map[int]error, error) {
	errs := map[int]error{}
	for start := 0; start < len(list); start += requestsAtOnce {
		chunk := list[start:min(start+requestsAtOnce, len(list))]
		var b []byte
		first, last := uint32(0), uint32(0)
		for i, r := range chunk {
			flags := r.flags
			if i == len(chunk)-1 {
				flags |= unix.NLM_F_ACK
			}
			b, last = c.socket.Append(b, unix.NFNL_SUBSYS_CTNETLINK, r.kind, flags, 0, r.family, r.attrs)
			if i == 0 {
				first = last
			}
		}
		if err := c.socket.Send(b); err != nil {
			return errs, err
		}
		for end := false; !end; {
			err := c.socket.Receive(func(kind, _ uint16, seq uint32, body []byte) error {
				if kind != unix.NLMSG_ERROR || seq < first || seq > last {
					return nil
				}
				end = end || seq == last
				if err := netfilter.Errno(body); err != nil {
					errs[start+int(seq-first)] = err
				}
				return nil
			})
			if err != nil {
				return errs, err
			}
		}
	}
	return errs, nil
}

// name is what names the connection in requests.
func (x *connection) name() []byte {
	attrs := netfilter.Attr(nil, ctTupleOrig|unix.NLA_F_NESTED, x.raw)
	if x.zone != nil {
		attrs = netfilter.Attr(attrs, ctZone, x.zone)
	}
	return attrs
}

// made is what makes conntrack know the connection as one that is established.
func (x *connection) made() []byte {
	attrs := netfilter.Attr(nil, ctTupleOrig|unix.NLA_F_NESTED, x.orig.marshal())
	attrs = netfilter.Attr(attrs, ctTupleReply|unix.NLA_F_NESTED, x.reply.marshal())
	attrs = netfilter.Number(attrs, ctStatus, statusConfirmed|statusAssured|statusSeenReply)
	lifetime := uint32(udpLifetime)
	if x.orig.protocol == unix.IPPROTO_TCP {
		lifetime = tcpLifetime
		flags := []byte{tcpLiberal, tcpLiberal}
		info := netfilter.Attr(netfilter.Attr(netfilter.Attr(nil, tcpState, []byte{tcpEstablished}), tcpFlagsOrig, flags), tcpFlagsReply, flags)
		attrs = netfilter.Nest(attrs, ctProtoInfo, netfilter.Nest(nil, protoInfoTCP, info))
	}
	attrs = netfilter.Number(attrs, ctTimeout, lifetime)
	if x.zone != nil {
		attrs = netfilter.Attr(attrs, ctZone, x.zone)
	}
	return attrs
}

func labelled(attrs, value []byte) []byte {
	return netfilter.Attr(netfilter.Attr(attrs, ctLabels, value), ctLabelsMask, netfilter.DeadMask())
}

func (x *connection) family() uint8 {
	if x.orig.source.Is4() {
		return unix.AF_INET
	}
	return unix.AF_INET6
}

// parseConnection reads a connection, which stays what it is.
func parseConnection(body []byte) (x connection, err error) {
	err = x.parse(body)
	x.raw, x.zone = slices.Clone(x.raw), slices.Clone(x.zone)
	return x, err
}

// parse reads a connection. What names it is a part of the body. It allocates nothing: of events
// there are thousands in a second.
func (x *connection) parse(body []byte) (err error) {
	if len(body) < 4 {
		return errMalformed
	}
	for b := body[4:]; len(b) > 0; {
		var kind uint16
		var data []byte
		if kind, data, b, err = nextAttribute(b); err != nil {
			return err
		}
		switch kind {
		case ctTupleOrig:
			x.raw = data
			err = x.orig.parse(data)
		case ctTupleReply:
			err = x.reply.parse(data)
		case ctStatus:
			if len(data) < 4 {
				return errMalformed
			}
			x.expected = binary.BigEndian.Uint32(data)&statusExpected != 0
		case ctProtoInfo:
			x.pickedUp, err = isPickedUp(data)
		case ctZone:
			x.zone = data
		case ctLabels:
			mask := netfilter.DeadMask()
			for i := range min(len(data), len(mask)) {
				x.dead = x.dead || data[i]&mask[i] != 0
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// errMalformed is the error of a message that is none.
var errMalformed = errors.New("the kernel's message is malformed")

// nextAttribute takes the first attribute off a list, without the flags of its kind.
func nextAttribute(b []byte) (kind uint16, data, rest []byte, err error) {
	if len(b) < unix.SizeofNlAttr {
		return 0, nil, nil, errMalformed
	}
	size := int(binary.NativeEndian.Uint16(b))
	if size < unix.SizeofNlAttr || size > len(b) {
		return 0, nil, nil, errMalformed
	}
	kind = binary.NativeEndian.Uint16(b[2:]) &^ (unix.NLA_F_NESTED | unix.NLA_F_NET_BYTEORDER)
	return kind, b[unix.SizeofNlAttr:size], b[min((size+unix.NLA_ALIGNTO-1)&^(unix.NLA_ALIGNTO-1), len(b)):], nil
}

// isPickedUp reports whether conntrack knows the windows of neither end of a connection of TCP.
func isPickedUp(info []byte) (bool, error) {
	liberal := 0
	for b := info; len(b) > 0; {
		kind, tcp, rest, err := nextAttribute(b)
		if err != nil {
			return false, err
		}
		if b = rest; kind != protoInfoTCP {
			continue
		}
		for len(tcp) > 0 {
			var data []byte
			if kind, data, tcp, err = nextAttribute(tcp); err != nil {
				return false, err
			}
			if (kind == tcpFlagsOrig || kind == tcpFlagsReply) && len(data) > 0 && data[0]&tcpLiberal != 0 {
				liberal++
			}
		}
	}
	return liberal == 2, nil
}

// ends is the tuple without what tells kinds of ICMP apart.
func (t tuple) ends() tuple {
	return tuple{source: t.source, destination: t.destination, protocol: t.protocol, sourcePort: t.sourcePort, destinationPort: t.destinationPort}
}

// back is the tuple of what the destination answers.
func (t tuple) back() tuple {
	return tuple{source: t.destination, destination: t.source, protocol: t.protocol, sourcePort: t.destinationPort, destinationPort: t.sourcePort}
}

func (t tuple) marshal() []byte {
	from, to := uint16(ipSource4), uint16(ipDestination4)
	if t.source.Is6() {
		from, to = ipSource6, ipDestination6
	}
	port := func(n uint16) []byte { return binary.BigEndian.AppendUint16(nil, n) }
	b := netfilter.Nest(nil, tupleIP, netfilter.Attr(netfilter.Attr(nil, from, t.source.AsSlice()), to, t.destination.AsSlice()))
	ports := netfilter.Attr(netfilter.Attr(nil, protoNumber, []byte{t.protocol}), protoSource, port(t.sourcePort))
	return netfilter.Nest(b, tupleProto, netfilter.Attr(ports, protoDestination, port(t.destinationPort)))
}

func (t *tuple) parse(b []byte) error {
	for len(b) > 0 {
		kind, nested, rest, err := nextAttribute(b)
		if err != nil {
			return err
		}
		b = rest
		for len(nested) > 0 && (kind == tupleIP || kind == tupleProto) {
			var inner uint16
			var data []byte
			if inner, data, nested, err = nextAttribute(nested); err != nil {
				return err
			}
			if kind == tupleIP {
				a, _ := netip.AddrFromSlice(data)
				switch inner {
				case ipSource4, ipSource6:
					t.source = a
				case ipDestination4, ipDestination6:
					t.destination = a
				}
			} else if err := t.parseProto(inner, data); err != nil {
				return err
			}
		}
	}
	return nil
}

func (t *tuple) parseProto(kind uint16, data []byte) error {
	switch kind {
	case protoSource, protoDestination:
		if len(data) < 2 {
			return errMalformed
		}
	case protoNumber, protoType, protoType6, protoCode, protoCode6:
		if len(data) < 1 {
			return errMalformed
		}
	}
	switch kind {
	case protoNumber:
		t.protocol = data[0]
	case protoSource:
		t.sourcePort = binary.BigEndian.Uint16(data)
	case protoDestination:
		t.destinationPort = binary.BigEndian.Uint16(data)
	case protoType, protoType6:
		t.kind = data[0]
	case protoCode, protoCode6:
		t.code = data[0]
	}
	return nil
}
