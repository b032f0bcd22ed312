package status

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/nephele-io/nephele/api/antrea/v1beta1"
	setv1alpha1 "github.com/nephele-io/nephele/api/set/v1alpha1"
)

func memberHeard(name string, ago time.Duration, connected metav1.ConditionStatus) *setv1alpha1.Cluster {
	heard := metav1.NewTime(noon.Add(-ago))
	c := &setv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: setv1alpha1.ClusterStatus{LastHeard: &heard, Entities: 7}}
	reason := setv1alpha1.ReasonOK
	if connected != metav1.ConditionTrue {
		reason = setv1alpha1.ReasonNotHeard
	}
	c.Status.Conditions = []metav1.Condition{{Type: setv1alpha1.ClusterConnected, Status: connected, Reason: reason}, {Type: setv1alpha1.ClusterInSync, Status: connected, Reason: reason}}
	return c
}

// TestClusters: a member that is away for a moment is worth a note, one that is away for long needs
// a person; and of each it is told how far the policies are there.
func TestClusters(t *testing.T) {
	spread := &v1beta1.ClusterNetworkPolicy{ObjectMeta: metav1.ObjectMeta{Name: "p", UID: "p", Generation: 2}}
	spread.Status = v1beta1.NetworkPolicyStatus{Phase: v1beta1.NetworkPolicyRealizing, ObservedGeneration: 2, Clusters: []v1beta1.ClusterRealization{
		{Name: "east", Phase: "Realized", ObservedGeneration: 2}, {Name: "west", Phase: "Realized", ObservedGeneration: 1},
		{Name: "north", Phase: "Failed", Reason: setv1alpha1.ReasonIdentityHidden, Message: "hidden"},
	}}
	refused := memberHeard("north", 0, metav1.ConditionTrue)
	refused.Status.Refused = 1
	refused.Status.Conditions = append(refused.Status.Conditions, metav1.Condition{Type: setv1alpha1.ClusterClaimsRefused, Status: metav1.ConditionTrue, Message: "an address of nobody's"})
	long := metav1.NewTime(noon.Add(-time.Hour))
	membership := &setv1alpha1.Membership{ObjectMeta: metav1.ObjectMeta{Name: "hub"}, Spec: setv1alpha1.MembershipSpec{Cluster: "here", Hub: []string{"h:1"}}, Status: setv1alpha1.MembershipStatus{
		LastHeard: &long, Conditions: []metav1.Condition{{Type: setv1alpha1.MembershipConnected, Status: metav1.ConditionFalse, Reason: setv1alpha1.ReasonNotReached, Message: "refused"}}}}
	c := fake.NewClientBuilder().WithScheme(scheme(t)).WithObjects(append(healthy(), spread, membership, refused,
		memberHeard("east", 0, metav1.ConditionTrue), memberHeard("west", time.Minute, metav1.ConditionFalse), memberHeard("south", time.Hour, metav1.ConditionFalse))...).Build()
	r, err := Collect(t.Context(), c, clockAt)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, x := range r.Clusters {
		names = append(names, x.Name+" "+x.State)
	}
	if got := strings.Join(names, ", "); got != "east InSync, north InSync, south NotHeard, west NotHeard" {
		t.Error(got)
	}
	if e, n, w := r.Clusters[0], r.Clusters[1], r.Clusters[3]; e.Policies[Realized] != 1 || w.Policies["Unknown"] != 1 || n.Policies[Failed] != 1 || len(n.Wrong) != 1 || n.Wrong[0].Message != "hidden" || len(e.Wrong)+len(w.Wrong) != 0 {
		t.Errorf("%+v", r.Clusters)
	}
	var attention, notes []string
	for _, f := range r.Attention {
		attention = append(attention, f.About+" "+f.Reason)
	}
	for _, f := range r.Notes {
		notes = append(notes, f.About)
	}
	for _, want := range []string{"Cluster south NotHeard", "Cluster north ClaimsRefused", "the hub NotReached"} {
		if !strings.Contains(strings.Join(attention, ", "), want) {
			t.Errorf("%v: want %s", attention, want)
		}
	}
	if strings.Contains(strings.Join(attention, ", "), "west") || !strings.Contains(strings.Join(notes, ", "), "Cluster west") {
		t.Errorf("%v %v", attention, notes)
	}
	if r.Membership == nil || r.Membership.Connected || r.Membership.Cluster != "here" {
		t.Errorf("%+v", r.Membership)
	}
}
