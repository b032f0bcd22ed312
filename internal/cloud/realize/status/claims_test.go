package status

import (
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	cloudv1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud/plan"
)

// TestClaimStatus: the Vpc object names the controller that enforces in the VPC.
func TestClaimStatus(t *testing.T) {
	t.Parallel()
	d := newDesk(t, interceptor.Funcs{})
	vpc := &cloudv1.Vpc{ObjectMeta: metav1.ObjectMeta{Namespace: labNamespace, Name: homeVPC}}
	if err := d.client.Create(t.Context(), vpc); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		by     string
		status metav1.ConditionStatus
	}{{"", ""}, {labCluster, metav1.ConditionTrue}, {rivalCluster, metav1.ConditionFalse}, {"", ""}} {
		r := Report{Account: labAccount, ClusterID: labCluster, Result: &plan.Result{}, Claims: map[string]string{}}
		if c.by != "" {
			r.Claims[homeVPC] = c.by
		}
		d.write(r)
		if err := d.client.Get(t.Context(), client.ObjectKeyFromObject(vpc), vpc); err != nil {
			t.Fatal(err)
		}
		cond := meta.FindStatusCondition(vpc.Status.Conditions, cloudv1.ConditionClaimed)
		if (cond == nil) != (c.status == "") || cond != nil && cond.Status != c.status {
			t.Errorf("claimed by %q: %+v", c.by, cond)
		}
	}
}
