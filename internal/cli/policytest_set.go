package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/nephele-io/nephele/api/analysis/v1alpha1"
	"github.com/nephele-io/nephele/internal/cli/source"
	"github.com/nephele-io/nephele/internal/cli/terminal"
	"github.com/nephele-io/nephele/internal/clusterset/hub/questions"
	"github.com/nephele-io/nephele/internal/expect"
	"github.com/nephele-io/nephele/internal/manifest"
	"github.com/nephele-io/nephele/internal/preview"
	"github.com/nephele-io/nephele/internal/reach"
)

// errWrongQuestion is wrapped by what the hub finds wrong with a question.
var errWrongQuestion = errors.New("the question makes no sense")

// setReport holds the tests in files against what the clusters of a set decide, each for its own
// end.
func (f *testFlags) setReport(cmd *cobra.Command) (*testReport, error) {
	if f.snapshot != "" || f.coverage || f.minimum > 0 || f.staged.With {
		return nil, errors.New("with --set the clusters of the set answer by what they have: leave out --snapshot, --coverage, --min-coverage and --staged")
	}
	in, err := preview.LoadInputs(f.files, cmd.InOrStdin())
	if err != nil {
		return nil, err
	}
	tests := testsAmong(in)
	if len(tests) == 0 {
		return nil, fmt.Errorf("there is no %s among the files: want at least one, with apiVersion %s", expect.Kind, expect.GroupVersion())
	}
	c, err := f.cluster.ClientOrFiles()
	if err != nil {
		return nil, err
	}
	var unread []string
	report, err := testSet(cmd.Context(), tests, func(ctx context.Context, q *v1alpha1.ReachReview) error {
		err := c.Create(ctx, q)
		for _, why := range q.Status.Unread {
			unread = append(unread, "half an answer: "+why)
		}
		return err
	})
	slices.Sort(unread)
	terminal.Notes(cmd, slices.Compact(unread))
	return report, err
}

// testSet runs tests of which the hub answers every question.
func testSet(ctx context.Context, tests []*manifest.Document, review func(context.Context, *v1alpha1.ReachReview) error) (*testReport, error) {
	out := &testReport{}
	for _, d := range tests {
		t := d.Object.(*expect.PolicyTest)
		if t.Supposes() {
			return nil, fmt.Errorf("%s: %s supposes Namespaces or endpoints, which the clusters of a set do not: test it without --set", d.Position, d.Name())
		}
		r := expect.Result{Name: t.Name}
		for i, flow := range t.Spec.Flows {
			one := expect.FlowResult{Flow: flow, Index: i}
			rows, err := askFlow(ctx, &flow, review)
			switch {
			case errors.Is(err, errWrongQuestion):
				one.Err = err
			case err != nil:
				return nil, err
			default:
				one.Nothing = len(rows) == 0
				for _, row := range rows {
					if !flow.Expect.Met(reach.Outcome(row.Verdict)) {
						one.Told = append(one.Told, row)
					}
				}
			}
			r.Flows = append(r.Flows, one)
		}
		out.results = append(out.results, placedResult{r, d.At})
	}
	return out, nil
}

// askFlow asks about every pair of ends of an expectation.
func askFlow(ctx context.Context, f *expect.Flow, review func(context.Context, *v1alpha1.ReachReview) error) ([]v1alpha1.ReachRow, error) {
	if slices.ContainsFunc(slices.Concat(f.From, f.To), func(s string) bool { return strings.HasPrefix(s, "!") }) {
		return nil, fmt.Errorf("%w: with ! nobody is left out where clusters of a set are asked", errWrongQuestion)
	}
	var out []v1alpha1.ReachRow
	for _, from := range f.From {
		for _, to := range f.To {
			spec := v1alpha1.ReachReviewSpec{From: from, To: to, Protocol: string(f.Protocol), Port: string(f.Port), Refused: true, Limit: source.ReviewPage}
			if !questions.AsksReach(&spec) {
				return nil, fmt.Errorf("%w: neither %q nor %q names a cluster, as in east:shop/app=web", errWrongQuestion, from, to)
			}
			for spec.Page = 1; ; spec.Page++ {
				q := &v1alpha1.ReachReview{Spec: spec}
				if err := review(ctx, q); err != nil {
					return nil, askedWrong(err)
				}
				out = append(out, q.Status.Flows...)
				if len(q.Status.Flows) == 0 || int(spec.Page)*source.ReviewPage >= int(q.Status.Total) {
					break
				}
			}
		}
	}
	return out, nil
}

// askedWrong tells what is wrong with a question from a hub that does not answer.
func askedWrong(err error) error {
	switch {
	case apierrors.IsBadRequest(err):
		return fmt.Errorf("%w: %s", errWrongQuestion, strings.TrimPrefix(err.Error(), "spec."))
	case meta.IsNoMatchError(err), apierrors.IsNotFound(err), apierrors.IsServiceUnavailable(err):
		return fmt.Errorf("the controller of the hub does not answer, and nobody else knows of its clusters: %w", err)
	}
	return fmt.Errorf("ask the controller of the hub: %w", err)
}
