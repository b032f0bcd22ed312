package adopt_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/nephele-io/nephele/internal/cloud/adopt"
	"github.com/nephele-io/nephele/internal/preview/previewtest"
)

// TestPoliciesFromGroupsMeanTheSame: on random accounts, the policies that are made from the groups
// are valid, and with them every flow has the verdict that the simulator gives it without them.
func TestPoliciesFromGroupsMeanTheSame(t *testing.T) {
	policies := 0
	for seed := range uint64(15) {
		r := rand.New(rand.NewPCG(seed, 33))
		shop := previewtest.Open(t, previewtest.RandomShop(r, true), previewtest.ShopAccount)
		var machines []adopt.Machine
		for entity, vm := range shop.In.Objects.Observed[0].VMs {
			machines = append(machines, adopt.Machine{Entity: entity, ID: vm.VMID})
		}
		slices.SortFunc(machines, func(a, b adopt.Machine) int { return strings.Compare(a.Entity.String(), b.Entity.String()) })
		made := adopt.Groups(shop.Snapshot, machines, func(adopt.Machine) bool { return true }, 100)
		for _, left := range made.LeftOut {
			if text := left.String(); !strings.Contains(text, "its interfaces hold different groups") {
				t.Fatalf("seed %d: left out: %s", seed, text)
			}
		}
		manifests := previewtest.ShopAccount
		for _, p := range made.Policies {
			raw, err := yaml.Marshal(p)
			if err != nil {
				t.Fatal(err)
			}
			manifests += "---\n" + string(raw)
		}
		policies += len(made.Policies)
		shop.In = previewtest.Inputs(t, manifests)
		shop.Look(t)
		passed, stopped := shop.Compare(t, fmt.Sprint("seed ", seed))
		if passed == 0 || stopped == 0 {
			t.Errorf("seed %d: %d flows pass and %d do not: want some of both", seed, passed, stopped)
		}
	}
	if policies < 30 {
		t.Errorf("only %d policies were made", policies)
	}
}
