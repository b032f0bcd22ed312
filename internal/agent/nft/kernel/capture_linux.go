package kernel

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/google/nftables/expr"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"github.com/nephele-io/nephele/internal/agent/nft/kernel/netfilter"
	"github.com/nephele-io/nephele/internal/agent/nft/ruleset"
)

// CaptureTable is the table whose rules choose the packets that are captured. The kernel removes it
// when the process that made it ends, however it ends.
const CaptureTable = "nephele-capture"

const (
	// captureGroup is the group of nflog that its rules log to.
	captureGroup = LogGroup + 1
	// captureBytes is how much of a packet is handed over: all of one that was not put together
	// of several.
	captureBytes = 9216
	// captureRate is how many packets a second one rule hands over.
	captureRate       = 2000
	logAttrTime       = 3
	captureSentBefore = 1<<32 - 440
	captureGotAfter   = 1001
)

// Chosen chooses packets that are captured.
type Chosen struct {
	// ID is what the packets are handed over with.
	ID string
	// Sent tells that a Pod of the Node sends them; else one gets them.
	Sent                bool
	Source, Destination netip.Addr
	Six                 bool
	Protocol            uint8
	SourcePort, Port    uint16
}

// Captured is a packet.
type Captured struct {
	ID string
	At time.Time
	// Packet begins with the header of IP.
	Packet []byte
}

// Capture captures packets. Set may be called while it runs.
type Capture struct {
	table, log    *netfilter.Socket
	closed, ended chan struct{}
	once          sync.Once
}

// OpenCapture begins to capture, nothing at first, in the network namespace of the calling thread.
func OpenCapture() (*Capture, error) {
	table, err := netfilter.Open(netfilter.AnswerBuffer)
	if err != nil {
		return nil, err
	}
	log, err := netfilter.Open(netfilter.PacketBuffer)
	if err != nil {
		return nil, errors.Join(err, table.Close())
	}
	c := &Capture{table: table, log: log, closed: make(chan struct{}), ended: make(chan struct{})}
	attrs := netfilter.Attr(nil, logConfigCmd, []byte{logCommandBind})
	attrs = netfilter.Attr(attrs, logConfigMode, append(binary.BigEndian.AppendUint32(nil, captureBytes), logCopyPacket, 0))
	if err = log.Listen(unix.NFNL_SUBSYS_ULOG, logConfig, captureGroup, attrs); err != nil {
		err = fmt.Errorf("nflog group %d: %w", captureGroup, meaning(err))
	} else {
		err = c.Set(nil)
	}
	if err != nil {
		return nil, errors.Join(err, log.Close(), table.Close())
	}
	return c, nil
}

// Close ends Run, which must have been called, and removes what chooses packets.
func (c *Capture) Close() {
	c.once.Do(func() { close(c.closed) })
	<-c.ended
}

// Run calls each for every packet until Close. The packet is only valid until each returns.
func (c *Capture) Run(each func(Captured)) error {
	defer close(c.ended)
	defer func() { _, _ = c.log.Close(), c.table.Close() }()
	for {
		select {
		case <-c.closed:
			return nil
		default:
		}
		err := c.log.Receive(func(kind, _ uint16, _ uint32, body []byte) error {
			if kind == unix.NFNL_SUBSYS_ULOG<<8|logPacket && len(body) >= nfgenSize {
				if p, err := parseCaptured(body); err == nil {
					each(p)
				}
			}
			return nil
		})
		if err != nil && !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.ENOBUFS) { // some were lost
			return fmt.Errorf("read captured packets: %w", err)
		}
	}
}

func parseCaptured(body []byte) (p Captured, err error) {
	err = netfilter.Attributes(body[nfgenSize:], func(ad *netlink.AttributeDecoder) {
		switch b := ad.Bytes(); ad.Type() {
		case logAttrPrefix:
			p.ID = ad.String()
		case logAttrPayload:
			p.Packet = b
		case logAttrTime:
			if len(b) == 16 {
				p.At = time.Unix(int64(binary.BigEndian.Uint64(b)), int64(binary.BigEndian.Uint64(b[8:]))*1000)
			}
		}
	})
	return p, err
}

