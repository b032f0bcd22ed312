package realize

import (
	"context"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	cloudv1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan"
	"github.com/nephele-io/nephele/internal/sim/world"
)

// rival is a second controller that claims every network within a moment of our claim: before it,
// or after it.
type rival struct {
	cloud.Provider
	l     *lab
	after bool
}

const rivalCluster = "99999999-2222-3333-4444-555555555555"

func (r *rival) Apply(ctx context.Context, s cloud.Scope, op cloud.Op) (string, error) {
	claim := func() {
		if err := r.l.region(s.Region).CreateTags([]string{op.Target}, []world.Tag{{Key: cloud.TagClaim, Value: rivalCluster}}); err != nil {
			r.l.Error(err)
		}
	}
	ours := op.Kind == cloud.OpTag && op.Tags[cloud.TagClaim] != ""
	if ours && !r.after {
		claim()
	}
	id, err := r.Provider.Apply(ctx, s, op)
	if ours && r.after {
		claim()
	}
	return id, err
}

// TestClaimRace: whoever of two controllers claims last has the network, and the other one has done
// nothing but claim it.
func TestClaimRace(t *testing.T) {
	t.Parallel()
	for name, after := range map[string]bool{"the other one claims just before us": false, "the other one claims just after us": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, labConfig{})
			l.accounts.account.Provider = &rival{Provider: l.accounts.account.Provider, l: l, after: after}
			l.engine.PutPolicy(webIn())
			l.publish()
			l.start()
			l.until("it steps back", func() bool {
				r, _ := l.realizer.Report(labAccount)
				return r.Err == nil && r.Result != nil && r.Result.Plan.Empty() && r.Claims[homeVPC] == rivalCluster
			})
			r, _ := l.realizer.Report(labAccount)
			if len(r.Result.Refusals) == 0 || !strings.Contains(r.Result.Refusals[0].Message, rivalCluster) {
				t.Errorf("refusals %v", r.Result.Refusals)
			}
			if len(l.ours()) != 0 {
				t.Errorf("we have made groups: %v", l.ours())
			}
		})
	}
}

// TestClaimStatus: the Vpc object says who enforces in the VPC.
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
