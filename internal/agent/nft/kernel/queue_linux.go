package kernel

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"sync"

	"github.com/google/nftables/xt"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"github.com/nephele-io/nephele/internal/agent/nft/kernel/netfilter"
)

// QueueNumber is that of the queue that our rules hand packets to.
const QueueNumber = 5747

// The target of xtables that queues, in its third revision, which lets packets go on where nobody
// listens. nftables has an expression of its own for that, which not all kernels have.
const (
	queueTarget   = "NFQUEUE"
	queueRevision = 3
	queueBypass   = 1
	queueInfoSize = 6
)

func queueInfo() *xt.Unknown {
	b := binary.NativeEndian.AppendUint16(nil, QueueNumber)
	b = binary.NativeEndian.AppendUint16(b, 1) // queues
	b = binary.NativeEndian.AppendUint16(b, queueBypass)
	info := xt.Unknown(append(b, 0, 0))
	return &info
}

// Numbers of the queue subsystem, from linux/netfilter/nfnetlink_queue.h.
const (
	queuePacket        = 0
	queueVerdict       = 1
	queueConfig        = 2
	queueConfigCmd     = 1
	queueConfigParams  = 2
	queueConfigLength  = 3
	queueConfigMask    = 4
	queueConfigFlags   = 5
	queueCommandBind   = 1
	queueCopyPacket    = 2
	queueFailOpen      = 1
	queueAttrHeader    = 1
	queueAttrVerdict   = 2
	queueAttrPayload   = 10
	queueMost          = 4096
	queueLargestPacket = 1 << 16
)

// ErrQueue: the answers of resolvers cannot be received.
var ErrQueue = errors.New("another process receives what our rules queue, or this one may not: it needs CAP_NET_ADMIN")

// Queue receives the packets that rules queue. A packet waits until it is let go; packets beyond a
// bound, and all while nobody receives them, go on at once.
type Queue struct {
	socket *netfilter.Socket
	closed chan struct{}
	once   sync.Once
	send   sync.Mutex
}

// OpenQueue begins to receive, in the network namespace of the calling thread. ErrQueue is among
// the errors if somebody else does.
func OpenQueue() (*Queue, error) {
	s, err := netfilter.Open(netfilter.PacketBuffer)
	if err != nil {
		return nil, err
	}
	q := &Queue{socket: s, closed: make(chan struct{})}
	// Kernels before 3.8 want a command for each family besides.
	attrs := netfilter.Attr(nil, queueConfigCmd, []byte{queueCommandBind, 0, 0, 0})
	params := append(binary.BigEndian.AppendUint32(nil, queueLargestPacket), queueCopyPacket)
	attrs = netfilter.Attr(attrs, queueConfigParams, params)
	attrs = netfilter.Number(attrs, queueConfigLength, queueMost)
	attrs = netfilter.Number(attrs, queueConfigMask, queueFailOpen)
	attrs = netfilter.Number(attrs, queueConfigFlags, queueFailOpen)
	if err := s.Listen(unix.NFNL_SUBSYS_QUEUE, queueConfig, QueueNumber, attrs); err != nil {
		_ = s.Close()
		if errors.Is(err, unix.EPERM) || errors.Is(err, unix.EBUSY) {
			err = fmt.Errorf("%w: %w", ErrQueue, err)
		}
		return nil, fmt.Errorf("queue %d: %w", QueueNumber, err)
	}
	return q, nil
}

// Close ends Run.
func (q *Queue) Close() { q.once.Do(func() { close(q.closed) }) }

// Run calls each for every packet until Close, one after the other, with what lets it go, which may
// be called later and from any goroutine.
func (q *Queue) Run(each func(p Queued, release func())) error {
	defer func() {
		q.send.Lock()
		defer q.send.Unlock()
		_ = q.socket.Close()
		q.socket = nil
	}()
	for {
		select {
		case <-q.closed:
			return nil
		default:
		}
		err := q.socket.Receive(func(kind, _ uint16, _ uint32, body []byte) error {
			if kind != unix.NFNL_SUBSYS_QUEUE<<8|queuePacket || len(body) < 4 {
				return nil
			}
			id, packet, err := parseQueued(body)
			if err != nil {
				return err
			}
			release := sync.OnceFunc(func() { q.release(id) })
			each(content(packet), release)
			return nil
		})
		if err != nil && !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.ENOBUFS) {
			return fmt.Errorf("read queue %d: %w", QueueNumber, err)
		}
	}
}

func parseQueued(body []byte) (id, packet []byte, err error) {
	err = netfilter.Attributes(body[4:], func(ad *netlink.AttributeDecoder) {
		switch ad.Type() {
		case queueAttrHeader:
			if b := ad.Bytes(); len(b) >= 4 {
				id = append([]byte(nil), b[:4]...)
			}
		case queueAttrPayload:
			packet = ad.Bytes()
		}
	})
	if err == nil && id == nil {
		err = errors.New("a queued packet has no number")
	}
	return id, packet, err
}

// release lets a packet go. After Run has ended the kernel has let all go.
func (q *Queue) release(id []byte) {
	verdict := netfilter.Attr(nil, queueAttrVerdict, append(binary.BigEndian.AppendUint32(nil, nfAccept), id...))
	q.send.Lock()
	defer q.send.Unlock()
	if q.socket == nil {
		return
	}
	b, _ := q.socket.Append(nil, unix.NFNL_SUBSYS_QUEUE, queueVerdict, 0, QueueNumber, unix.AF_UNSPEC, verdict)
	_ = q.socket.Send(b) // it fails for a packet that is gone
}

// Flags of TCP.
const (
	tcpFin = 1
	tcpSyn = 2
	tcpRst = 4
)

// content reads a packet of UDP or TCP. Of others, of fragments, and of those with extensions of
// IPv6 it tells nothing but the addresses.
func content(b []byte) (out Queued) {
	var p Logged
	if p.parse(b) != nil {
		return Queued{}
	}
	out.Protocol = p.Protocol
	out.Source, out.Destination = netip.AddrPortFrom(p.Source, p.SourcePort), netip.AddrPortFrom(p.Destination, p.Port)
	rest := 40
	if b[0]>>4 == 4 {
		rest = int(b[0]&15) * 4
		if binary.BigEndian.Uint16(b[6:])&0x3fff != 0 { // a fragment
			return out
		}
	}
	size := 8
	if p.Protocol == unix.IPPROTO_TCP {
		if len(b) < rest+20 {
			return out
		}
		size = int(b[rest+12]>>4) * 4
		flags := b[rest+13]
		out.Sequence, out.Begins, out.Ends = binary.BigEndian.Uint32(b[rest+4:]), flags&tcpSyn != 0, flags&(tcpFin|tcpRst) != 0
	}
	if end := min(len(b), max(p.Length, 0)); rest+size <= end {
		out.Payload = b[rest+size : end]
	}
	return out
}
