package status

import (
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	cloudv1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan"
)

// TestDriftAuthor: drift names its author if one is known to have changed the object at the time,
// be it known late, and none for what was done at other times.
func TestDriftAuthor(t *testing.T) {
	t.Parallel()
	drift := plan.Drift{Region: home, Object: "eni-1", Message: "somebody put the interface into sg-9"}
	by := func(who string, at time.Duration) cloud.Author {
		return cloud.Author{Name: who, Call: "ModifyNetworkInterfaceAttribute", At: time.Unix(0, 0).Add(at)}
	}
	ours := func(at time.Duration) cloud.Author {
		a := by("us", at)
		a.Ours = true
		return a
	}
	for _, c := range []struct {
		name    string
		authors map[string]cloud.Author // by object; the drift is between 1 h and 2 h
		late    bool
		want    string
	}{
		{"with our credentials", map[string]cloud.Author{"eni-1": ours(90 * time.Minute)}, false, "sg-9, by us, the controller's own identity (ModifyNetworkInterfaceAttribute at 1970-01-01T01:30:00Z)"},
		{"a call of ours before all was well", map[string]cloud.Author{"eni-1": ours(60*time.Minute - 20*time.Second)}, false, "sg-9"},
		{"nobody is known", nil, false, "sg-9"},
		{"somebody", map[string]cloud.Author{"eni-1": by("ann", 90*time.Minute)}, false, "sg-9, by ann (ModifyNetworkInterfaceAttribute at 1970-01-01T01:30:00Z)"},
		{"known late", map[string]cloud.Author{"eni-1": by("ann", 90*time.Minute)}, true, "sg-9, by ann (ModifyNetworkInterfaceAttribute at 1970-01-01T01:30:00Z)"},
		{"by the VM", map[string]cloud.Author{"i-1": by("ann", 90*time.Minute)}, false, "sg-9, by ann (ModifyNetworkInterfaceAttribute at 1970-01-01T01:30:00Z)"},
		{"the later of both", map[string]cloud.Author{"i-1": by("ann", 80*time.Minute), "eni-1": by("bob", 70*time.Minute)}, false, "by ann ("},
		{"long before", map[string]cloud.Author{"eni-1": by("ann", 50*time.Minute)}, false, "sg-9"},
		{"afterwards", map[string]cloud.Author{"eni-1": by("ann", 150*time.Minute)}, true, "sg-9"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t, interceptor.Funcs{})
			d.clock.SetTime(time.Unix(0, 0).Add(2 * time.Hour))
			known := false
			d.writer.ChangedBy = func(account, region, id string) (cloud.Author, bool) {
				a, ok := c.authors[id]
				return a, ok && known && account == labAccount && region == home
			}
			r := reportOf(nil, []plan.Drift{drift})
			r.Result.VMs[0].Interfaces = []plan.InterfaceStatus{{ID: "eni-1"}}
			r.AsPlanned = map[string]time.Time{home: time.Unix(0, 0).Add(time.Hour)}
			known = !c.late
			d.write(r)
			d.clock.Step(time.Hour)
			known = true
			d.write(reportOf(nil, nil))
			var account cloudv1.CloudProviderAccount
			if err := d.client.Get(t.Context(), client.ObjectKey{Namespace: labNamespace, Name: "shop"}, &account); err != nil {
				t.Fatal(err)
			}
			cond := meta.FindStatusCondition(account.Status.Conditions, cloudv1.ConditionDrift)
			told := func(text string) bool {
				return strings.Contains(text, c.want) && (strings.Contains(c.want, "by ") || !strings.Contains(text, ", by "))
			}
			if cond == nil || !told(cond.Message) {
				t.Errorf("condition %+v, want %q in it", cond, c.want)
			}
			if got := d.events(); !c.late && !slices.ContainsFunc(got, told) {
				t.Errorf("events %v, want %q in one", got, c.want)
			}
		})
	}
}
