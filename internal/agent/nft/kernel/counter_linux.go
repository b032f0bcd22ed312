package kernel

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Counter is what a rule of the kernel has counted since it was made. No other rule of the table
// has or had its Handle.
type Counter struct{ Handle, Packets, Bytes uint64 }

// Counters returns the counters of the rules of chains, in the order of the rules; without names,
// of all chains. Of a chain that is not there it returns nothing.
func (t *Table) Counters(chains ...string) (map[string][]Counter, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	asks := [][]byte{attrText(nil, unix.NFTA_RULE_TABLE, t.name)}
	if len(chains) > 0 {
		asks = asks[:0]
		for _, c := range chains {
			asks = append(asks, attrText(attrText(nil, unix.NFTA_RULE_TABLE, t.name), unix.NFTA_RULE_CHAIN, c))
		}
	}
	for attempt := 1; ; attempt++ {
		out := map[string][]Counter{}
		var err error
		for _, attrs := range asks {
			if err == nil {
				err = t.socket.ask(unix.NFNL_SUBSYS_NFTABLES, unix.NFT_MSG_GETRULE, unix.NFPROTO_INET, true, attrs, func(_ uint16, body []byte) error {
					chain, _, c, err := parseCounted(body)
					out[chain] = append(out[chain], c)
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
