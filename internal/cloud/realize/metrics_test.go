package realize

import (
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/nephele-io/nephele/internal/cloud/realize/brake"

	"github.com/nephele-io/nephele/internal/cloud/realize/status"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/aws/lower"
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
	quotas := 0
	for name, share := range got {
		if strings.HasPrefix(name, "nephele_quota_fill{") {
			quotas++
			if share <= 0 || share > 1 {
				t.Errorf("%s is %v", name, share)
			}
		}
	}
	if quotas < 3 {
		t.Errorf("only %d quotas are told: %v", quotas, got)
	}
	if n := got["nephele_realize_pending_operations{}"]; n != 0 {
		t.Errorf("%v operations are pending", n)
	}
	l.accounts.remove()
	l.until("the worker ends", func() bool { return l.realizer.worker(labAccount) == nil })
	l.until("its metrics go", func() bool { return len(gathered(t, l.options.Metrics)) == 0 })
}

// TestQuotaFill: the fullest object counts, each family and direction on its own, a prefix list
// with its size, and views of others' groups not at all.
func TestQuotaFill(t *testing.T) {
	v4 := cloud.Rule{Direction: cloud.Ingress, Peer: cloud.Peer{CIDR: netip.MustParsePrefix("10.0.0.0/8")}}
	v6 := cloud.Rule{Direction: cloud.Ingress, Peer: cloud.Peer{CIDR: netip.MustParsePrefix("2001:db8::/32")}}
	out, group, list := v4, v4, v4
	out.Direction = cloud.Egress
	group.Peer, list.Peer = cloud.Peer{GroupID: "sg-1"}, cloud.Peer{PrefixListID: "pl-1"}
	r := plan.Region{Limits: cloud.Limits{RulesPerGroup: 10, GroupsPerInterface: 5, GroupsPerRegion: 4}, Snapshot: &cloud.Snapshot{
		PrefixLists: []cloud.PrefixList{{ID: "pl-1", MaxEntries: 3}},
		Groups: []cloud.Group{
			{ID: "sg-1", Rules: []cloud.Rule{v4, v4, v6, out, group, list}}, // 2 + 1 + 3 of IPv4
			{ID: "view", View: true, Rules: slices.Repeat([]cloud.Rule{v4}, 9)},
		},
		Interfaces: []cloud.Interface{{GroupIDs: []string{"sg-1"}}, {GroupIDs: []string{"sg-1", "sg-2"}}},
	}}
	want := map[string]float64{quotaRules: .6, quotaHeld: .4, quotaGroups: .25}
	if got := quotaFill(r, lower.AWS{}); !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if got := quotaFill(plan.Region{Snapshot: r.Snapshot}, lower.AWS{}); len(got) != 0 {
		t.Errorf("without limits: %v", got)
	}
}

// TestBrakeMetric: how much waits is measured.
func TestBrakeMetric(t *testing.T) {
	m := NewMetrics()
	r := status.Report{Account: labAccount, Result: &plan.Result{}}
	for _, c := range []struct {
		waiting           *plan.Waiting
		released, guarded float64
	}{
		{&plan.Waiting{Released: make([]plan.InterfaceRef, 3), Guarded: make([]plan.InterfaceRef, 2)}, 3, 2}, {nil, 0, 0},
	} {
		r.Brake = brake.State{Waiting: c.waiting}
		m.published(r)
		got := gathered(t, m)
		for change, want := range map[string]float64{"released": c.released, "guarded": c.guarded} {
			name := "nephele_realize_braked_interfaces{change=" + change + "}"
			if v, found := got[name]; !found || v != want {
				t.Errorf("%s is %v (%t), want %v", name, v, found, want)
			}
		}
	}
}

// TestRefusedMetric: how many interfaces the cloud refuses to change is measured.
func TestRefusedMetric(t *testing.T) {
	m := NewMetrics()
	r := status.Report{Account: labAccount, Result: &plan.Result{}}
	for _, blocked := range []map[plan.InterfaceKey]string{{{Region: home, ID: "eni-1"}: "no right"}, nil} {
		r.Blocked = blocked
		m.published(r)
		if got := gathered(t, m)["nephele_realize_refused_interfaces{}"]; got != float64(len(blocked)) {
			t.Errorf("%v: %v", blocked, got)
		}
	}
}

// TestPlannedOperationsCountAllRounds: the gauge of what the mode plan spares counts every round,
// and goes back to 0 when nothing is planned for.
func TestPlannedOperationsCountAllRounds(t *testing.T) {
	t.Parallel()
	round := func(steps int) *plan.Result { return &plan.Result{Plan: plan.Plan{Steps: make([]plan.Step, steps)}} }
	m := NewMetrics()
	for _, c := range []struct {
		would []*plan.Result
		want  float64
	}{{[]*plan.Result{round(10), round(3), round(0)}, 13}, {nil, 0}} {
		m.published(status.Report{Account: "vms/shop", Result: round(0), Would: c.would})
		if got := gathered(t, m)["nephele_realize_planned_operations{}"]; got != c.want {
			t.Errorf("%v operations are told, want %v", got, c.want)
		}
	}
}
