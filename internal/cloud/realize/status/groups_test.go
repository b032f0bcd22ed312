package status

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	cloudv1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan"
)

// TestGroupsWithTheReport: a report on a VM with policies brings the groups of its interfaces in
// the same write, but never an older reading than the object shows. The groups of a VM without
// policies it leaves alone.
func TestGroupsWithTheReport(t *testing.T) {
	t.Parallel()
	d := newDesk(t, interceptor.Funcs{})
	at := metav1.NewTime(time.Now().Truncate(time.Second))
	vm := d.vm()
	vm.Status.Region, vm.Status.LastSeen = home, &at
	vm.Status.NetworkInterfaces = []cloudv1.AttachedInterface{{Name: "eni-1", SecurityGroupIds: []string{"sg-own"}}}
	if err := d.client.Status().Update(t.Context(), &vm); err != nil {
		t.Fatal(err)
	}
	seen := func(after time.Duration, group string) map[string]*cloud.Snapshot {
		return map[string]*cloud.Snapshot{home: {Scope: cloud.Scope{Account: labAccount, Region: home}, ObservedAt: at.Add(after),
			Interfaces: []cloud.Interface{{ID: "eni-0", GroupIDs: []string{"sg-other"}}, {ID: "eni-1", GroupIDs: []string{group}}}}}
	}
	realized := []plan.VMPolicy{onVM("a", 1, true, "")}
	for _, c := range []struct {
		name     string
		policies []plan.VMPolicy
		after    time.Duration
		group    string
		want     string
	}{
		{"nothing is said", nil, time.Minute, "sg-ours", "sg-own"},
		{"an older reading", realized, -time.Minute, "sg-former", "sg-own"},
		{"a younger one", realized, time.Minute, "sg-ours", "sg-ours"},
		{"the one before again", realized, 30 * time.Second, "sg-own", "sg-ours"},
		{"the last one, with no policy any more", nil, 2 * time.Minute, "sg-last", "sg-last"},
	} {
		r := reportOf(nil, nil, c.policies...)
		r.Seen = seen(c.after, c.group)
		delete(r.Entities, plan.EntityRef{Namespace: labNamespace, Name: cloudv1.EntityNamePrefix + "gone"})
		d.write(r)
		if got := d.vm().Status.NetworkInterfaces[0].SecurityGroupIds; len(got) != 1 || got[0] != c.want {
			t.Errorf("%s: the object shows %v, want %s", c.name, got, c.want)
		}
	}
}
