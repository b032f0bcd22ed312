package compute_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/nephele-io/nephele/internal/policy/compute"
	"github.com/nephele-io/nephele/internal/policy/policytest"
)

// TestEveryGroupIsReferredTo: on random worlds, there is no group that no policy and no rule names:
// nobody could do anything with it, and enforcers would be sent its members.
func TestEveryGroupIsReferredTo(t *testing.T) {
	relative := 0
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 61))
		e, draw := compute.New(compute.Options{}), policytest.Draw(r.IntN)
		for range 60 {
			policytest.Put(e, draw.Object())
		}
		e.Commit()
		listing := e.Listing()
		named := map[string]bool{}
		for _, p := range listing.Policies {
			for _, rule := range p.Rules {
				for _, g := range slices.Concat(rule.AppliedToGroups, rule.AddressGroups) {
					named[g] = true
				}
				if len(rule.AppliedToGroups) > 0 {
					relative++
				}
			}
			for _, g := range p.AppliedToGroups {
				named[g] = true
			}
		}
		for _, g := range listing.AppliedToGroups {
			if !named[g.Name] {
				t.Errorf("seed %d: nothing names the AppliedToGroup %s", seed, g.Name)
			}
		}
		for _, g := range listing.AddressGroups {
			if !named[g.Name] {
				t.Errorf("seed %d: nothing names the AddressGroup %s", seed, g.Name)
			}
		}
	}
	if relative == 0 {
		t.Error("no rule of any world has groups of its own")
	}
}
