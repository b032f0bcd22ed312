package form

import (
	"math/rand/v2"
	"net/netip"
	"testing"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan/addrset"
	"github.com/nephele-io/nephele/internal/cloud/plan/flow"
)

// The bound is never more than the fewest rules that are possible, which are searched for here
// among all rules there are. Of one service, as in a long list, it counts all blocks.
func TestBlocksNeededIsABound(t *testing.T) {
	const seed = 5
	r := rand.New(rand.NewPCG(seed, 5))
	met := 0
	for world := range 400 {
		services := []flow.Service{
			{Protocol: cloud.TCP, To: 79},
			{Protocol: cloud.TCP, From: 80, To: 80},
			{Protocol: cloud.TCP, From: 81, To: 0xffff},
			flow.Whole(cloud.UDP),
			flow.Any(),
		}
		var h flow.Permit
		for _, s := range services {
			cell := flow.Grant{Service: s}
			for range r.IntN(3) {
				cell.All = cell.All.Union(addrset.OfPrefixes(randomBlock(r)))
			}
			h.Grants = append(h.Grants, cell)
		}
		var named addrset.Set
		if r.IntN(2) == 0 {
			named = addrset.OfPrefixes(randomBlock(r))
		}
		got, want := CountBlocks(h, Families()[0], named, eachARule{}), fewestRules(h, named)
		if got > want {
			t.Fatalf("seed %d, world %d: at least %d, but %d are enough: %v, by reference %v", seed, world, got, want, h.Grants, named.Prefixes())
		}
		if got == want && want > 1 {
			met++
		}
		one := flow.Permit{Grants: h.Grants[:1]}
		if got, want := CountBlocks(one, Families()[0], addrset.Set{}, eachARule{}), len(h.Grants[0].All.Prefixes()); got != want {
			t.Fatalf("seed %d, world %d: at least %d blocks of one service, want all %d", seed, world, got, want)
		}
	}
	if met < 10 {
		t.Errorf("the bound is exact in %d worlds only", met)
	}
}

// randomBlock is one of the blocks of 192.0.2.0/29.
func randomBlock(r *rand.Rand) netip.Prefix {
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{192, 0, 2, byte(r.IntN(8))}), 29+r.IntN(4)).Masked()
}

// fewestRules searches for the fewest rules that allow all that the half allows, except what may be
// named otherwise, and nothing else. A rule is a block together with one protocol, a run of ports
// or everything.
func fewestRules(h flow.Permit, named addrset.Set) int {
	type spot struct{ addr, cell int }
	at := func(a int) netip.Addr { return netip.AddrFrom4([4]byte{192, 0, 2, byte(a)}) }
	var open uint64
	bit := func(s spot) uint64 { return 1 << (s.addr*len(h.Grants) + s.cell) }
	for a := range 8 {
		for k, c := range h.Grants {
			// The cell of all other protocols stands for many rules where it is not part of
			// everything; the search counts it as one.
			if c.All.Contains(at(a)) && !named.Contains(at(a)) {
				open |= bit(spot{a, k})
			}
		}
	}
	var rules []uint64
	for size := 1; size <= 8; size *= 2 {
		for from := 0; from < 8; from += size {
			for _, run := range [][2]int{{0, 0}, {0, 1}, {0, 2}, {1, 1}, {1, 2}, {2, 2}, {3, 3}, {4, 4}, {0, 4}} {
				covers, ok := uint64(0), true
				for a := from; a < from+size; a++ {
					for k := run[0]; k <= run[1]; k++ {
						ok = ok && h.Grants[k].All.Contains(at(a))
						covers |= bit(spot{a, k})
					}
				}
				if ok && covers&open != 0 {
					rules = append(rules, covers)
				}
			}
		}
	}
	for n := 0; ; n++ {
		if coverable(open, rules, n) {
			return n
		}
	}
}

func coverable(open uint64, rules []uint64, n int) bool {
	if open == 0 {
		return true
	}
	if n == 0 {
		return false
	}
	first := open & -open
	for _, r := range rules {
		if r&first != 0 && coverable(open&^r, rules, n-1) {
			return true
		}
	}
	return false
}

// eachARule is a cloud in which each block and range of ports takes a rule.
type eachARule struct{ Lowerer }

func (eachARule) Unsupported(flow.Service) string { return "" }
func (eachARule) Bound(Quota) Bound               { return Bound{} }