// Set says which packets are captured from now on.
func (c *Capture) Set(list []Chosen) error {
	name := netfilter.Text(nil, unix.NFTA_TABLE_NAME, CaptureTable)
	table := netfilter.Message{Kind: unix.NFT_MSG_NEWTABLE, Flags: unix.NLM_F_CREATE, Attrs: netfilter.Number(slices.Clone(name), unix.NFTA_TABLE_FLAGS, tableOwner)}
	messages := []netfilter.Message{table, {Kind: unix.NFT_MSG_DELTABLE, Attrs: name}, table}
	const sent, got = "sent", "received"
	messages = append(messages, baseChain(CaptureTable, sent, unix.NF_INET_PRE_ROUTING, captureSentBefore),
		baseChain(CaptureTable, got, unix.NF_INET_POST_ROUTING, captureGotAfter))
	for i := range list {
		chain := got
		if list[i].Sent {
			chain = sent
		}
		m, err := plainRule(CaptureTable, chain, list[i].expressions())
		if err != nil {
			return fmt.Errorf("choose packets to capture: %w", err)
		}
		messages = append(messages, m)
	}
	if err := c.table.Commit(messages); err != nil {
		return fmt.Errorf("table %s: %w", CaptureTable, meaning(err))
	}
	return nil
}

func (c *Chosen) expressions() []expr.Any {
	out := choosing(c.Source, c.Destination, c.Six, c.Protocol, c.SourcePort, c.Port)
	return append(out, &expr.Limit{Type: expr.LimitTypePkts, Rate: captureRate, Unit: expr.LimitTimeSecond, Burst: captureRate},
		&expr.Log{Key: 1<<unix.NFTA_LOG_GROUP | 1<<unix.NFTA_LOG_PREFIX | 1<<unix.NFTA_LOG_SNAPLEN, Group: captureGroup, Snaplen: captureBytes, Data: []byte(c.ID)})
}

// baseChain is a chain that packets enter.
func baseChain(table, name string, hook, priority uint32) netfilter.Message {
	b := netfilter.Text(netfilter.Text(nil, unix.NFTA_CHAIN_TABLE, table), unix.NFTA_CHAIN_NAME, name)
	b = netfilter.Nest(b, unix.NFTA_CHAIN_HOOK, netfilter.Number(netfilter.Number(nil, unix.NFTA_HOOK_HOOKNUM, hook), unix.NFTA_HOOK_PRIORITY, priority))
	b = netfilter.Text(netfilter.Number(b, unix.NFTA_CHAIN_POLICY, nfAccept), unix.NFTA_CHAIN_TYPE, kindFilter)
	return netfilter.Message{Kind: unix.NFT_MSG_NEWCHAIN, Flags: unix.NLM_F_CREATE, Attrs: b}
}

// plainRule is a rule of a table that is not that of programs.
func plainRule(table, chain string, list []expr.Any) (netfilter.Message, error) {
	var expressions []byte
	for _, e := range list {
		data, err := marshal(e)
		if err != nil {
			return netfilter.Message{}, err
		}
		expressions = netfilter.Nest(expressions, unix.NFTA_LIST_ELEM, data)
	}
	b := netfilter.Text(netfilter.Text(nil, unix.NFTA_RULE_TABLE, table), unix.NFTA_RULE_CHAIN, chain)
	return netfilter.Message{Kind: unix.NFT_MSG_NEWRULE, Flags: unix.NLM_F_CREATE | unix.NLM_F_APPEND, Attrs: netfilter.Nest(b, unix.NFTA_RULE_EXPRESSIONS, expressions)}, nil
}

// choosing matches packets by their addresses, protocol and ports, as far as they are given.
func choosing(source, destination netip.Addr, six bool, protocol uint8, sourcePort, port uint16) []expr.Any {
	family := ruleset.IPv4
	if six {
		family = ruleset.IPv6
	}
	var out []expr.Any
	match := func(m ruleset.Match) { out = append(out, matching(&m, family)...) }
	match(ruleset.Match{Kind: ruleset.MatchFamily, Lo: uint16(family)})
	if source.IsValid() {
		match(ruleset.Match{Kind: ruleset.MatchPeer, Peer: &ruleset.Range{From: source, To: source}, Source: true})
	}
	if destination.IsValid() {
		match(ruleset.Match{Kind: ruleset.MatchPeer, Peer: &ruleset.Range{From: destination, To: destination}})
	}
	if protocol != 0 {
		match(ruleset.Match{Kind: ruleset.MatchProtocol, Lo: uint16(protocol)})
	}
	if sourcePort != 0 {
		match(ruleset.Match{Kind: ruleset.MatchSourcePort, Lo: sourcePort, Hi: sourcePort})
	}
	if port != 0 {
		match(ruleset.Match{Kind: ruleset.MatchPort, Lo: port, Hi: port})
	}
	return out
}
