package realize

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/nephele-io/nephele/internal/cloud/plan"
)

// gathered returns the metrics by name and labels without the account, "name{label=value,...}".
func gathered(t *testing.T, m *Metrics) map[string]float64 {
	t.Helper()
	r := prometheus.NewRegistry()
	if err := r.Register(m); err != nil {
		t.Fatal(err)
	}
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]float64{}
	for _, f := range families {
		for _, x := range f.GetMetric() {
			var labels []string
			for _, l := range x.GetLabel() {
				if l.GetName() != "account" {
					labels = append(labels, l.GetName()+"="+l.GetValue())
				}
			}
			value := x.GetCounter().GetValue() + x.GetGauge().GetValue() + float64(x.GetHistogram().GetSampleCount())
			out[f.GetName()+"{"+strings.Join(labels, ",")+"}"] = value
		}
	}
	return out
}

// TestMetrics: what is counted while policies are realized, somebody meddles, and a VM is released.
func TestMetrics(t *testing.T) {
	t.Parallel()
	l := newLab(t, labConfig{})
	l.options.Metrics = NewMetrics()
	l.engine.PutPolicy(webIn())
	l.publish()
	l.start()
	l.settle()
	l.addRuleByHand(9999)
	l.accounts.observe(t.Context())
	l.settle()
	l.setModes(plan.BreakGlass, "web-1")
	l.settle()
	got := gathered(t, l.options.Metrics)
	for name, atLeast := range map[string]float64{
		"nephele_realize_rounds_total{result=ok}":                             3,
		"nephele_realize_operations_total{kind=SetInterfaceGroups,result=ok}": 4,
		"nephele_realize_operations_total{kind=RemoveRules,result=ok}":        1,
		"nephele_realize_seconds{}":                                           1,
		"nephele_realize_drift_total{}":                                       1,
		"nephele_realize_vms{mode=break-glass}":                               1,
		"nephele_realize_vms{mode=enforce}":                                   3,
	} {
		if got[name] < atLeast {
			t.Errorf("%s is %v, want at least %v", name, got[name], atLeast)
		}
	}
	if n := got["nephele_realize_pending_operations{}"]; n != 0 {
		t.Errorf("%v operations are pending", n)
	}
	l.accounts.remove()
	l.until("the worker ends", func() bool { return l.realizer.worker(labAccount) == nil })
	l.until("its metrics go", func() bool { return len(gathered(t, l.options.Metrics)) == 0 })
}
