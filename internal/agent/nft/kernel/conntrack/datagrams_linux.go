package conntrack

import (
	"errors"
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"

	"github.com/nephele-io/nephele/internal/agent/nft"
	"github.com/nephele-io/nephele/internal/agent/nft/kernel/netfilter"
	"github.com/nephele-io/nephele/internal/agent/nft/ruleset"
)

// ForgetDatagrams lets conntrack forget connections of UDP to Services that go where they may not
// go any more, or nowhere though they could go somewhere: those have no end by which the next
// packet would be led anew. It returns how many.
func (c *Connections) ForgetDatagrams(former, now *nft.Balanced) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var list []request
	err := c.socket.Ask(unix.NFNL_SUBSYS_CTNETLINK, ctGet, unix.AF_UNSPEC, true, nil, func(_ uint16, body []byte) error {
		x, err := parseConnection(body)
		if err != nil || x.orig.protocol != unix.IPPROTO_UDP {
			return err
		}
		at := nft.Frontend{Address: x.orig.destination, Protocol: ruleset.UDP, Port: x.orig.destinationPort}
		to := netip.AddrPortFrom(x.reply.source, x.reply.sourcePort)
		led := x.orig.destination != x.reply.source || x.orig.destinationPort != x.reply.sourcePort
		next := now.At(at)
		stale := led && (next != nil || former.At(at) != nil) && !now.Allows(at, to) || !led && now.To.At(at) != nil && len(next.Backends)+len(next.Inside) > 0
		if stale {
			list = append(list, request{kind: ctDelete, family: x.family(), attrs: x.name()})
		}
		return nil
	})
	if err != nil && !errors.Is(err, netfilter.ErrInterrupted) {
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
