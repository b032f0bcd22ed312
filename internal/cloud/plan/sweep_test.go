package plan

import (
	"math/rand/v2"
	"testing"
)

// walkOneByOne is walk as the rules are read: one after the other, on what is left.
func walkOneByOne(rules []*bound) walked {
	pool, passed, allowed, at := Everything(), Set{}, Set{}, stageAntrea
	for _, r := range rules {
		if r.policy.stage != at {
			pool, passed, at = pool.Union(passed), Set{}, r.policy.stage
		}
		hit := r.blocks.Intersect(pool)
		switch r.verdict {
		case allow, grant:
			allowed = allowed.Union(hit)
		case pass:
			passed = passed.Union(hit)
		}
		pool = pool.Minus(hit)
	}
	return walked{allowed, pool.Union(passed)}
}

func TestWalkIsTheRulesOneByOne(t *testing.T) {
	const seed = 11
	r := rand.New(rand.NewPCG(seed, 1))
	all := universe()
	for world := range 3000 {
		var rules []*bound
		stages := []*policy{{stage: stageAntrea}, {stage: stageKubernetes}, {stage: stageBaseline}}
		at := 0
		for range r.IntN(9) {
			at = min(at+r.IntN(2)*r.IntN(3), 2)
			set, _ := randomSet(r, all)
			if r.IntN(8) == 0 {
				set = Everything().Minus(set)
			}
			rules = append(rules, &bound{rule: &rule{policy: stages[at], verdict: verdict(r.IntN(4)), blocks: set}})
		}
		got, want := walk(rules, func(b *bound) Set { return b.blocks }), walkOneByOne(rules)
		if !got.allowed.Equal(want.allowed) || !got.left.Equal(want.left) {
			t.Fatalf("seed %d, world %d, %d rules: allowed %v, left %v; want %v, %v",
				seed, world, len(rules), got.allowed.Prefixes(), got.left.Prefixes(), want.allowed.Prefixes(), want.left.Prefixes())
		}
	}
}
