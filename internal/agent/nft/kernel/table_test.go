package kernel_test

import (
	"math/rand/v2"
	"testing"

	"github.com/nephele-io/nephele/internal/agent/nft"
	"github.com/nephele-io/nephele/internal/agent/nft/kernel"
	"github.com/nephele-io/nephele/internal/agent/nft/nfttest"
	"github.com/nephele-io/nephele/internal/agent/nft/ruleset"
	"github.com/nephele-io/nephele/internal/policy"
	"github.com/nephele-io/nephele/internal/policy/policytest"
)

func open(t testing.TB, h *nfttest.Host) *kernel.Table {
	t.Helper()
	var table *kernel.Table
	if err := h.Do(func() (err error) { table, err = kernel.Open(kernel.DefaultTable); return err }); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = table.Close() })
	return table
}

// programs draws programs of random worlds, with rules.
func programs(seed uint64, n int) []*ruleset.Program {
	var out []*ruleset.Program
	for ; len(out) < n; seed++ {
		random := rand.New(rand.NewPCG(seed, 3))
		world := policytest.NewWorld()
		for range 60 {
			world.Put(policytest.Draw(random.IntN).Object())
		}
		listing := policytest.Compute(world)
		for i := range 4 {
			ref := policy.EntityRef{Kind: policy.KindExternalEntity, Namespace: "n" + string(rune('0'+i)), Name: "e0"}
			if p := new(nft.Compiler).Compile(nft.Input{Computed: nfttest.Computed(listing, ref)}).Program; p.Rules() > 20 {
				out = append(out, p)
			}
		}
	}
	return out
}

func verify(t *testing.T, table *kernel.Table, p *ruleset.Program) {
	t.Helper()
	if wrong, err := table.Verify(p); err != nil || len(wrong) > 0 {
		t.Fatalf("the kernel does not hold the program: %q, %v\n%s", wrong, err, p)
	}
}

func TestApplyAndReadBack(t *testing.T) {
	table := open(t, nfttest.NewHost(t))
	for _, p := range programs(1, 30) {
		if _, err := table.Apply(p); err != nil {
			t.Fatalf("%v\n%s", err, p)
		}
		verify(t, table, p)
	}
	if !table.Owned() {
		t.Error("the table has no owner")
	}
	last := programs(5000, 1)[0]
	w, err := table.Apply(last)
	if err != nil || w.Messages == 0 || w.Read {
		t.Fatal(w, err)
	}
	if w, err := table.Apply(last); err != nil || w.Messages != 0 {
		t.Errorf("the same again writes %+v, %v", w, err)
	}
	if err := table.Delete(); err != nil {
		t.Fatal(err)
	}
	if wrong, err := table.Verify(last); err != nil || len(wrong) != 1 {
		t.Errorf("after Delete: %q, %v", wrong, err)
	}
}

// TestTheNextProcessAdopts opens the table of a former process, which is neither written again nor
// wrong.
func TestTheNextProcessAdopts(t *testing.T) {
	host := nfttest.NewHost(t)
	list := programs(200, 2)
	first := open(t, host)
	if _, err := first.Apply(list[0]); err != nil {
		t.Fatal(err)
	}
	second := open(t, host)
	if _, err := second.Apply(list[0]); err == nil {
		t.Fatal("two processes own one table")
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	w, err := second.Apply(list[0])
	if err != nil || w.Rules+w.Elements+w.Chains > 0 || w.Whole {
		t.Errorf("adopting wrote %+v, %v", w, err)
	}
	verify(t, second, list[0])
	if _, err := second.Apply(list[1]); err != nil {
		t.Fatal(err)
	}
	verify(t, second, list[1])
}
