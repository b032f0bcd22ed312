package traffic

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"

	analysis "github.com/nephele-io/nephele/api/analysis/v1alpha1"
	"github.com/nephele-io/nephele/internal/flows/live"
)

// TestRulesHaveDecided finds what agents say of rules for the rules of an answer: by name and
// place, and for Kubernetes' policies, whose rules agents do not tell apart, by direction.
func TestRulesHaveDecided(t *testing.T) {
	clk := clocktesting.NewFakeClock(time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC))
	tr := New(0, nil, clk)
	at, sent := metav1.NewMicroTime(clk.Now()), int32(2)
	report := &analysis.TrafficReportSpec{Since: at, Until: at,
		Causes: []analysis.TrafficCause{
			{Cause: "Policy", UID: "a", Direction: "In", Rule: "web", Index: 1}, {Cause: "Policy", UID: "k", Direction: "In", Index: -1},
			{Cause: "Policy", UID: "a", Direction: "Out", Rule: "web", Index: 1}, {Cause: "Isolation", UID: "a", Direction: "In"},
		},
	}
	for i, n := range []int64{5, 7, 0, 11} {
		report.Traffic = append(report.Traffic, analysis.ReportedTraffic{Direction: "In", Client: "192.0.2.7", Server: "10.0.0.1", Protocol: 6, Port: 22, Verdict: "Allow", By: int32(i), Connections: n})
	}
	report.Traffic[0].Before = &sent
	if err := tr.Add("worker", report, func(uid string) (string, string, string, bool) {
		return map[string]string{"a": "AntreaNetworkPolicy", "k": "K8sNetworkPolicy"}[uid], "shop", uid, true
	}); err != nil {
		t.Fatal(err)
	}
	rule := func(kind, name, direction, rule string, index int32) analysis.RuleUse {
		return analysis.RuleUse{Use: "Used", Rule: analysis.Rule{Policy: analysis.Policy{Type: kind, Namespace: "shop", Name: name}, Direction: direction, Name: rule, Index: index}}
	}
	q := &analysis.EffectiveRules{Spec: analysis.EffectiveRulesSpec{Since: &at}}
	q.Status.Rules = []analysis.RuleUse{
		rule("AntreaNetworkPolicy", "a", "In", "web", 1), rule("AntreaNetworkPolicy", "a", "Out", "web", 1), rule("AntreaNetworkPolicy", "a", "In", "web", 0),
		rule("AntreaNetworkPolicy", "a", "In", "other", 1), rule("K8sNetworkPolicy", "k", "In", "", 0), rule("K8sNetworkPolicy", "k", "In", "", 1), rule("K8sNetworkPolicy", "k", "Out", "", 0),
	}
	if err := tr.Decided(t.Context(), q, live.Sight{All: true}); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range q.Status.Rules {
		got = append(got, fmt.Sprint(*r.Connections, r.Together))
	}
	if want := "[5 false 5 false 0 false 0 false 7 true 7 true 0 false]"; fmt.Sprint(got) != want || q.Status.Traffic.Enforcers != 1 || !q.Status.Traffic.Since.Equal(&at) {
		t.Errorf("%v, want %s; %+v", got, want, q.Status.Traffic)
	}
	if err := (*Store)(nil).Decided(t.Context(), q, live.Sight{All: true}); err == nil {
		t.Error("where nobody reports, nothing has been decided")
	}
}

// endless are flows without an end.
type endless struct{ read int }

func (e *endless) Scan(_, _ time.Time, each func(*live.Entry) bool) (time.Time, error) {
	for ; each(&live.Entry{}); e.read++ {
	}
	return time.Time{}, nil
}

func (e *endless) ScanDecided(since, until time.Time, each func(*live.Entry) bool) (time.Time, error) {
	return e.Scan(since, until, each)
}

// TestNobodyWaits: reading what was seen ends soon after nobody waits for the answer any more.
func TestNobodyWaits(t *testing.T) {
	for name, scan := range map[string]func(g cancellable, each func(*live.Entry) bool) (time.Time, error){
		"rows": func(g cancellable, each func(*live.Entry) bool) (time.Time, error) {
			return g.Scan(time.Time{}, time.Time{}, each)
		},
		"rules": func(g cancellable, each func(*live.Entry) bool) (time.Time, error) {
			return g.ScanDecided(time.Time{}, time.Time{}, each)
		},
	} {
		past, n := &endless{}, 0
		ctx, cancel := context.WithCancel(t.Context())
		_, err := scan(cancellable{ctx, past}, func(*live.Entry) bool {
			if n++; n == 5*entriesAtOnce {
				cancel()
			}
			return true
		})
		if !errors.Is(err, context.Canceled) || past.read > 6*entriesAtOnce {
			t.Errorf("%s: %v after %d entries", name, err, past.read)
		}
		past, n = &endless{}, 0
		if _, err := scan(cancellable{t.Context(), past}, func(*live.Entry) bool { n++; return n < 10 }); err != nil || n != 10 {
			t.Errorf("%s: %v after %d entries", name, err, n)
		}
	}
}
