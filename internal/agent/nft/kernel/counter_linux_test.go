package kernel

import (
	"encoding/binary"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nephele-io/nephele/internal/agent/nft/kernel/netfilter"
)

// ruleMessage is a rule as the kernel tells it, with a counter among its expressions.
func ruleMessage(chain string, c Counter) []byte {
	number := func(n uint64) []byte { return binary.BigEndian.AppendUint64(nil, n) }
	expression := func(name string, data []byte) []byte {
		return netfilter.Attr(nil, unix.NFTA_LIST_ELEM|unix.NLA_F_NESTED, netfilter.Attr(netfilter.Text(nil, unix.NFTA_EXPR_NAME, name), unix.NFTA_EXPR_DATA|unix.NLA_F_NESTED, data))
	}
	counter := netfilter.Attr(netfilter.Attr(nil, unix.NFTA_COUNTER_BYTES, number(c.Bytes)), unix.NFTA_COUNTER_PACKETS, number(c.Packets))
	var expressions []byte
	expressions = append(expressions, expression("meta", netfilter.Attr(nil, unix.NFTA_META_KEY, []byte{0, 0, 0, 1}))...)
	expressions = append(expressions, expression("counter", counter)...)
	expressions = append(expressions, expression("immediate", nil)...)
	b := []byte{unix.NFPROTO_INET, 0, 0, 0}
	b = netfilter.Text(netfilter.Text(b, unix.NFTA_RULE_TABLE, "t"), unix.NFTA_RULE_CHAIN, chain)
	b = netfilter.Attr(b, unix.NFTA_RULE_HANDLE, number(c.Handle))
	return netfilter.Attr(b, unix.NFTA_RULE_EXPRESSIONS|unix.NLA_F_NESTED, expressions)
}

// TestCounted: of each rule the chain and the counter are read, for no memory at all; what is cut
// off or of another size is an error and never another number.
func TestCounted(t *testing.T) {
	want := Counter{Handle: 1<<40 + 7, Packets: 3, Bytes: 1 << 50}
	for _, chain := range []string{"c", "in-7", "a chain of some length"} {
		body := ruleMessage(chain, want)
		name, got, err := counted(body)
		if err != nil || string(name) != chain || got != want {
			t.Errorf("%q %+v, %v; want %q %+v", name, got, err, chain, want)
		}
		if n := testing.AllocsPerRun(100, func() { _, _, _ = counted(body) }); n != 0 {
			t.Errorf("%v allocations for a rule", n)
		}
		for i := range body {
			if _, got, err := counted(body[:i]); err == nil && got != (Counter{}) && got != (Counter{Handle: want.Handle}) {
				t.Errorf("of the first %d bytes %+v", i, got)
			}
		}
	}
	odd := netfilter.Attr([]byte{unix.NFPROTO_INET, 0, 0, 0}, unix.NFTA_RULE_HANDLE, []byte{1, 2, 3, 4})
	if _, got, err := counted(odd); err == nil {
		t.Errorf("a handle of four bytes is %+v", got)
	}
}
