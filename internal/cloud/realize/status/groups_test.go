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

// TestGroupsWithTheReport: who writes that policies are realized brings the groups of interfaces in
// the same write, but never an older reading than the object shows; and says until when there is
// something to come.
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
	for _, c := range []struct {
		name     string
		after    time.Duration
		group    string
		underway bool
		want     string
	}{
		{"an older reading", -time.Minute, "sg-former", true, "sg-own"},
		{"a younger one, and more to come", time.Minute, "sg-ours", true, "sg-ours"},
		{"the one before again", 30 * time.Second, "sg-own", false, "sg-ours"},
		{"the last one", 2 * time.Minute, "sg-last", false, "sg-last"},
	} {
		r := reportOf(nil, nil, onVM("a", 1, true, ""))
		r.Seen, r.Underway = seen(c.after, c.group), c.underway
		delete(r.Entities, plan.EntityRef{Namespace: labNamespace, Name: cloudv1.EntityNamePrefix + "gone"})
		d.write(r)
		if got := d.vm().Status.NetworkInterfaces[0].SecurityGroupIds; len(got) != 1 || got[0] != c.want {
			t.Errorf("%s: the object shows %v, want %s", c.name, got, c.want)
		}
		if !eventually(func() bool { return d.writer.Owes(labAccount) == c.underway }) {
			t.Errorf("%s: something is owed: %v, want %v", c.name, !c.underway, c.underway)
		}
	}
}
