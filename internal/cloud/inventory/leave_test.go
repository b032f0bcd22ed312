package inventory

import (
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/sim/aws"
)

// TestOneWriterOfGroups: the inventory writes the groups of interfaces until the object says how
// far policies are realized, and never after that, whatever else about the VM is written.
func TestOneWriterOfGroups(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.create(l.secret(goodCreds), l.cpa(), l.ces("web", "all", wholeVPC(vpc1)))
	l.reconcile()
	nics, err := l.region(oregon).NetworkInterfaces()
	if err != nil {
		t.Fatal(err)
	}
	nic := nics[slices.IndexFunc(nics, func(n aws.NetworkInterface) bool {
		return n.VPCID == vpc1 && n.Attachment != nil && n.Attachment.InstanceID != ""
	})]
	groups, err := l.region(oregon).SecurityGroups()
	if err != nil {
		t.Fatal(err)
	}
	var own []string
	for _, g := range groups {
		if g.VPCID == vpc1 {
			own = append(own, g.ID)
		}
	}
	vm := func() *v1alpha1.VirtualMachine {
		return get(l, &v1alpha1.VirtualMachine{}, "web", nic.Attachment.InstanceID)
	}
	is := func(when, want string) {
		t.Helper()
		status := vm().Status
		i := slices.IndexFunc(status.NetworkInterfaces, func(n v1alpha1.AttachedInterface) bool { return n.Name == nic.ID })
		if got := status.NetworkInterfaces[i].SecurityGroupIds; !slices.Equal(got, []string{want}) {
			t.Errorf("%s: the object shows %v, want %s", when, got, want)
		}
	}
	put := func(group string) {
		t.Helper()
		if err := l.region(oregon).Interfaces().ModifyNetworkInterfaceGroups(nic.ID, []string{group}); err != nil {
			t.Fatal(err)
		}
		l.inv.Trigger("clouds/acc")
		l.reconcile()
	}

	put(own[0])
	is("nothing is said of policies", own[0])
	put(own[1])
	is("nothing is said of policies, and the groups change", own[1])

	said := vm()
	meta.SetStatusCondition(&said.Status.Conditions, metav1.Condition{Type: v1alpha1.ConditionRealized, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonPending})
	said.Status.PolicySummary = "0/1"
	if err := l.api.Status().Update(t.Context(), said); err != nil {
		t.Fatal(err)
	}
	put(own[0])
	is("policies are being realized", own[1])
	if err := l.region(oregon).CreateTags([]string{nic.Attachment.InstanceID}, []aws.Tag{{Key: "state", Value: "new"}}); err != nil {
		t.Fatal(err)
	}
	l.inv.Trigger("clouds/acc")
	l.reconcile()
	is("a tag has changed", own[1])
	if now := vm().Status; now.Tags["state"] != "new" || now.PolicySummary != "0/1" || meta.FindStatusCondition(now.Conditions, v1alpha1.ConditionRealized) == nil {
		t.Errorf("a tag has changed: %+v", now)
	}
}
