package status

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	cloudv1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud/plan"
	"github.com/nephele-io/nephele/internal/platform/recovered"
)

// TestFaultStatus: the account says what is left out because of a fault, by name, and that nothing
// is done if that is so; and nothing any more when the cause is gone.
func TestFaultStatus(t *testing.T) {
	d := newDesk(t, interceptor.Funcs{})
	report := func(err error, faults ...plan.Fault) Report {
		r := reportOf(nil, nil, plan.VMPolicy{PolicyRef: plan.PolicyRef{Kind: "AntreaNetworkPolicy", Namespace: "shop", Name: "odd", UID: "u-1"}})
		r.Result.Faults, r.Err = faults, err
		return r
	}
	panicked := recovered.Do(func() { panic("out of range") })
	a := &accountStatus{}
	for _, step := range []struct {
		name   string
		report Report
		reason string
		says   string
	}{
		{"nothing", report(nil), "", ""},
		{"a policy", report(nil, plan.Fault{Policy: "u-1", Text: "nil pointer"}), cloudv1.ReasonPartlyRealized, "AntreaNetworkPolicy shop/odd is left as it is"},
		{"an interface", report(nil, plan.Fault{Interface: "eni-1", Region: home, Text: "nil pointer"}), cloudv1.ReasonPartlyRealized, "the interface eni-1 in " + home},
		{"a region", report(nil, plan.Fault{Region: home, Text: "nil pointer"}), cloudv1.ReasonPartlyRealized, "the region " + home},
		{"a round", report(panicked), cloudv1.ReasonNotRealized, "out of range"},
		{"a round that hangs", report(fmt.Errorf("it has not come on: %w", ErrStalled)), cloudv1.ReasonNotRealized, "not come on"},
		{"gone", report(nil), "", ""},
	} {
		if err := d.writer.writeFaults(t.Context(), a, step.report); err != nil {
			t.Fatal(err)
		}
		c := meta.FindStatusCondition(d.account().Status.Conditions, cloudv1.ConditionFaulty)
		switch {
		case step.reason == "" && c != nil:
			t.Errorf("%s: %+v", step.name, c)
		case step.reason != "" && (c == nil || c.Reason != step.reason || !strings.Contains(c.Message, step.says)):
			t.Errorf("%s: %+v, want %s: %s", step.name, c, step.reason, step.says)
		}
	}
}
