package cli

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/nephele-io/nephele/internal/seed"
)

// imports are manifests of an account that imports, into the Namespace vms, what the entries for
// VMs and native services select. The cloud is the part of its spec that names the cloud.
func imports(cloud, vms, services string, more ...string) string {
	return fmt.Sprintf(`
apiVersion: v1
kind: Namespace
metadata: {name: vms}
---
apiVersion: crd.cloud.antrea.io/v1alpha1
kind: CloudProviderAccount
metadata: {name: a, namespace: vms}
spec:
  %s, secretRef: {name: s, namespace: vms, key: k}}
---
apiVersion: crd.cloud.antrea.io/v1alpha1
kind: CloudEntitySelector
metadata: {name: all, namespace: vms}
spec:
  accountName: a
  accountNamespace: vms
  vmSelector: [%s]
  nativeSelector: [%s]
`, cloud, vms, services) + strings.Join(more, "")
}

// hopped is a random world of machines behind load balancers, beside a simulator that knows what
// becomes of packets.
type hopped interface {
	// policies draws some on the targets, and want makes them what is wanted.
	policies(n int) []string
	want(t *testing.T, policies []string)
	// compareHops asks about flows to every front end, and counts what it has seen.
	compareHops(t *testing.T, when string, seen map[string]int)
	perform(t *testing.T, n int)
}

// compareHopped holds what explain says of every hop against the simulator in random worlds, before
// and after random policies on the targets are enforced. It fails if it has seen less of something
// than is given.
func compareHopped(t *testing.T, worlds int, draw func(*testing.T, *rand.Rand) hopped, least map[string]int) {
	t.Helper()
	random := rand.New(rand.NewPCG(seed.Of(t), 16))
	seen := map[string]int{}
	for range worlds {
		w := draw(t, random)
		policies := w.policies(2)
		for _, when := range []string{"before", "enforced"} {
			w.want(t, policies)
			w.compareHops(t, when, seen)
			w.want(t, policies)
			w.perform(t, -1)
		}
		if t.Failed() {
			return
		}
	}
	t.Logf("%v", seen)
	for what, n := range least {
		if seen[what] < n {
			t.Errorf("%d times %s, want at least %d: %v", seen[what], what, n, seen)
		}
	}
}
