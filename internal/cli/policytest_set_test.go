package cli

import (
	"context"
	"errors"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/nephele-io/nephele/api/analysis/v1alpha1"
	"github.com/nephele-io/nephele/internal/cli/source"
	"github.com/nephele-io/nephele/internal/cli/terminal"
	"github.com/nephele-io/nephele/internal/preview"
)

const setTests = `
apiVersion: nephele.io/v1alpha1
kind: PolicyTest
metadata: {name: set}
spec:
  flows:
  - {from: ["east:shop/web", "north:shop/web"], to: "west:shop/db", port: 5432, expect: allow}
  - {from: "east:shop/web", to: "west:shop/db", port: 22, expect: deny}
  - {from: "south:shop/web", to: "west:shop/db", port: 22, expect: allow}
  - {from: "shop/web", to: "shop/db", port: 22, expect: deny}
  - {from: ["east:shop/web", "!east:shop/x"], to: "west:shop/db", port: 22, expect: deny}
  - {from: "nowhere:shop/web", to: "west:shop/db", port: 22, expect: deny}
`

// TestSetTests: the hub is asked about every pair of ends, in pages. What is not as expected is
// reported with the policy that decides it, as is a cluster that has not answered and a test that
// makes no sense.
func TestSetTests(t *testing.T) {
	in, err := preview.LoadInputs([]string{"-"}, strings.NewReader(setTests))
	if err != nil {
		t.Fatal(err)
	}
	asked := 0
	ask := func(_ context.Context, q *v1alpha1.ReachReview) error {
		asked++
		if !q.Spec.Refused || q.Spec.To != "west:shop/db" {
			t.Errorf("asked %+v", q.Spec)
		}
		row := v1alpha1.ReachRow{Verdict: "Allow", Traffic: "TCP " + q.Spec.Port, From: v1alpha1.ReachSide{Endpoints: []v1alpha1.ReachEnd{{Name: q.Spec.From}}}, To: v1alpha1.ReachSide{Endpoints: []v1alpha1.ReachEnd{{Name: q.Spec.To}}}}
		switch cluster, _, _ := strings.Cut(q.Spec.From, ":"); {
		case cluster == "north":
			row.Verdict, row.Egress.Outcome = "Unknown", "Unanswered"
		case cluster == "nowhere":
			return apierrors.NewBadRequest(`spec.from: there is no Cluster "nowhere"`)
		case cluster == "south" && q.Spec.Page == 1:
			q.Status.Total = source.ReviewPage + 1
		case cluster == "south" && q.Spec.Page == 2:
			q.Status.Total, row.Verdict = source.ReviewPage+1, "Drop"
		case q.Spec.Port == "22":
			row.Verdict = "Drop"
		}
		q.Status.Flows = append(q.Status.Flows, row)
		return nil
	}
	report, err := testSet(t.Context(), testsAmong(in), ask)
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	if err := printTests(&text, report, false); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"FAIL  set: allow tcp 5432 from east:shop/web, north:shop/web", "Unknown: TCP 5432 from north:shop/web to west:shop/db", "ok    set: deny tcp 22 from east:shop/web",
		"Drop: TCP 22 from south:shop/web to west:shop/db", "names a cluster, as in east:shop/app=web", "with ! nobody is left out", `from: there is no Cluster "nowhere"`,
		"6 expectations: 1 met, 2 not met, 3 make no sense\n",
	} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("%q is missing in\n%s", want, text.String())
		}
	}
	if got := report.json(); asked != 6 || got.NotMet != 2 || len(got.Tests[0].Flows[0].Wrong) != 1 || !errors.Is(report.outcome(0), terminal.ErrRefused) {
		t.Errorf("%d questions, %+v", asked, got)
	}

	_, err = testSet(t.Context(), testsAmong(in), func(context.Context, *v1alpha1.ReachReview) error {
		return apierrors.NewNotFound(schema.GroupResource{Resource: "reachreviews"}, "")
	})
	if err == nil || !strings.Contains(err.Error(), "the controller of the hub does not answer") {
		t.Error(err)
	}
	supposes := strings.Replace(setTests, "  flows:", "  namespaces: [{name: shop}]\n  flows:", 1)
	if in, err = preview.LoadInputs([]string{"-"}, strings.NewReader(supposes)); err != nil {
		t.Fatal(err)
	}
	if _, err = testSet(t.Context(), testsAmong(in), ask); err == nil || !strings.Contains(err.Error(), "supposes Namespaces or endpoints") {
		t.Error(err)
	}
}
