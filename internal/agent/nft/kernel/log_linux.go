package kernel

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"sync"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"github.com/nephele-io/nephele/internal/agent/nft/kernel/netfilter"
)

// LogGroup is the group of nflog that our rules log to.
const LogGroup = 5747

// Numbers of the nflog subsystem, from linux/netfilter/nfnetlink_log.h.
const (
	logPacket       = 0
	logConfig       = 1
	logConfigCmd    = 1
	logConfigMode   = 2
	logConfigFlags  = 6
	logCommandBind  = 1
	logCopyPacket   = 2
	logAttrPayload  = 9
	logAttrPrefix   = 10
	logAttrSequence = 12
	logFlagSequence = 1
)

// LogReader receives what our rules log.
type LogReader struct {
	socket *netfilter.Socket
	closed chan struct{}
	once   sync.Once
	// next is the number of the packet that comes next, if any came before.
	next    uint32
	started bool
}

// OpenLog begins to receive, in the network namespace of the calling thread. ErrLog is among the
// errors if somebody else receives it.
func OpenLog() (*LogReader, error) {
	s, err := netfilter.Open(netfilter.PacketBuffer)
	if err != nil {
		return nil, err
	}
	r := &LogReader{socket: s, closed: make(chan struct{})}
	mode := append(binary.BigEndian.AppendUint32(nil, logBytes), logCopyPacket, 0)
	attrs := netfilter.Attr(nil, logConfigCmd, []byte{logCommandBind})
	attrs = netfilter.Attr(attrs, logConfigMode, mode)
	attrs = netfilter.Attr(attrs, logConfigFlags, binary.BigEndian.AppendUint16(nil, logFlagSequence))
	if err := s.Listen(unix.NFNL_SUBSYS_ULOG, logConfig, LogGroup, attrs); err != nil {
		_ = s.Close()
		if errors.Is(err, unix.EPERM) {
			err = fmt.Errorf("%w: %w", ErrLog, err)
		}
		return nil, fmt.Errorf("nflog group %d: %w", LogGroup, err)
	}
	return r, nil
}

// Close ends Run.
func (r *LogReader) Close() { r.once.Do(func() { close(r.closed) }) }

// Run calls each for every packet until Close. Lost is how many packets went missing before this
// one because too many came at once.
func (r *LogReader) Run(each func(p Logged, lost uint32)) error {
	defer func() { _ = r.socket.Close() }()
	for {
		select {
		case <-r.closed:
			return nil
		default:
		}
		err := r.socket.Receive(func(kind, _ uint16, _ uint32, body []byte) error {
			if kind != unix.NFNL_SUBSYS_ULOG<<8|logPacket || len(body) < 4 {
				return nil
			}
			p, sequence, err := parseLogged(body)
			if err != nil {
				return nil // not of our making
			}
			lost := sequence - r.next
			if !r.started {
				lost, r.started = 0, true
			}
			r.next = sequence + 1
			each(p, lost)
			return nil
		})
		// ENOBUFS tells that some were lost; the numbers of those that come tell how many.
		if err != nil && !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.ENOBUFS) {
			return fmt.Errorf("read nflog: %w", err)
		}
	}
}

func parseLogged(body []byte) (p Logged, sequence uint32, err error) {
	var payload []byte
	err = netfilter.Attributes(body[4:], func(ad *netlink.AttributeDecoder) {
		switch ad.Type() {
		case logAttrPrefix:
			p.Rule = ad.String()
		case logAttrPayload:
			payload = ad.Bytes()
		case logAttrSequence:
			sequence = ad.Uint32()
		}
	})
	if err == nil {
		err = p.parse(payload)
	}
	return p, sequence, err
}

var errShort = errors.New("the packet is too short")

// parse reads the headers of a packet. Behind extensions of IPv6 the protocol is that of the first
// one, without ports.
func (p *Logged) parse(b []byte) error {
	if len(b) < 20 {
		return errShort
	}
	rest := 0
	switch b[0] >> 4 {
	case 4:
		rest = int(b[0]&15) * 4
		p.Source, p.Destination, p.Protocol = netip.AddrFrom4([4]byte(b[12:16])), netip.AddrFrom4([4]byte(b[16:20])), b[9]
		p.Length = int(binary.BigEndian.Uint16(b[2:]))
	case 6:
		if rest = 40; len(b) < rest {
			return errShort
		}
		p.Source, p.Destination, p.Protocol = netip.AddrFrom16([16]byte(b[8:24])), netip.AddrFrom16([16]byte(b[24:40])), b[6]
		p.Length = 40 + int(binary.BigEndian.Uint16(b[4:]))
	default:
		return errShort
	}
	switch p.Protocol {
	case unix.IPPROTO_TCP, unix.IPPROTO_UDP, unix.IPPROTO_SCTP:
		if len(b) < rest+4 {
			return errShort
		}
		p.SourcePort, p.Port = binary.BigEndian.Uint16(b[rest:]), binary.BigEndian.Uint16(b[rest+2:])
	}
	return nil
}
