package intent

import (
	"math/rand/v2"
	"net/netip"
	"testing"

	"github.com/nephele-io/nephele/internal/cloud/plan/addrset"
)

// walkOneByOne is walk as the rules are read: one after the other, on what is left.
func walkOneByOne(rules []*Bound) walked {
	pool, passed, allowed, at := addrset.All(), addrset.Set{}, addrset.Set{}, stageAntrea
	for _, r := range rules {
		if r.Policy.Stage != at {
			pool, passed, at = pool.Union(passed), addrset.Set{}, r.Policy.Stage
		}
		hit := r.Blocks.Intersect(pool)
		switch r.Verdict {
		case Allow, Grant:
			allowed = allowed.Union(hit)
		case pass:
			passed = passed.Union(hit)
		}
		pool = pool.Minus(hit)
	}
	return walked{allowed, pool.Union(passed)}
}

// randomSet returns some of 64 addresses around a carry in IPv6, and of the last 64 of IPv4.
func randomSet(r *rand.Rand) (out addrset.Set) {
	for range r.IntN(5) {
		p := netip.PrefixFrom(netip.AddrFrom4([4]byte{255, 255, 255, byte(192 + r.IntN(64))}), 32-r.IntN(6))
		if r.IntN(2) == 0 {
			a := netip.MustParseAddr("2001:db8::ffff:ffff:ffff:ffe0").As16()
			a[15] += byte(r.IntN(32))
			p = netip.PrefixFrom(netip.AddrFrom16(a), 128-r.IntN(6))
		}
		if r.IntN(4) == 0 {
			out = out.Minus(addrset.OfPrefixes(p))
		} else {
			out = out.Union(addrset.OfPrefixes(p))
		}
	}
	return out
}

func TestWalkIsTheRulesOneByOne(t *testing.T) {
	const seed = 11
	r := rand.New(rand.NewPCG(seed, 1))
	for world := range 3000 {
		var rules []*Bound
		stages := []*Policy{{Stage: stageAntrea}, {Stage: stageKubernetes}, {Stage: stageBaseline}}
		at := 0
		for range r.IntN(9) {
			at = min(at+r.IntN(2)*r.IntN(3), 2)
			set := randomSet(r)
			if r.IntN(8) == 0 {
				set = addrset.All().Minus(set)
			}
			rules = append(rules, &Bound{rule: &rule{Policy: stages[at], Verdict: Verdict(r.IntN(4)), Blocks: set}})
		}
		got, want := walk(rules, func(b *Bound) addrset.Set { return b.Blocks }), walkOneByOne(rules)
		if !got.allowed.Equal(want.allowed) || !got.left.Equal(want.left) {
			t.Fatalf("seed %d, world %d, %d rules: allowed %v, left %v; want %v, %v",
				seed, world, len(rules), got.allowed.Prefixes(), got.left.Prefixes(), want.allowed.Prefixes(), want.left.Prefixes())
		}
	}
}
