package agent_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/nephele-io/nephele/internal/agent"
)

// summed is how often a histogram has counted, and what.
type summed struct {
	count uint64
	sum   float64
}

// gathered returns the histograms of an agent by their names.
func gathered(t testing.TB, a *agent.Agent) map[string]summed {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	if err := registry.Register(a.Metrics()); err != nil {
		t.Fatal(err)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]summed{}
	for _, family := range families {
		h := family.GetMetric()[0].GetHistogram()
		out[family.GetName()] = summed{h.GetSampleCount(), h.GetSampleSum()}
	}
	return out
}

// TestMetrics: the metrics are in order, and say what the status says.
func TestMetrics(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	a, _ := f.start()
	f.allow(80, 1, "")
	f.eventually("the policy is enforced", func() bool {
		s := a.Status()
		return len(s.Policies) == 1 && s.State == agent.StateEnforcing && f.open(80)
	})
	counted := gathered(t, a)
	for _, name := range []string{"nephele_agent_change_seconds", "nephele_agent_write_seconds"} {
		if counted[name].count < 1 {
			t.Errorf("%s has counted nothing", name)
		}
	}
	s := a.Status()
	want := fmt.Sprintf(`# HELP nephele_agent_connected 1 while all that is computed for the host is known and being watched.
# TYPE nephele_agent_connected gauge
nephele_agent_connected 1
# HELP nephele_agent_elements Elements of the sets and maps in the kernel.
# TYPE nephele_agent_elements gauge
nephele_agent_elements %d
# HELP nephele_agent_policies Policies of the host, by whether they are enforced.
# TYPE nephele_agent_policies gauge
nephele_agent_policies{enforced="false"} 0
nephele_agent_policies{enforced="true"} 1
# HELP nephele_agent_rules Rules in the kernel.
# TYPE nephele_agent_rules gauge
nephele_agent_rules %d
# HELP nephele_agent_state 1 for the state that the agent is in, 0 for the others.
# TYPE nephele_agent_state gauge
nephele_agent_state{state="Enforcing"} 1
nephele_agent_state{state="Failing"} 0
nephele_agent_state{state="Held"} 0
nephele_agent_state{state="Kept"} 0
nephele_agent_state{state="Released"} 0
nephele_agent_state{state="Starting"} 0
`, s.Kernel.Elements, s.Kernel.Rules)
	names := []string{"nephele_agent_connected", "nephele_agent_elements", "nephele_agent_policies", "nephele_agent_rules", "nephele_agent_state", "nephele_agent_pods"}
	if err := testutil.CollectAndCompare(a.Metrics(), strings.NewReader(want), names...); err != nil {
		t.Error(err)
	}
}
