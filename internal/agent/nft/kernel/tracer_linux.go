package kernel

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"sync"

	"github.com/google/nftables/expr"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"github.com/nephele-io/nephele/internal/agent/nft/kernel/netfilter"
	"github.com/nephele-io/nephele/internal/agent/nft/ruleset"
)

// TracerTable is the table whose rules choose the packets that are traced. The kernel removes it
// when the process that made it ends, however it ends.
const TracerTable = "nephele-trace"

// The chains of TracerTable: packets come before all other rules, and pass behind all others on
// their way out, or to the Node.
const (
	TraceEnters  = "enters"
	TraceLeaves  = "leaves"
	TraceArrives = "arrives"
)

// traceGroup is NFNLGRP_NFTRACE, and tracePriority before all others, as they are sorted.
const (
	traceGroup    = 9
	tracePriority = 1<<32 - 450
	traceLast     = 1000
)

// Attributes of what the kernel tells of a packet, from linux/netfilter/nf_tables.h.
const (
	traceTable     = 1
	traceChain     = 2
	traceHandle    = 3
	traceKind      = 4
	traceVerdict   = 5
	traceID        = 6
	traceNetwork   = 8
	traceTransport = 9
	traceIn        = 10
	traceOut       = 12
	verdictCode    = 1
	kindRule       = 3
)

// Traced chooses packets that are traced.
type Traced struct {
	// Source and Destination are the packet's; not valid where any is meant. Six tells that it is
	// one of IPv6.
	Source, Destination netip.Addr
	Six                 bool
	// Protocol is 0 where any is meant, and the ports are.
	Protocol         uint8
	SourcePort, Port uint16
	// Begins tells that of TCP only packets count that begin a connection, and of ICMP requests for
	// an echo.
	Begins bool
	// Tag is the DSCP of the packet. With Mark it is not looked for, but written: to one packet a
	// second, or with Many to some.
	Tag        uint8
	Mark, Many bool
}

// TraceEvent is what one rule, or the end of a chain, has done with a packet.
type TraceEvent struct {
	// ID is that of the packet.
	ID           uint32
	Table, Chain string
	// Handle is that of the rule; 0 at the end of a chain.
	Handle uint64
	// Drops tells that the packet is gone, and Decides that no other rule of the chain sees it.
	Drops, Decides bool
	// In and Out are the indices of links; 0 for none.
	In, Out int
	// Network and Transport begin with the headers of the packet; empty if they were told before.
	Network, Transport []byte
}

// Tracer traces packets. Set may be called while it runs.
type Tracer struct {
	table, news *netfilter.Socket
	closed      chan struct{}
	once        sync.Once
	ended       chan struct{}
}

// OpenTracer begins to trace, nothing at first, in the network namespace of the calling thread.
func OpenTracer() (*Tracer, error) {
	table, err := netfilter.Open(netfilter.AnswerBuffer)
	if err != nil {
		return nil, err
	}
	news, err := netfilter.Open(netfilter.AnswerBuffer)
	if err != nil {
		return nil, errors.Join(err, table.Close())
	}
	t := &Tracer{table: table, news: news, closed: make(chan struct{}), ended: make(chan struct{})}
	err = errors.Join(unix.SetsockoptInt(news.FD(), unix.SOL_NETLINK, unix.NETLINK_ADD_MEMBERSHIP, traceGroup),
		unix.SetsockoptTimeval(news.FD(), unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Usec: 200_000}))
	if err != nil {
		err = fmt.Errorf("listen to traces: %w", meaning(err))
	} else {
		err = t.Set(nil)
	}
	if err != nil {
		return nil, errors.Join(err, news.Close(), table.Close())
	}
	return t, nil
}

// Close ends Run, which must have been called, and removes what chooses packets.
func (t *Tracer) Close() {
	t.once.Do(func() { close(t.closed) })
	<-t.ended
}

// Run calls each for what happens to packets, until Close.
func (t *Tracer) Run(each func(TraceEvent)) error {
	defer close(t.ended)
	defer func() { _, _ = t.news.Close(), t.table.Close() }()
	for {
		select {
		case <-t.closed:
			return nil
		default:
		}
		err := t.news.Receive(func(kind, _ uint16, _ uint32, body []byte) error {
			if kind == unix.NFNL_SUBSYS_NFTABLES<<8|unix.NFT_MSG_TRACE && len(body) >= nfgenSize {
				if e, err := parseTrace(body); err == nil {
					each(e)
				}
			}
			return nil
		})
		// ENOBUFS tells that some were lost: then a trace is not complete, and ends by its timeout.
		if err != nil && !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.ENOBUFS) {
			return fmt.Errorf("read traces: %w", err)
		}
	}
}

func parseTrace(body []byte) (e TraceEvent, err error) {
	kind, verdict := uint32(0), int32(0)
	err = netfilter.Attributes(body[nfgenSize:], func(ad *netlink.AttributeDecoder) {
		switch ad.Type() {
		case traceTable:
			e.Table = ad.String()
		case traceChain:
			e.Chain = ad.String()
		case traceHandle:
			e.Handle = ad.Uint64()
		case traceKind:
			kind = ad.Uint32()
		case traceID:
			e.ID = ad.Uint32()
		case traceNetwork:
			e.Network = ad.Bytes()
		case traceTransport:
			e.Transport = ad.Bytes()
		case traceIn:
			e.In = int(ad.Uint32())
		case traceOut:
			e.Out = int(ad.Uint32())
		case traceVerdict:
			ad.Nested(func(ad *netlink.AttributeDecoder) error {
				ad.ByteOrder = binary.BigEndian
				for ad.Next() {
					if ad.Type() == verdictCode {
						verdict = int32(ad.Uint32())
					}
				}
				return ad.Err()
			})
		}
	})
	if kind != kindRule {
		e.Handle = 0
	}
	// Less than 0 are those that go on: continue, break, jump, goto and return. Of others 0 drops,
	// and 2 is that of a packet that somebody has taken, as those that answer a SYN do.
	e.Drops, e.Decides = verdict == 0 || verdict == 2, verdict >= 0
	return e, err
}

