package netfilter

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

const (
	// answerLimit bounds the wait for one answer of the kernel. Large transactions take seconds.
	answerLimit = 2 * time.Minute
	// AnswerBuffer holds what one read of an answer returns, at most 32 KiB of a dump, PacketBuffer
	// a message that may have a packet of 64 KiB in it.
	AnswerBuffer = 32 << 10
	PacketBuffer = 128 << 10
	// queueBuffer is how much may wait in the kernel.
	queueBuffer = 8 << 20
	headerSize  = unix.SizeofNlMsghdr + 4
)

// Socket is a netlink socket of the netfilter family. Unlike that of the netlink package it hands
// over a batch of any size at once, and asks for one answer to it, so that answers cannot overrun
// the buffer.
type Socket struct {
	fd   int
	port uint32
	seq  atomic.Uint32
	sent int
	in   []byte
}

// Open opens a socket that reads so many bytes at once.
func Open(buffer int) (*Socket, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_NETFILTER)
	if err != nil {
		return nil, fmt.Errorf("open netlink socket: %w", err)
	}
	s := &Socket{fd: fd, in: make([]byte, buffer)}
	limit := unix.NsecToTimeval(answerLimit.Nanoseconds())
	// The first socket of a process has the port of the process, so that a second agent can name
	// the process that owns the table.
	bound := unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Pid: uint32(os.Getpid())})
	if errors.Is(bound, unix.EADDRINUSE) {
		bound = unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK})
	}
	err = errors.Join(
		bound,
		unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &limit),
		unix.SetsockoptInt(fd, unix.SOL_NETLINK, unix.NETLINK_CAP_ACK, 1),
	)
	if err == nil {
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, queueBuffer) // needs a right that root may lack
		var name unix.Sockaddr
		if name, err = unix.Getsockname(fd); err == nil {
			s.port = name.(*unix.SockaddrNetlink).Pid
		}
	}
	if err != nil {
		_ = unix.Close(fd)
		return nil, fmt.Errorf("open netlink socket: %w", err)
	}
	return s, nil
}

// Port is the port of the socket, by which the kernel knows the owner of a table.
func (s *Socket) Port() uint32 { return s.port }

// FD is the descriptor of the socket, for options.
func (s *Socket) FD() int { return s.fd }

// Close closes the socket.
func (s *Socket) Close() error { return unix.Close(s.fd) }

// Message is one request: its type without the subsystem, flags, and attributes behind the family.
type Message struct {
	Kind  uint16
	Flags uint16
	Attrs []byte
}

// Append adds a message to a batch, and returns the number by which its answer is known.
func (s *Socket) Append(b []byte, subsystem, kind, flags, resource uint16, family uint8, attrs []byte) ([]byte, uint32) {
	seq := s.seq.Add(1)
	b = binary.NativeEndian.AppendUint32(b, uint32(headerSize+len(attrs)))
	b = binary.NativeEndian.AppendUint16(b, subsystem<<8|kind)
	b = binary.NativeEndian.AppendUint16(b, flags|unix.NLM_F_REQUEST)
	b = binary.NativeEndian.AppendUint32(b, seq)
	b = binary.NativeEndian.AppendUint32(b, s.port)
	b = append(b, family, unix.NFNETLINK_V0)
	b = binary.BigEndian.AppendUint16(b, resource)
	b = append(b, attrs...)
	for len(b)%unix.NLMSG_ALIGNTO != 0 {
		b = append(b, 0)
	}
	return b, seq
}

