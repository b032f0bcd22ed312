package realize

import (
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"

	cloudv1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud/realize/status"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan"
	"github.com/nephele-io/nephele/internal/cloud/plan/render"
	"github.com/nephele-io/nephele/internal/policy"
)

// TestAzureSubnetDenies: where the group of a subnet denies what a policy allows, the VM says so as
// long as it is so, with the policy, the flows, the group and its rule; the group stays as it is,
// and the policy is realized.
func TestAzureSubnetDenies(t *testing.T) {
	t.Parallel()
	l := newAzureLab(t, azureConfig{})
	metrics := clusterPolicy("metrics", 1, 3)
	metrics.AppliedTo = applied("db")
	metrics.Ingress = []policy.Rule{{Action: policy.Allow, Ports: append(ports(9100), ports(5432)...)}}
	obstructed := func(vm string) []plan.Obstruction {
		r, _ := l.realizer.Report(labAccount)
		i := slices.IndexFunc(r.Result.VMs, func(v plan.VMStatus) bool { return v.VM.ID == l.vms[vm].id })
		return r.Result.VMs[i].Obstructed
	}
	l.live([]event{
		{name: "allowed", do: func(lab *lab) { lab.engine.PutPolicy(metrics) }},
		{name: "looked at", do: func(lab *lab) {
			got := obstructed("db-1")
			if len(got) != 1 || got[0].Direction != cloud.Ingress || !slices.Equal(got[0].Entries, []string{"no-metrics"}) || len(got[0].Policies) != 1 || got[0].Policies[0].Name != "metrics" {
				t.Fatalf("%+v", got)
			}
			if text := render.Obstruction(got[0]); !strings.Contains(text, "metrics allows ingress tcp 9100 from 0.0.0.0/0") || !strings.Contains(text, "rule no-metrics of subnet-db") ||
				strings.Contains(text, "5432") {
				t.Error(text)
			}
			out := status.Report{}.Outcome(plan.VMStatus{Obstructed: got}, "VM", nil, status.Outcome{})
			if cond := meta.FindStatusCondition(out.Conditions, cloudv1.ConditionObstructed); cond == nil || cond.Reason != "SubnetDenies" {
				t.Errorf("%+v", cond)
			}
			if web := obstructed("web-1"); len(web) > 0 {
				t.Errorf("web-1: %+v", web)
			}
			lab.engine.DeletePolicy(metrics.UID)
		}},
		{name: "looked at again", do: func(*lab) {
			if got := obstructed("db-1"); len(got) > 0 {
				t.Errorf("nothing is enforced there any more: %+v", got)
			}
		}},
	})
}
