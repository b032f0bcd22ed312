package reach_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/nephele-io/nephele/internal/preview"
	"github.com/nephele-io/nephele/internal/preview/previewtest"
	"github.com/nephele-io/nephele/internal/reach"
)

// shopPods is a Node that is the first machine of the first VPC, with a Pod that has its second
// address; what the machine has of its own are the same interface.
const shopPods = `
---
apiVersion: v1
kind: Node
metadata: {name: node-1}
status: {addresses: [{type: InternalIP, address: 10.1.0.10}]}
---
apiVersion: v1
kind: Pod
metadata: {name: p, namespace: shop, labels: {app: web}}
spec: {nodeName: node-1, containers: [{name: c, image: i}]}
status: {phase: Running, podIP: 10.1.0.60, podIPs: [{ip: 10.1.0.60}]}
`

// TestReachIsWhatTheCloudDoes: on random accounts without policies, reach with a snapshot says of
// every flow what the simulator says.
func TestReachIsWhatTheCloudDoes(t *testing.T) {
	for seed := range uint64(8) {
		r := rand.New(rand.NewPCG(seed, 31))
		e := previewtest.Open(t, previewtest.RandomShop(r, true), previewtest.ShopAccount+shopPods)
		passed, stopped := e.Compare(t, fmt.Sprint("seed ", seed))
		t.Logf("seed %d: %d flows pass, %d do not", seed, passed, stopped)
		if passed == 0 || stopped == 0 {
			t.Errorf("seed %d: %d flows pass and %d do not: want some of both", seed, passed, stopped)
		}
	}
}

// TestReachIsWhatEnforcementLeadsTo: on random accounts with policies, reach says beforehand of
// every flow what the simulator says when the policies are enforced, and says the same afterwards.
func TestReachIsWhatEnforcementLeadsTo(t *testing.T) {
	enforced := 0
	for seed := range uint64(8) {
		r := rand.New(rand.NewPCG(seed, 32))
		e := previewtest.Open(t, previewtest.RandomShop(r, false), previewtest.ShopAccount+shopPods+previewtest.RandomPolicies(r))
		planned, err := e.Plan(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if refused := planned.Accounts[0].Result.Refusals; len(refused) > 0 {
			t.Logf("seed %d: refused: %v", seed, refused)
			continue
		}
		previewtest.Perform(t, e.Provider, e.Planner)
		passed, stopped := e.Compare(t, fmt.Sprint("seed ", seed))
		e.Look(t) // what is under our control now had groups of its own, which are known
		e.Compare(t, fmt.Sprint("seed ", seed, ", read again"))
		enforced++
		t.Logf("seed %d: %d flows pass, %d do not", seed, passed, stopped)
	}
	if enforced < 5 {
		t.Errorf("only %d of 8 worlds were enforced in full", enforced)
	}
}

// TestReachWithoutSnapshotSaysNative guards the two tests above: reach without the snapshot does
// not know what the groups decide.
func TestReachWithoutSnapshotSaysNative(t *testing.T) {
	e := previewtest.Open(t, previewtest.RandomShop(rand.New(rand.NewPCG(1, 31)), true), previewtest.ShopAccount)
	e.In.Objects.Observed = nil
	w := preview.Compute(e.In).Computed.World(false)
	flows := w.Reach(reach.Question{From: reach.Everybody(), To: reach.Everybody(), Refused: true})
	if len(flows) == 0 || slices.ContainsFunc(flows, func(f reach.Flows) bool { return f.Outcome != reach.Native }) {
		t.Errorf("%d flows, want all Native", len(flows))
	}
}