// Send sends a batch.
func (s *Socket) Send(b []byte) error {
	if want := len(b) + 1<<16; want > s.sent {
		if err := unix.SetsockoptInt(s.fd, unix.SOL_SOCKET, unix.SO_SNDBUFFORCE, want); err != nil {
			_ = unix.SetsockoptInt(s.fd, unix.SOL_SOCKET, unix.SO_SNDBUF, want)
		}
		s.sent = want
	}
	for {
		if err := unix.Sendto(s.fd, b, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// Receive calls each for the messages of one read.
func (s *Socket) Receive(each func(kind, flags uint16, seq uint32, body []byte) error) error {
	return s.ReceiveBy(0, each)
}

// ReceiveBy is receive with flags of recvfrom.
func (s *Socket) ReceiveBy(how int, each func(kind, flags uint16, seq uint32, body []byte) error) error {
	var n int
	for {
		var err error
		if n, _, err = unix.Recvfrom(s.fd, s.in, how); err == nil {
			break
		} else if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
	for b := s.in[:n]; len(b) >= unix.SizeofNlMsghdr; {
		size := int(binary.NativeEndian.Uint32(b))
		if size < unix.SizeofNlMsghdr || size > len(b) {
			return errors.New("the kernel's answer is malformed")
		}
		if err := each(binary.NativeEndian.Uint16(b[4:]), binary.NativeEndian.Uint16(b[6:]), binary.NativeEndian.Uint32(b[8:]), b[unix.SizeofNlMsghdr:size]); err != nil {
			return err
		}
		b = b[min((size+unix.NLMSG_ALIGNTO-1)&^(unix.NLMSG_ALIGNTO-1), len(b)):]
	}
	return nil
}

// Errno is the error of an answer; nil if there is none.
func Errno(body []byte) error {
	if len(body) < 4 {
		return errors.New("the kernel's answer is malformed")
	}
	if n := int32(binary.NativeEndian.Uint32(body)); n != 0 {
		return unix.Errno(-n)
	}
	return nil
}

// ErrUnsure is the error of a transaction of which it is not known whether it took effect.
var ErrUnsure = errors.New("the outcome of the transaction is not known")

// Commit sends messages as one transaction and waits for its outcome.
func (s *Socket) Commit(messages []Message) error {
	size := 2 * headerSize
	for _, m := range messages {
		size += headerSize + len(m.Attrs) + unix.NLMSG_ALIGNTO
	}
	b := make([]byte, 0, size)
	b, first := s.Append(b, 0, unix.NFNL_MSG_BATCH_BEGIN, 0, unix.NFNL_SUBSYS_NFTABLES, unix.AF_UNSPEC, nil)
	last := first
	for i, m := range messages {
		flags := m.Flags
		if i == len(messages)-1 {
			flags |= unix.NLM_F_ACK
		}
		b, last = s.Append(b, unix.NFNL_SUBSYS_NFTABLES, m.Kind, flags, 0, unix.NFPROTO_INET, m.Attrs)
	}
	b, _ = s.Append(b, 0, unix.NFNL_MSG_BATCH_END, 0, unix.NFNL_SUBSYS_NFTABLES, unix.AF_UNSPEC, nil)
	if err := s.Send(b); err != nil {
		return fmt.Errorf("send %d messages: %w", len(messages), err)
	}
	var failed error
	for done := false; !done; {
		err := s.Receive(func(kind, _ uint16, seq uint32, body []byte) error {
			if kind != unix.NLMSG_ERROR || seq < first || seq > last {
				return nil // of a former request
			}
			err := Errno(body)
			if err != nil && failed == nil {
				failed = fmt.Errorf("message %d of %d: %w", seq-first, len(messages), err)
			}
			// The last message answers also where another has failed; the first one only for the
			// whole.
			done = done || seq == last || seq == first && err != nil
			return nil
		})
		if err != nil {
			return fmt.Errorf("%w: %w", ErrUnsure, err)
		}
	}
	return failed
}

// ErrInterrupted is the error of a dump while which something has changed.
var ErrInterrupted = errors.New("changed while it was read")

// Ask sends a request and calls each for every message of the answer.
func (s *Socket) Ask(subsystem, kind uint16, family uint8, dump bool, attrs []byte, each func(kind uint16, body []byte) error) error {
	flags := uint16(unix.NLM_F_ACK)
	if dump {
		flags = unix.NLM_F_DUMP
	}
	b, mine := s.Append(nil, subsystem, kind, flags, 0, family, attrs)
	if err := s.Send(b); err != nil {
		return err
	}
	var failed error
	for done := false; !done; {
		err := s.Receive(func(kind, flags uint16, seq uint32, body []byte) error {
			if seq != mine {
				return nil
			}
			if flags&unix.NLM_F_DUMP_INTR != 0 {
				failed = ErrInterrupted
			}
			switch kind {
			case unix.NLMSG_DONE, unix.NLMSG_ERROR:
				done = true
				if err := Errno(body); err != nil && failed == nil {
					failed = err
				}
			default:
				if len(body) < 4 {
					return errors.New("the kernel's answer is malformed")
				}
				if failed == nil {
					failed = each(kind, body)
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return failed
}

// Listen begins to receive what a subsystem sends to the number of a group or queue. From then on a
// read ends now and then with EAGAIN, so that a reader sees when it is over.
func (s *Socket) Listen(subsystem, kind, number uint16, attrs []byte) error {
	b, mine := s.Append(nil, subsystem, kind, unix.NLM_F_ACK, number, unix.AF_UNSPEC, attrs)
	if err := s.Send(b); err != nil {
		return err
	}
	for done := false; !done; {
		var answer error
		err := s.Receive(func(kind, _ uint16, seq uint32, body []byte) error {
			if kind == unix.NLMSG_ERROR && seq == mine {
				done, answer = true, Errno(body)
			}
			return nil
		})
		if err = errors.Join(err, answer); err != nil {
			return err
		}
	}
	return unix.SetsockoptTimeval(s.fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Usec: 200_000})
}

// Attributes decodes attributes in the byte order of the network.
func Attributes(b []byte, each func(ad *netlink.AttributeDecoder)) error {
	ad, err := netlink.NewAttributeDecoder(b)
	if err != nil {
		return err
	}
	ad.ByteOrder = binary.BigEndian
	for ad.Next() {
		each(ad)
	}
	return ad.Err()
}

// Attr appends an attribute.
func Attr(b []byte, kind uint16, data []byte) []byte {
	b = binary.NativeEndian.AppendUint16(b, uint16(4+len(data)))
	b = binary.NativeEndian.AppendUint16(b, kind)
	b = append(b, data...)
	for len(b)%4 != 0 {
		b = append(b, 0)
	}
	return b
}

// Text appends an attribute with a text.
func Text(b []byte, kind uint16, text string) []byte {
	return Attr(b, kind, append([]byte(text), 0))
}

// Number appends an attribute with a number.
func Number(b []byte, kind uint16, n uint32) []byte {
	return Attr(b, kind, binary.BigEndian.AppendUint32(nil, n))
}

// Nest appends an attribute that holds attributes.
func Nest(b []byte, kind uint16, data []byte) []byte {
	return Attr(b, kind|unix.NLA_F_NESTED, data)
}
