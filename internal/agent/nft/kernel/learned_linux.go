package kernel

import (
	"errors"
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"

	"github.com/nephele-io/nephele/internal/agent/nft"
)

// ForgetClients forgets which clients stay with backends that they may not be led to any more, and
// returns how many.
func (t *Table) ForgetClients(now *nft.Balanced) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.held == nil {
		return 0, nil
	}
	forgotten := 0
	for _, name := range []nft.SetName{nft.Sticky4, nft.Sticky6} {
		if _, there := t.held.Dispatch[name]; !there {
			continue
		}
		s := readSet{elements: map[element]bool{}}
		attrs := attrText(attrText(nil, unix.NFTA_SET_ELEM_LIST_TABLE, t.name), unix.NFTA_SET_ELEM_LIST_SET, string(name))
		err := t.socket.ask(unix.NFNL_SUBSYS_NFTABLES, unix.NFT_MSG_GETSETELEM, unix.NFPROTO_INET, true, attrs, func(_ uint16, body []byte) error { return s.parse(body) })
		if err != nil && !errors.Is(err, errInterrupted) {
			return forgotten, fmt.Errorf("read set %s: %w", name, err)
		}
		for e := range s.elements {
			at, to, ok := nft.ParseLearned(name, e.key, e.chain)
			if ok && now.Allows(at, to) {
				continue
			}
			// It may be over by itself at the same moment, so each is asked for alone.
			err := t.commit(elementMessages(unix.NFT_MSG_DELSETELEM, t.name, name, []element{{key: e.key}}))
			if err != nil && !errors.Is(err, unix.ENOENT) {
				return forgotten, fmt.Errorf("set %s: %w", name, err)
			}
			forgotten++
		}
	}
	return forgotten, nil
}

// ForgetDatagrams lets conntrack forget connections of UDP to Services that go where they may not
// go any more, or nowhere though they could go somewhere: those have no end by which the next
// packet would be led anew. It returns how many.
func (c *Connections) ForgetDatagrams(former, now *nft.Balanced) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var list []request
	err := c.socket.ask(unix.NFNL_SUBSYS_CTNETLINK, ctGet, unix.AF_UNSPEC, true, nil, func(_ uint16, body []byte) error {
		x, err := parseConnection(body)
		if err != nil || x.orig.protocol != unix.IPPROTO_UDP {
			return err
		}
		at := nft.Frontend{Address: x.orig.destination, Protocol: nft.UDP, Port: x.orig.destinationPort}
		to := netip.AddrPortFrom(x.reply.source, x.reply.sourcePort)
		led := x.orig.destination != x.reply.source || x.orig.destinationPort != x.reply.sourcePort
		next := now.At(at)
		stale := led && (next != nil || former.At(at) != nil) && !now.Allows(at, to) || !led && now.To[at] != nil && len(next.Backends)+len(next.Inside) > 0
		if stale {
			list = append(list, request{kind: ctDelete, family: x.family(), attrs: x.name()})
		}
		return nil
	})
	if err != nil && !errors.Is(err, errInterrupted) {
		return 0, fmt.Errorf("read connections: %w", err)
	}
	errs, err := c.send(list)
	for _, e := range errs {
		if !errors.Is(e, unix.ENOENT) {
			err = errors.Join(err, e)
		}
	}
	if err != nil {
		return 0, fmt.Errorf("forget connections of UDP: %w", err)
	}
	return len(list) - len(errs), nil
}
