package form

import (
	"math/rand/v2"
	"net/netip"
	"testing"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan/addrset"
	"github.com/nephele-io/nephele/internal/cloud/plan/intent"
)

// TestMixedFormIsExact: whatever classes and blocks the mixed form takes, together they are the
// members, nothing is named that is not, it is never longer than naming all addresses, and often
// shorter than that and than naming all classes.
func TestMixedFormIsExact(t *testing.T) {
	const seed, cases = 11, 3000
	r := rand.New(rand.NewPCG(seed, 0))
	shorter := 0
	for i := range cases {
		view := &intent.Network{}
		s := &Fitter{Design: &Design{}}
		s.memory.classes = map[*intent.Network][]Candidate{}
		var members [8][]netip.Addr
		spread := 1 + r.IntN(4) // neighbours in the address space tend to be in one class, more or less
		class := 0
		for a := range 64 {
			if r.IntN(spread) == 0 {
				class = r.IntN(9) // the ninth stands for nobody
			}
			if class < 8 {
				members[class] = append(members[class], netip.AddrFrom4([4]byte{10, 0, 0, byte(a)}))
			}
		}
		var sets []addrset.Set
		var used []int
		for k, addrs := range members {
			set := addrset.Of(addrs...)
			s.memory.classes[view] = append(s.memory.classes[view], Candidate{peer: cloud.Peer{GroupID: string(rune('a' + k))}, addrs: set, reach: set})
			if len(addrs) > 0 && r.IntN(4) > 0 {
				sets, used = append(sets, set), append(used, k)
			}
		}
		all := addrset.Union(sets...)
		direct := &peerCover{all: all, used: used}
		for _, k := range used {
			direct.peers = append(direct.peers, s.memory.classes[view][k].peer)
		}
		mixed := s.mix(view, direct)
		named := []addrset.Set{mixed.rest}
		for _, k := range mixed.used {
			named = append(named, s.memory.classes[view][k].addrs)
		}
		if got := addrset.Union(named...); !got.Equal(all) {
			t.Fatalf("seed %d case %d: it names %v, the members are %v", seed, i, got.Prefixes(), all.Prefixes())
		}
		if mixed.size() > len(all.Prefixes()) {
			t.Fatalf("seed %d case %d: %d rules, but all addresses need only %d", seed, i, mixed.size(), len(all.Prefixes()))
		}
		if mixed.size() < min(direct.size(), len(all.Prefixes())) {
			shorter++
		}
	}
	if shorter < cases/100 {
		t.Errorf("seed %d: it is shorter than the plain forms in %d of %d cases only", seed, shorter, cases)
	}
}

func TestOwnersSeeGaps(t *testing.T) {
	class := func(prefixes ...string) Candidate {
		var list []netip.Prefix
		for _, p := range prefixes {
			list = append(list, netip.MustParsePrefix(p))
		}
		return Candidate{addrs: addrset.OfPrefixes(list...)}
	}
	o := newOwners([]Candidate{class("10.0.0.0/31", "2001:db8::/127"), class("10.0.0.3/32"), class("10.0.0.4/30")}, []int{0, 1, 2})
	for text, want := range map[string][]int{
		"10.0.0.0/31": {0}, "10.0.0.0/30": {-1, 0, 1}, "10.0.0.4/31": {2}, "10.0.0.4/30": {2}, "10.0.0.0/29": {-1, 0, 1, 2}, "10.0.0.8/32": {-1}, "10.0.0.6/32": {2},
		"2001:db8::/128": {0}, "2001:db8::/126": {-1, 0},
	} {
		got := o.of(netip.MustParsePrefix(text))
		if len(got) != len(want) {
			t.Errorf("%s: %v, want %v", text, got, want)
			continue
		}
		for i := range got {
			if got[i] != want[i] {
				t.Errorf("%s: %v, want %v", text, got, want)
			}
		}
	}
}
