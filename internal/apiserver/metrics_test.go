package apiserver

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
	"github.com/nephele-io/nephele/internal/apiserver/storage"
	"github.com/nephele-io/nephele/internal/apiserver/watchstore"
)

type noReports struct{}

func (noReports) Report(context.Context, *v1beta2.NetworkPolicyStatus) error { return nil }

// TestMetrics looks at what is counted before and after the store opens, of one watch and of one
// that is cut off.
func TestMetrics(t *testing.T) {
	t.Parallel()
	store := watchstore.New(watchstore.Options{MaxPending: 1})
	m := NewMetrics(store)
	registry := prometheus.NewPedanticRegistry()
	if err := registry.Register(m); err != nil {
		t.Fatal(err)
	}
	shows := func(want ...string) {
		t.Helper()
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, f := range families {
			for _, x := range f.Metric {
				line := f.GetName()
				for _, l := range x.Label {
					line += " " + l.GetValue()
				}
				if v := x.GetGauge().GetValue() + x.GetCounter().GetValue(); v != 0 {
					got = append(got, fmt.Sprintf("%s %v", line, v))
				}
			}
		}
		slices.Sort(want)
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("(-want +got):\n%s", d)
		}
	}
	shows()
	store.Publish(watchstore.Changes{})
	watcher, err := store.Watch(watchstore.AddressGroups, "")
	if err != nil {
		t.Fatal(err)
	}
	s := startStream(t.Context(), watcher, storage.Filter{}, false, m, func() {})
	<-s.ResultChan()
	if err := m.counting(noReports{}).Report(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	m.ended(watchstore.AppliedToGroups, watchstore.ErrCutOff)
	m.ended(watchstore.AppliedToGroups, watchstore.ErrStopped)
	s.Stop()
	for range s.ResultChan() {
		t.Error("an event after the end")
	}
	shows("nephele_api_ready 1", "nephele_api_events_total addressgroups BOOKMARK 1", "nephele_api_reports_total 1",
		"nephele_api_watchers_cut_off_total appliedtogroups 1")
}
