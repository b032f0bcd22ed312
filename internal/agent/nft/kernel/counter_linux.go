package kernel

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/nephele-io/nephele/internal/agent/nft/kernel/netfilter"
)

// Counter is what a rule of the kernel has counted since it was made. No other rule of the table
// has or had its Handle.
type Counter struct{ Handle, Packets, Bytes uint64 }

// Counters returns the counters of the rules of chains, in the order of the rules; without names,
// of all chains. Of a chain that is not there it returns nothing.
func (t *Table) Counters(chains ...string) (map[string][]Counter, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	asks := [][]byte{netfilter.Text(nil, unix.NFTA_RULE_TABLE, t.name)}
	if len(chains) > 0 {
		asks = asks[:0]
		for _, c := range chains {
			asks = append(asks, netfilter.Text(netfilter.Text(nil, unix.NFTA_RULE_TABLE, t.name), unix.NFTA_RULE_CHAIN, c))
		}
	}
	for attempt := 1; ; attempt++ {
		out := map[string][]Counter{}
		last := ""
		var err error
		for _, attrs := range asks {
			if err == nil {
				err = t.socket.Ask(unix.NFNL_SUBSYS_NFTABLES, unix.NFT_MSG_GETRULE, unix.NFPROTO_INET, true, attrs, func(_ uint16, body []byte) error {
					chain, c, err := counted(body)
					if string(chain) != last { // the rules of a chain come one after the other
						last = string(chain)
					}
					out[last] = append(out[last], c)
					return err
				})
			}
		}
		if err == nil || attempt == readAttempts {
			if err != nil {
				return nil, fmt.Errorf("read counters: %w", err)
			}
			return out, nil
		}
	}
}

// counted reads the chain of a rule of the kernel, which is a part of the body, and what the rule
// has counted. Tens of thousands of rules are read every minute, so it leaves no garbage; parseRule
// reads the rest.
func counted(body []byte) (chain []byte, out Counter, err error) {
	rule := cursor{rest: body[min(nfgenSize, len(body)):]}
	for rule.next() {
		switch rule.kind {
		case unix.NFTA_RULE_CHAIN:
			chain = rule.text()
		case unix.NFTA_RULE_HANDLE:
			out.Handle = rule.uint64()
		case unix.NFTA_RULE_EXPRESSIONS:
			list := cursor{rest: rule.value}
			for list.next() {
				if err := out.read(list.value); err != nil {
					return nil, Counter{}, err
				}
			}
			rule.bad = rule.bad || list.bad
		}
	}
	if rule.bad {
		return nil, Counter{}, errMalformedRule
	}
	return chain, out, nil
}

// read takes what an expression has counted, if it is a counter.
func (c *Counter) read(expression []byte) error {
	var name, data []byte
	e := cursor{rest: expression}
	for e.next() {
		switch e.kind {
		case unix.NFTA_EXPR_NAME:
			name = e.text()
		case unix.NFTA_EXPR_DATA:
			data = e.value
		}
	}
	if string(name) == "counter" {
		for e = (cursor{rest: data, bad: e.bad}); e.next(); {
			switch e.kind {
			case unix.NFTA_COUNTER_PACKETS:
				c.Packets = e.uint64()
			case unix.NFTA_COUNTER_BYTES:
				c.Bytes = e.uint64()
			}
		}
	}
	if e.bad {
		return errMalformedRule
	}
	return nil
}

var errMalformedRule = errors.New("the kernel's answer about a rule is malformed")

const (
	// nfgenSize is that of struct nfgenmsg, with which each message of nftables begins.
	nfgenSize = 4
	// attrSize is that of struct nlattr, with which each attribute begins.
	attrSize = 4
	// attrKindMask leaves out the flags for what is nested and for the order of bytes.
	attrKindMask = 1<<14 - 1
)

// cursor goes through the attributes of a message. After next has returned false, bad says that
// they are none. It is an AttributeDecoder of package netlink that needs no heap.
type cursor struct {
	rest  []byte
	kind  uint16
	value []byte
	bad   bool
}

func (c *cursor) next() bool {
	if c.bad || len(c.rest) == 0 {
		return false
	}
	if c.bad = len(c.rest) < attrSize; c.bad {
		return false
	}
	size := int(binary.NativeEndian.Uint16(c.rest))
	if c.bad = size < attrSize || size > len(c.rest); c.bad {
		return false
	}
	c.kind, c.value = binary.NativeEndian.Uint16(c.rest[2:])&attrKindMask, c.rest[attrSize:size]
	c.rest = c.rest[min((size+unix.NLA_ALIGNTO-1)&^(unix.NLA_ALIGNTO-1), len(c.rest)):]
	return true
}

// text is the value as text, which ends at its first zero.
func (c *cursor) text() []byte {
	text, _, _ := bytes.Cut(c.value, []byte{0})
	return text
}

func (c *cursor) uint64() uint64 {
	if len(c.value) != 8 {
		c.bad = true
		return 0
	}
	return binary.BigEndian.Uint64(c.value)
}
