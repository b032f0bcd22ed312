package nft_test

import (
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
	"github.com/nephele-io/nephele/internal/agent/nft"
	"github.com/nephele-io/nephele/internal/agent/nft/nfttest"
	"github.com/nephele-io/nephele/internal/agent/nft/ruleset"
	"github.com/nephele-io/nephele/internal/enforcer"
	"github.com/nephele-io/nephele/internal/policy/policytest"
)

// TestCompilerRemembers changes worlds under one Compiler, with the objects that did not change,
// and expects what a new Compiler makes. Now and then a group has not arrived yet.
func TestCompilerRemembers(t *testing.T) {
	compared, reused, refused := 0, 0, 0
	for seed := range uint64(60) {
		random := rand.New(rand.NewPCG(seed, 3))
		world := policytest.NewWorld()
		draw := policytest.Draw(random.IntN)
		for range 60 {
			world.Put(draw.Object())
		}
		refs := entities(world)
		if len(refs) == 0 {
			continue
		}
		ref := refs[random.IntN(len(refs))]
		fresh := func() *nft.Compiler {
			c := &nft.Compiler{Forwarded: seed%2 == 0}
			if seed%3 == 0 {
				nft.SmallBlocks(c)
			}
			return c
		}
		compiler := fresh()
		var last enforcer.Computed
		var before *ruleset.Program
		var text string
		for step := range 15 {
			for range random.IntN(4) {
				world.Put(draw.Object())
			}
			now := nfttest.Computed(policytest.Compute(world), ref)
			if n := len(now.AddressGroups); n > 0 && random.IntN(5) == 0 {
				i := random.IntN(n)
				now.AddressGroups = slices.Delete(now.AddressGroups, i, i+1)
			}
			reused += keep(last.Policies, now.Policies) + keep(last.AddressGroups, now.AddressGroups)
			last = now
			got, want := compiler.Compile(nft.Input{Computed: now}), fresh().Compile(nft.Input{Computed: now})
			refused += len(want.Refusals)
			if before != nil && before.String() != text {
				t.Fatalf("seed %d, step %d: the program of the step before has changed:\n%s\nit was\n%s", seed, step, before, text)
			}
			before, text = got.Program, got.Program.String()
			if got.Program.Elements() != want.Program.Elements() || !ruleset.Diff(got.Program, want.Program).Empty() || !ruleset.Diff(want.Program, got.Program).Empty() {
				t.Fatalf("seed %d, step %d: %d elements, want %d", seed, step, got.Program.Elements(), want.Program.Elements())
			}
			if got.Program.String() != want.Program.String() || !slices.Equal(got.Refusals, want.Refusals) || got.Isolated != want.Isolated {
				t.Fatalf("seed %d, step %d: got %v\n%s\nwant %v\n%s", seed, step, got.Refusals, got.Program, want.Refusals, want.Program)
			}
			compared++
		}
	}
	if compared < 500 || reused < 500 || refused < 50 {
		t.Errorf("only %d programs compared, %d objects used again, %d refusals", compared, reused, refused)
	}
}

// keep puts what has not changed in the place of what equals it, as an enforcer's mirror does, and
// counts that.
func keep[T v1beta2.NetworkPolicy | enforcer.AddressGroup](last, now []*T) int {
	n := 0
	for i, o := range now {
		if k := slices.IndexFunc(last, func(l *T) bool { return reflect.DeepEqual(l, o) }); k >= 0 {
			now[i] = last[k]
			n++
		}
	}
	return n
}
