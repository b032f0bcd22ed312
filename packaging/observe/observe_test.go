package observe

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/common/promslog"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/promqltest"
	"github.com/prometheus/prometheus/rules"
	"sigs.k8s.io/yaml"
)

var update = flag.Bool("update", false, "write the dashboards anew")

const (
	files  = "../../charts/nephele/files/"
	alerts = files + "alerts.yaml"
)

// TestDashboardsAreCurrent: what the chart has is what the code makes.
func TestDashboardsAreCurrent(t *testing.T) {
	want := map[string][]byte{}
	for _, d := range Dashboards() {
		raw, err := d.JSON()
		if err != nil {
			t.Fatal(err)
		}
		file := files + "dashboards/" + d.UID + ".json"
		want[file] = raw
		if *update {
			if err := os.WriteFile(file, raw, 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	there, err := filepath.Glob(files + "dashboards/*")
	if err != nil || len(there) != len(want) {
		t.Errorf("%d files, %d dashboards (%v)", len(there), len(want), err)
	}
	for _, file := range there {
		if got, err := os.ReadFile(file); err != nil || !bytes.Equal(got, want[file]) {
			t.Errorf("%s is not current (%v): cd packaging && go test ./observe -update", file, err)
		}
	}
}

var (
	named  = regexp.MustCompile(`"(nephele_[a-z_]+)"`)
	metric = regexp.MustCompile(`nephele_[a-z_]+`)
	ending = regexp.MustCompile(`_(bucket|sum|count)$`)
)

// made are the metrics of the code.
func made(t *testing.T) map[string]bool {
	t.Helper()
	out := map[string]bool{}
	err := filepath.WalkDir("../../internal", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		raw, err := os.ReadFile(path)
		for _, m := range named.FindAllStringSubmatch(string(raw), -1) {
			out[m[1]] = true
		}
		return err
	})
	if err != nil || len(out) < 30 {
		t.Fatalf("%d metrics in the code (%v)", len(out), err)
	}
	return out
}

// rule is one alert of the file.
type rule struct{ Alert, Expr string }

func alertRules(t *testing.T) []rule {
	t.Helper()
	raw, err := os.ReadFile(alerts)
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Groups []struct{ Rules []rule } }
	if err := yaml.Unmarshal(raw, &file); err != nil {
		t.Fatal(err)
	}
	var out []rule
	for _, g := range file.Groups {
		out = append(out, g.Rules...)
	}
	return out
}

// TestMetricsExist: every expression of a dashboard or an alert is PromQL, and asks only for
// metrics that the code has.
func TestMetricsExist(t *testing.T) {
	exprs := map[string]string{}
	for _, d := range Dashboards() {
		for _, p := range d.Panels {
			for _, q := range p.Queries {
				exprs[d.UID+", "+p.Title+", "+q.Legend] = q.Expr
			}
		}
	}
	for _, r := range alertRules(t) {
		exprs["alert "+r.Alert] = r.Expr
	}
	there := made(t)
	for where, expr := range exprs {
		if _, err := parser.NewParser(parser.Options{}).ParseExpr(expr); err != nil {
			t.Errorf("%s: %v", where, err)
		}
		names := metric.FindAllString(expr, -1)
		if len(names) == 0 {
			t.Errorf("%s asks for no metric of ours", where)
		}
		for _, name := range names {
			if !there[name] && !there[ending.ReplaceAllString(name, "")] {
				t.Errorf("%s asks for %s, which is no metric", where, name)
			}
		}
	}
}

// scenario is a test in the form of promtool.
type scenario struct {
	Name        string
	InputSeries []struct{ Series, Values string } `json:"input_series"`
	Expected    []expected                        `json:"alert_rule_test"`
}

// expected is what an alert says at a time.
type expected struct {
	At    string `json:"eval_time"`
	Alert string `json:"alertname"`
	Fires []struct {
		Labels      map[string]string `json:"exp_labels"`
		Annotations map[string]string `json:"exp_annotations"`
	} `json:"exp_alerts"`
}

// TestAlerts plays the scenarios with Prometheus's own engine, and wants of every alert that it
// fires in one and does not in another.
func TestAlerts(t *testing.T) {
	raw, err := os.ReadFile("testdata/alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Tests []scenario }
	if err := yaml.Unmarshal(raw, &file); err != nil {
		t.Fatal(err)
	}
	fires, silent := map[string]bool{}, map[string]bool{}
	for _, s := range file.Tests {
		for _, e := range s.Expected {
			fires[e.Alert] = fires[e.Alert] || len(e.Fires) > 0
			silent[e.Alert] = silent[e.Alert] || len(e.Fires) == 0
		}
		t.Run(s.Name, func(t *testing.T) { s.play(t) })
	}
	for _, r := range alertRules(t) {
		if !fires[r.Alert] || !silent[r.Alert] {
			t.Errorf("%s: is seen to fire %t, to be silent %t", r.Alert, fires[r.Alert], silent[r.Alert])
		}
	}
}

func (s scenario) play(t *testing.T) {
	const step = time.Minute
	var load strings.Builder
	fmt.Fprintln(&load, "load 1m")
	for _, series := range s.InputSeries {
		fmt.Fprintf(&load, "  %s %s\n", series.Series, series.Values)
	}
	world, err := promqltest.NewLazyLoader(load.String(), promqltest.LazyLoaderOpts{EnableAtModifier: true, EnableNegativeOffset: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := world.Close(); err != nil {
			t.Error(err)
		}
	})
	manager := rules.NewManager(&rules.ManagerOptions{
		QueryFunc: rules.EngineQueryFunc(world.QueryEngine(), world.Storage()), Appendable: world.Storage(), Context: t.Context(),
		NotifyFunc: func(context.Context, string, ...*rules.Alert) {}, Logger: promslog.NewNopLogger(), Parser: parser.NewParser(parser.Options{}),
	})
	groups, errs := manager.LoadGroups(step, labels.EmptyLabels(), "", nil, false, alerts)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	at := map[time.Duration][]expected{}
	for _, e := range s.Expected {
		d, err := model.ParseDuration(e.At)
		if err != nil {
			t.Fatal(err)
		}
		at[time.Duration(d)] = append(at[time.Duration(d)], e)
	}
	last := slices.Max(slices.Collect(maps.Keys(at)))
	for now := time.Duration(0); now <= last; now += step {
		ts := time.Unix(0, 0).UTC().Add(now)
		world.WithSamplesTill(ts, func(err error) {
			if err != nil {
				t.Fatal(err)
			}
			for _, g := range groups {
				g.Eval(t.Context(), ts)
			}
		})
		for _, e := range at[now] {
			if got, want := firing(t, groups, e.Alert), e.lines(); !slices.Equal(got, want) {
				t.Errorf("%s at %s:\n%s\nwant\n%s", e.Alert, e.At, strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
		}
	}
}

// firing are the alerts of a name that fire now, one line each.
func firing(t *testing.T, groups map[string]*rules.Group, name string) (out []string) {
	t.Helper()
	found := false
	for _, g := range groups {
		for _, r := range g.Rules() {
			a, ok := r.(*rules.AlertingRule)
			if !ok || a.Name() != name {
				continue
			}
			found = true
			if a.LastError() != nil {
				t.Errorf("%s: %v", name, a.LastError())
			}
			for _, one := range a.ActiveAlerts() {
				if one.State == rules.StateFiring {
					own := one.Labels.Map()
					delete(own, "alertname")
					out = append(out, fmt.Sprint(own, one.Annotations.Map()))
				}
			}
		}
	}
	if !found {
		t.Errorf("there is no alert %s", name)
	}
	slices.Sort(out)
	return out
}

func (e expected) lines() (out []string) {
	for _, f := range e.Fires {
		out = append(out, fmt.Sprint(f.Labels, f.Annotations))
	}
	slices.Sort(out)
	return out
}

// TestRunbook: docs/reference/alerts.md says of every alert what to do.
func TestRunbook(t *testing.T) {
	raw, err := os.ReadFile("../../docs/reference/alerts.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := regexp.MustCompile("(?m)^\\| `(Nephele[A-Za-z]+)` \\| .{20,} \\| .{20,} \\|$").FindAllStringSubmatch(string(raw), -1)
	var described, defined []string
	for _, r := range rows {
		described = append(described, r[1])
	}
	for _, r := range alertRules(t) {
		defined = append(defined, r.Alert)
	}
	slices.Sort(described)
	slices.Sort(defined)
	if !slices.Equal(described, defined) {
		t.Errorf("docs/reference/alerts.md is about %v, the alerts are %v", described, defined)
	}
}
