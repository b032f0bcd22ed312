package kernel

import (
	"fmt"
	"maps"
	"net/netip"
	"testing"

	"github.com/nephele-io/nephele/internal/agent/nft"
	"github.com/nephele-io/nephele/internal/agent/nft/nfttest"
	"github.com/nephele-io/nephele/internal/agent/nft/ruleset"
)

// manyServices are as many Services with two endpoints each, and a port on the Node.
func manyServices(n int) map[nft.Frontend]*nft.Balance {
	out := make(map[nft.Frontend]*nft.Balance, 2*n)
	for i := range n {
		to := &nft.Balance{}
		for k := range 2 {
			to.Backends = append(to.Backends, netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 244, byte(i >> 8), byte(i)}), uint16(8080+k)))
		}
		out[nft.Frontend{Address: netip.AddrFrom4([4]byte{10, 96, byte(i >> 8), byte(i)}), Protocol: ruleset.TCP, Port: 80}] = to
		out[nft.Frontend{Address: netip.IPv4Unspecified(), Protocol: ruleset.TCP, Port: uint16(i + 1)}] = to
	}
	return out
}

// BenchmarkServices leads to many Services from nothing, and then changes one endpoint at a time.
func BenchmarkServices(b *testing.B) {
	node := &nft.Node{Network: &nft.Network{Own: []netip.Prefix{netip.MustParsePrefix("10.244.1.0/24")}, Keep: []netip.Prefix{netip.MustParsePrefix("10.244.0.0/16")}}}
	for _, n := range []int{1000, 10000, 45000} {
		all := manyServices(n)
		open := func(b *testing.B) *Table {
			var table *Table
			if err := nfttest.NewHost(b).Do(func() (err error) { table, err = Open(DefaultTable); return err }); err != nil {
				b.Fatal(err)
			}
			b.Cleanup(func() { _ = table.Close() })
			return table
		}
		apply := func(b *testing.B, t *Table, c *nft.Compiler, to *nft.Places) {
			if _, err := t.Apply(c.Compile(nft.Input{Node: node, Balanced: &nft.Balanced{To: to}}).Program); err != nil {
				b.Fatal(err)
			}
		}
		b.Run(fmt.Sprintf("all of %d", n), func(b *testing.B) {
			for range b.N {
				apply(b, open(b), new(nft.Compiler), ruleset.NewLayered(all))
			}
		})
		b.Run(fmt.Sprintf("one of %d", n), func(b *testing.B) {
			table, compiler, now := open(b), new(nft.Compiler), ruleset.NewLayered(maps.Clone(all))
			apply(b, table, compiler, now)
			at := nft.Frontend{Address: netip.AddrFrom4([4]byte{10, 96, 0, 7}), Protocol: ruleset.TCP, Port: 80}
			b.ResetTimer()
			for i := range b.N {
				now = now.Next()
				now.Set(at, &nft.Balance{Backends: []netip.AddrPort{netip.AddrPortFrom(netip.MustParseAddr("10.244.9.9"), uint16(1+i%60000))}})
				apply(b, table, compiler, now)
			}
		})
	}
}
