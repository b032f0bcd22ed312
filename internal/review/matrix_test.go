package review_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/nephele-io/nephele/api/analysis/v1alpha1"
	"github.com/nephele-io/nephele/internal/explain"
	"github.com/nephele-io/nephele/internal/review"
)

// TestMatrixIsTheFlows: on random worlds, the parts of a matrix put together have a cell exactly
// where a flow goes from a machine to another one, with the strongest of the verdicts, and the
// flows that are told of a cell are those.
func TestMatrixIsTheFlows(t *testing.T) {
	cells, mixed := 0, 0
	for seed := range uint64(12) {
		w := randomComputation(seed, 40).World(false)
		flows := ask(t, w, v1alpha1.ReachReviewSpec{From: "*/*", To: "any", Refused: true, Limit: 5000}).Flows
		names := func(s v1alpha1.ReachSide) []string {
			var out []string
			for _, e := range s.Endpoints {
				out = append(out, e.Name)
			}
			switch {
			case len(s.Addresses) == 1:
				out = append(out, s.Addresses[0])
			case len(s.Addresses) > 1:
				out = append(out, "outside")
			}
			return out
		}
		want := map[[2]string][]string{}
		for _, f := range flows {
			for _, from := range names(f.From) {
				for _, to := range names(f.To) {
					if from != to && !slices.Contains(want[[2]string{from, to}], f.Verdict) {
						want[[2]string{from, to}] = append(want[[2]string{from, to}], f.Verdict)
					}
				}
			}
		}
		got := map[[2]string]v1alpha1.MatrixCell{}
		spec := v1alpha1.ReachReviewSpec{From: "*/*", To: "any", Refused: true, GroupBy: "machine", Rows: 3, Columns: 4}
		for more := true; more; {
			more = false
			m := ask(t, w, spec).Matrix
			for _, c := range m.Cells {
				got[[2]string{m.Rows[c.Row].Name, m.Columns[c.Column].Name}] = c
			}
			switch {
			case spec.FirstColumn+4 < m.TotalColumns:
				spec.FirstColumn, more = spec.FirstColumn+4, true
			case spec.FirstRow+3 < m.TotalRows:
				spec.FirstRow, spec.FirstColumn, more = spec.FirstRow+3, 0, true
			}
		}
		if len(got) != len(want) {
			t.Errorf("seed %d: %d cells, want %d", seed, len(got), len(want))
		}
		for at, verdicts := range want {
			c, is := got[at]
			strongest := verdicts[0]
			for _, v := range []string{"Drop", "Reject", "Unknown", "Native", "Allow"} {
				if slices.Contains(verdicts, v) {
					strongest = v
				}
			}
			if !is || c.Verdict != strongest || c.Mixed != (len(verdicts) > 1) {
				t.Errorf("seed %d: from %s to %s: %+v, want %v", seed, at[0], at[1], c, verdicts)
			}
			cells++
			if len(verdicts) > 1 {
				mixed++
			}
			if cells%7 > 0 {
				continue
			}
			var told []string
			for _, f := range ask(t, w, v1alpha1.ReachReviewSpec{From: "*/*", To: "any", Refused: true, GroupBy: "machine", Row: at[0], Column: at[1]}).Flows {
				if !slices.Contains(told, f.Verdict) {
					told = append(told, f.Verdict)
				}
			}
			slices.Sort(told)
			slices.Sort(verdicts)
			if !slices.Equal(told, verdicts) {
				t.Errorf("seed %d: the flows from %s to %s are %v, want %v", seed, at[0], at[1], told, verdicts)
			}
		}
	}
	if cells < 200 || mixed < 20 {
		t.Errorf("%d cells, %d of which mixed", cells, mixed)
	}
}

func ask(t *testing.T, w *explain.World, spec v1alpha1.ReachReviewSpec) v1alpha1.ReachReviewStatus {
	t.Helper()
	out, err := review.Reach(w, spec)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestMatrixGroups: groups by Namespace and by the value of a label, groups without a value last;
// what a part may be is bounded, and what a side names is, where that is asked for.
func TestMatrixGroups(t *testing.T) {
	w := randomComputation(3, 120).World(false)
	all := ask(t, w, v1alpha1.ReachReviewSpec{To: "any", GroupBy: "namespace"}).Matrix
	if all.TotalRows < 3 || len(all.Rows) != int(all.TotalRows) || all.Rows[len(all.Rows)-1].Name != "outside" && all.Rows[len(all.Rows)-1].Name != "(none)" {
		t.Errorf("by Namespace: %+v", all.Rows)
	}
	for _, r := range all.Rows {
		if r.Name != "outside" && r.Count == 0 {
			t.Errorf("nobody is in %s", r.Name)
		}
	}
	if by := ask(t, w, v1alpha1.ReachReviewSpec{GroupBy: "app"}).Matrix; by.TotalRows == 0 {
		t.Errorf("by label: %+v", by.Rows)
	}
	for _, f := range ask(t, w, v1alpha1.ReachReviewSpec{To: "any", Ends: 1}).Flows {
		if len(f.From.Endpoints) > 1 || len(f.To.Endpoints) > 1 {
			t.Errorf("%d and %d ends are named", len(f.From.Endpoints), len(f.To.Endpoints))
		}
	}
	for _, spec := range []v1alpha1.ReachReviewSpec{
		{GroupBy: "kind", Rows: 201}, {GroupBy: "kind", Columns: -1}, {GroupBy: "kind", FirstRow: -1}, {GroupBy: "kind", FirstColumn: -1}, {To: "any", Row: "a", Column: "b"},
		{GroupBy: "kind", Row: "a"}, {To: "any", Ends: -1}, {GroupBy: fmt.Sprintf("%01025d", 0)},
	} {
		if _, err := review.Reach(w, spec); err == nil {
			t.Errorf("%+v is answered", spec)
		}
	}
}
