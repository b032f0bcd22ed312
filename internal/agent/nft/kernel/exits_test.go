package kernel_test

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"github.com/nephele-io/nephele/internal/agent/nft"
	"github.com/nephele-io/nephele/internal/agent/nft/nfttest"
	"github.com/nephele-io/nephele/internal/agent/nft/ruleset"
)

// exitsOf draws how Pods leave.
func exitsOf(random *rand.Rand) []nft.Exit {
	var out []nft.Exit
	for i := range random.IntN(20) {
		e := nft.Exit{Pod: netip.MustParseAddr(fmt.Sprintf("10.244.0.%d", i+2))}
		from := "192.0.2.%d"
		if random.IntN(2) == 0 {
			e.Pod, from = netip.MustParseAddr(fmt.Sprintf("fd00::%x", i+2)), "2001:db8::%d"
		}
		switch random.IntN(3) {
		case 0:
			e.From = netip.MustParseAddr(fmt.Sprintf(from, 1+random.IntN(3)))
		case 1:
			e.By = uint8(1 + random.IntN(254))
		}
		out = append(out, e)
	}
	slices.SortFunc(out, func(a, b nft.Exit) int { return a.Pod.Compare(b.Pod) })
	return out
}

// TestExitsReadBack: the kernel has what the rules say of exits, also after changes, and the next
// process finds it and writes nothing.
func TestExitsReadBack(t *testing.T) {
	host := nfttest.NewHost(t)
	table, compiler := open(t, host), new(nft.Compiler)
	random := rand.New(rand.NewPCG(36, 1))
	var last *ruleset.Program
	for round := range 40 {
		n := &nft.Network{Own: []netip.Prefix{netip.MustParsePrefix("10.244.0.0/24"), netip.MustParsePrefix("fd00::/64")}, Exits: exitsOf(random)}
		for i := range random.IntN(20) { // some in rules, many in a set
			n.Near = append(n.Near, netip.MustParsePrefix(fmt.Sprintf("198.51.100.%d/32", 2*i)))
		}
		n.Keep = n.Own
		last = compiler.Compile(nft.Input{Node: &nft.Node{Network: n}}).Program
		if len(n.Exits) > 0 && last.Chains[string(ruleset.ToExits)] == nil || len(n.Exits) == 0 && last.Chains[string(ruleset.ToExits)] != nil {
			t.Fatalf("round %d: %d exits\n%s", round, len(n.Exits), last)
		}
		if _, err := table.Apply(last); err != nil {
			t.Fatalf("round %d: %v\n%s", round, err, last)
		}
		verify(t, table, last)
	}
	if err := table.Close(); err != nil {
		t.Fatal(err)
	}
	next := open(t, host)
	w, err := next.Apply(last)
	if err != nil || w.Rules+w.Elements+w.Chains > 0 || w.Whole {
		t.Errorf("adopting wrote %+v, %v", w, err)
	}
	verify(t, next, last)
	if _, err := next.Apply(ruleset.Released(last)); err != nil {
		t.Errorf("without policies: %v", err)
	}
	verify(t, next, ruleset.Released(last))
}
