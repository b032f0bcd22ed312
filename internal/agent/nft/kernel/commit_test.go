package kernel

import (
	"errors"
	"math/rand/v2"
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nephele-io/nephele/internal/agent/nft/kernel/netfilter"
	"github.com/nephele-io/nephele/internal/agent/nft/nfttest"
	"github.com/nephele-io/nephele/internal/agent/nft/ruleset"
)

// TestErrorsOfTransactions lets transactions fail: before the kernel has them, and after it has
// carried them out. Whatever was left, the next Apply that succeeds leaves the program.
func TestErrorsOfTransactions(t *testing.T) {
	host := nfttest.NewHost(t)
	var table *Table
	if err := host.Do(func() (err error) { table, err = Open(DefaultTable); return err }); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = table.Close() })
	random := rand.New(rand.NewPCG(1, 2))
	whole, failures := table.commit, 0
	for n := range 200 {
		p := small(n % 7)
		kind := random.IntN(3)
		table.commit = func(m []netfilter.Message) error {
			switch kind {
			case 0:
				return unix.ENOBUFS
			case 1:
				return errors.Join(whole(m), netfilter.ErrUnsure)
			}
			return whole(m)
		}
		_, err := table.Apply(p)
		if kind < 2 && err == nil && n > 0 {
			continue // nothing was to be written
		}
		if err != nil {
			failures++
			continue
		}
		if wrong, err := table.Verify(p); err != nil || len(wrong) > 0 {
			t.Fatalf("step %d: %q, %v", n, wrong, err)
		}
	}
	if failures < 50 {
		t.Errorf("only %d failures", failures)
	}
}

// small is a program with a rule, a member and a set of ranges.
func small(n int) *ruleset.Program {
	a := netip.AddrFrom4([4]byte{10, 0, 0, byte(n)})
	id := ruleset.ID{byte(n % 3)}
	set := ruleset.SetName("ranges4-" + string(rune('a'+n)))
	return &ruleset.Program{
		Chains: map[string]*ruleset.Chain{
			"ingress": {Rules: []ruleset.Rule{
				{Matches: []ruleset.Match{{Kind: ruleset.MatchFamily, Lo: 4}, {Kind: ruleset.MatchMember, Of: &ruleset.PartKey{Set: ruleset.Members4, ID: id}, Source: true}}, Action: ruleset.Drop},
				{Matches: []ruleset.Match{{Kind: ruleset.MatchFamily, Lo: 4}, {Kind: ruleset.MatchPeerIn, Of: &ruleset.PartKey{Set: set}, Source: true}}, Action: ruleset.Accept},
			}},
			"in4-" + string(rune('a'+n)): {},
		},
		Parts:  ruleset.PartsOf(map[ruleset.PartKey]*ruleset.Part{{Set: ruleset.Members4, ID: id}: {Keys: ruleset.KeysOf([]string{string(a.AsSlice())})}}),
		Ranges: map[ruleset.SetName][]ruleset.Range{set: {{From: a, To: netip.MustParseAddr("255.255.255.255")}}},
	}
}
