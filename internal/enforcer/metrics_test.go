package enforcer_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/nephele-io/nephele/internal/enforcer"
)

// gathered is what a collector shows, one line per value.
func gathered(t *testing.T, c prometheus.Collector) []string {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	if err := registry.Register(c); err != nil {
		t.Fatal(err)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	lines := []string{}
	for _, f := range families {
		for _, m := range f.Metric {
			var labels []string
			for _, l := range m.Label {
				labels = append(labels, l.GetValue())
			}
			lines = append(
				lines,
				fmt.Sprintf("%s{%s} %v", strings.TrimPrefix(f.GetName(), "nephele_enforcer_"), strings.Join(labels, ","), m.GetGauge().GetValue()+m.GetCounter().GetValue()),
			)
		}
	}
	return lines
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	a := newAntrea(t)
	a.move("", "")
	f := a.follower()
	f.Metrics = enforcer.NewMetrics()
	m := f.Mirror("k", nil)
	run(t, m)
	shows := func(want ...string) {
		t.Helper()
		eventually(t, "shown", func() error {
			if d := cmp.Diff(want, gathered(t, f.Metrics)); d != "" {
				return fmt.Errorf("-want +got:\n%s", d)
			}
			return nil
		})
	}
	shows("events_total{addressgroups,ADDED} 1", "events_total{addressgroups,BOOKMARK} 1", "events_total{appliedtogroups,ADDED} 1",
		"events_total{appliedtogroups,BOOKMARK} 1", "events_total{networkpolicies,ADDED} 1", "events_total{networkpolicies,BOOKMARK} 1",
		"in_sync{k,addressgroups} 1", "in_sync{k,appliedtogroups} 1", "in_sync{k,networkpolicies} 1",
		"watches_total{k,addressgroups} 1", "watches_total{k,appliedtogroups} 1", "watches_total{k,networkpolicies} 1")
}