// Set says which packets are traced from now on.
func (t *Tracer) Set(list []Traced) error {
	messages := []netfilter.Message{
		{Kind: unix.NFT_MSG_NEWTABLE, Flags: unix.NLM_F_CREATE, Attrs: netfilter.Number(netfilter.Text(nil, unix.NFTA_TABLE_NAME, TracerTable), unix.NFTA_TABLE_FLAGS, tableOwner)},
		{Kind: unix.NFT_MSG_DELTABLE, Attrs: netfilter.Text(nil, unix.NFTA_TABLE_NAME, TracerTable)},
		{Kind: unix.NFT_MSG_NEWTABLE, Flags: unix.NLM_F_CREATE, Attrs: netfilter.Number(netfilter.Text(nil, unix.NFTA_TABLE_NAME, TracerTable), unix.NFTA_TABLE_FLAGS, tableOwner)},
	}
	messages = append(messages, baseChain(TracerTable, TraceEnters, unix.NF_INET_PRE_ROUTING, tracePriority),
		baseChain(TracerTable, TraceLeaves, unix.NF_INET_POST_ROUTING, traceLast), baseChain(TracerTable, TraceArrives, unix.NF_INET_LOCAL_IN, traceLast))
	for i := range list {
		m, err := plainRule(TracerTable, TraceEnters, list[i].expressions())
		if err != nil {
			return fmt.Errorf("choose packets to trace: %w", err)
		}
		messages = append(messages, m)
	}
	if err := t.table.Commit(messages); err != nil {
		return fmt.Errorf("table %s: %w", TracerTable, meaning(err))
	}
	return nil
}

// manyRate is how many packets a second are marked where one that is dropped is sought, and how
// many with the tag of a Traceflow are traced: Pods may send such themselves.
const manyRate = 20

func (t *Traced) expressions() []expr.Any {
	family := ruleset.IPv4
	if t.Six {
		family = ruleset.IPv6
	}
	out := choosing(t.Source, t.Destination, t.Six, t.Protocol, t.SourcePort, t.Port)
	match := func(m ruleset.Match) { out = append(out, matching(&m, family)...) }
	if t.Begins {
		switch t.Protocol {
		case ruleset.TCP: // SYN, without ACK
			out = append(out, &expr.Payload{DestRegister: register, Base: expr.PayloadBaseTransportHeader, Offset: 13, Len: 1},
				&expr.Bitwise{SourceRegister: register, DestRegister: register, Len: 1, Mask: []byte{0x12}, Xor: []byte{0}},
				&expr.Cmp{Op: expr.CmpOpEq, Register: register, Data: []byte{0x02}})
		case ruleset.ICMP:
			match(ruleset.Match{Kind: ruleset.MatchType, Lo: 8, Hi: 8})
		case ruleset.ICMPv6:
			match(ruleset.Match{Kind: ruleset.MatchType, Lo: 128, Hi: 128})
		}
	}
	out = append(out, t.tag(family)...)
	return append(out, &expr.Immediate{Register: register, Data: []byte{1}}, &expr.Meta{Key: expr.MetaKeyNFTRACE, SourceRegister: true, Register: register})
}

// tag looks for the tag of a packet, or writes it: DSCP, which is six bits of the second byte of
// IPv4, and lies over the first two bytes of IPv6.
func (t *Traced) tag(family ruleset.Family) []expr.Any {
	header, mask, value := expr.Payload{DestRegister: register, Base: expr.PayloadBaseNetworkHeader, Len: 2}, []byte{0x00, 0xfc}, []byte{0, t.Tag << 2}
	if family == ruleset.IPv6 {
		mask, value = []byte{0x0f, 0xc0}, []byte{t.Tag >> 2, t.Tag << 6}
	}
	load, rate := header, uint64(manyRate)
	if t.Mark && !t.Many {
		rate = 1
	}
	limit := &expr.Limit{Type: expr.LimitTypePkts, Rate: rate, Unit: expr.LimitTimeSecond, Burst: uint32(rate)}
	if !t.Mark {
		return []expr.Any{&load, &expr.Bitwise{SourceRegister: register, DestRegister: register, Len: 2, Mask: mask, Xor: []byte{0, 0}},
			&expr.Cmp{Op: expr.CmpOpEq, Register: register, Data: value}, limit}
	}
	write := expr.Payload{OperationType: expr.PayloadWrite, SourceRegister: register, Base: expr.PayloadBaseNetworkHeader, Len: 2}
	if family == ruleset.IPv4 {
		write.CsumType, write.CsumOffset = expr.CsumTypeInet, 10
	}
	return []expr.Any{limit, &load, &expr.Bitwise{SourceRegister: register, DestRegister: register, Len: 2, Mask: []byte{^mask[0], ^mask[1]}, Xor: value}, &write}
}
