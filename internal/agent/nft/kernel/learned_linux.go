package kernel

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/nephele-io/nephele/internal/agent/nft"
	"github.com/nephele-io/nephele/internal/agent/nft/kernel/netfilter"
	"github.com/nephele-io/nephele/internal/agent/nft/ruleset"
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
	for _, name := range []ruleset.SetName{ruleset.Sticky4, ruleset.Sticky6} {
		if _, there := t.held.Dispatch[name]; !there {
			continue
		}
		s := readSet{elements: map[element]bool{}}
		attrs := netfilter.Text(netfilter.Text(nil, unix.NFTA_SET_ELEM_LIST_TABLE, t.name), unix.NFTA_SET_ELEM_LIST_SET, string(name))
		err := t.socket.Ask(unix.NFNL_SUBSYS_NFTABLES, unix.NFT_MSG_GETSETELEM, unix.NFPROTO_INET, true, attrs, func(_ uint16, body []byte) error { return s.parse(body) })
		if err != nil && !errors.Is(err, netfilter.ErrInterrupted) {
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
