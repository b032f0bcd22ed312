package apiserver_test

import (
	"math/rand/v2"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/nephele-io/nephele/internal/convert"
	"github.com/nephele-io/nephele/internal/policy/compute"
	"github.com/nephele-io/nephele/internal/policy/policytest"
	"github.com/nephele-io/nephele/internal/seed"
)

// TestRandomWorldsOverTheWire has the engine compute random histories of a world: the stream of
// patches that a client of any key replays comes to what a list returns, through breaks of its
// connections.
func TestRandomWorldsOverTheWire(t *testing.T) {
	t.Parallel()
	seed := seed.Of(t)
	random := rand.New(rand.NewPCG(seed, 1))
	draw := policytest.Draw(random.IntN)
	w := newWorld(t)
	network := newWire(t, w.address)
	var agents []*agent
	for _, key := range []string{"", "h0", "h1", "h2", "nobody"} {
		agents = append(agents, newAgent(t, key, runtime.ContentTypeProtobuf, network.config(w)))
	}
	engine := compute.New(compute.Options{})
	check := w.client(t, "agent", runtime.ContentTypeProtobuf)
	var past []policytest.Object
	for round := range 12 {
		for range 60 {
			for range 1 + random.IntN(3) {
				if len(past) > 0 && random.IntN(4) == 0 {
					policytest.Delete(engine, past[random.IntN(len(past))])
					continue
				}
				o := draw.Object()
				past = append(past, o)
				policytest.Put(engine, o)
			}
			w.store.Publish(convert.Delta(engine.Commit()))
		}
		if round%4 == 1 {
			network.cut()
		}
		for _, a := range agents {
			eventually(t, "in sync", func() error { return a.inSync(t.Context(), check) })
		}
	}
}
