package e2e

import (
	"cmp"
	"flag"
	"math/rand/v2"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nephele-io/nephele/internal/tier"
)

var (
	// The first two rounds of the default seed are in the middle of changes of the cloud.
	killSeed   = flag.Uint64("kill-seed", 965, "seed of the moments at which TestKilledAtAnyMoment kills the process")
	killRounds = flag.Int("kill-rounds", 0, "how many times TestKilledAtAnyMoment kills the process; 0 means 2, and 40 in make test-long")
)

// TestKilledAtAnyMoment kills the process with SIGKILL in the middle of changes: at a random call
// to the cloud, after it took effect and before it was answered, or at a random time. After a
// restart the cloud gets to the same end state, and no call on the way, before or after the crash,
// allows anything that neither the former nor the next policies allow, or cuts what both allow.
func TestKilledAtAnyMoment(t *testing.T) {
	t.Parallel()
	rounds := cmp.Or(*killRounds, tier.Pick(2, 2, 40))
	t.Logf("seed %d, %d rounds (repeat with -args -kill-seed N -kill-rounds N)", *killSeed, rounds)
	rng := rand.New(rand.NewPCG(*killSeed, 0))
	c := newCluster(t) // one of its own, whose whole record of changes is compared with the calls
	im := importAccount(t, c, hybridCloud)
	all := decodePolicies(t, policiesYAML)
	vm := firstWithRole(hybridCloud, "app")
	role := "app"
	for range rounds {
		name, next, change := im.randomChange(rng, all, vm, &role)
		im.step(name, next, func() {
			process := c.process
			kill := func() {
				if err := process.cmd.Process.Kill(); err != nil {
					t.Error(err)
				}
			}
			change()                // while the process lives; what it does about it comes after, once changes have settled
			wait := 2 * time.Second // a change that needs fewer calls than the fuse is long is done by then, and the process killed at rest
			if rng.IntN(4) == 0 {
				wait = time.Duration(rng.IntN(600)) * time.Millisecond
			} else {
				im.guard.blowAfter(1+rng.IntN(10), kill)
			}
			select {
			case <-process.exited:
			case <-time.After(wait):
				kill()
				<-process.exited
			}
			im.guard.blowAfter(0, nil)
			c.start()
			c.waitReady()
		})
	}
	for len(im.oracle.policies) > 0 {
		im.deleteFirst()
	}
	im.mustBeReleased()
	mustBeAudited(t, c.dir, im.guard.changed())
}

// randomChange picks a change of the policies or of a VM's role.
func (im *imported) randomChange(rng *rand.Rand, all []client.Object, vm string, role *string) (string, oracle, func()) {
	var absent []client.Object
	for _, p := range all {
		present := false
		for _, q := range im.oracle.policies {
			present = present || p == q
		}
		if !present {
			absent = append(absent, p)
		}
	}
	switch n := rng.IntN(6); {
	case n < 3 && len(absent) > 0:
		p := absent[rng.IntN(len(absent))]
		next := im.oracle.copy()
		next.policies = append(next.policies, p)
		return "killed in: create " + p.GetName(), next, func() { im.create(p) }
	case n == 3 && len(im.oracle.policies) > 0:
		p := im.oracle.policies[0]
		next := im.oracle.copy()
		next.policies = next.policies[1:]
		return "killed in: delete " + p.GetName(), next, func() { im.must(im.c.client.Delete(im.t.Context(), p)) }
	default:
		other := map[string]string{"app": "db", "db": "app"}[*role]
		*role = other
		return "killed in: role " + other, im.oracle.withRole(vm, other), func() { im.setRole(vm, other) }
	}
}

// deleteFirst deletes the policy that was created first.
func (im *imported) deleteFirst() {
	im.t.Helper()
	p := im.oracle.policies[0]
	next := im.oracle.copy()
	next.policies = next.policies[1:]
	im.step("delete "+p.GetName(), next, func() { im.must(im.c.client.Delete(im.t.Context(), p)) })
}
