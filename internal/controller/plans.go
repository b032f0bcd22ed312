package controller

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	analysis "github.com/nephele-io/nephele/api/analysis/v1alpha1"
	cloudv1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/apiserver"
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/controller/clouds"
	"github.com/nephele-io/nephele/internal/explain"
	"github.com/nephele-io/nephele/internal/explain/redact"
	"github.com/nephele-io/nephele/internal/platform/work"
	"github.com/nephele-io/nephele/internal/preview"
)

// mostJudgedFlows is of how many flows that were seen a PlanReview says what would become of them.
const mostJudgedFlows = 5000

// plan answers a PlanReview. No cloud is called, no account opened and no Secret read for it,
// whatever accounts stand in the manifests: what the inventory has read is all that is known.
func (r *reviews) plan(
	ctx context.Context, s *seen, computation *explain.Computation, world func() *explain.World, budget *work.Budget, sight apiserver.Sight, spec analysis.PlanReviewSpec,
) (analysis.PlanReviewStatus, error) {
	// A caller that sees all policies but no accounts gets no plans of accounts.
	whole := sight.All && sight.May("list", cloudv1.GroupVersion().Group, "cloudprovideraccounts", "", "")
	var rights preview.Rights
	if !whole {
		rights.May = sight.May
	}
	proposal, errs, err := preview.Propose(spec, s.computed.Objects.Tiers, rights)
	if err != nil || len(errs) > 0 {
		return preview.Refused(errs), err
	}
	before := preview.Before{Computed: computation, World: world, Budget: budget, Traffic: func(since metav1.MicroTime) ([]analysis.SeenFlow, int64, error) {
		q := &analysis.FlowQuery{Spec: analysis.FlowQuerySpec{Since: &since, Limit: mostJudgedFlows}}
		err := r.flows(ctx, q, sight)
		return q.Status.Flows, q.Status.More, err
	}}
	if !whole {
		return preview.Limited(ctx, before, redact.View{Namespace: sight.Namespace, Cluster: sight.Cluster}, proposal, spec)
	}
	p := &preview.Planner{
		In: &preview.Inputs{Objects: *s.computed.Objects}, ClusterID: r.cluster, Lowerers: clouds.LowererOf, Close: func() {},
		Open: func(_ context.Context, a *cloudv1.CloudProviderAccount) (preview.Reader, error) {
			return known{r, a}, nil
		},
	}
	return p.Review(ctx, before, proposal, spec)
}

// known is an account as the inventory has read it.
type known struct {
	*reviews
	account *cloudv1.CloudProviderAccount
}

// Observe implements preview.Reader.
func (k known) Observe(_ context.Context, s cloud.Scope) (*cloud.Snapshot, error) {
	if k.clouds == nil {
		return nil, fmt.Errorf("accounts are not read by this controller")
	}
	snapshot, err := k.clouds.Latest(s.Account, s.Region)
	if err == nil && snapshot == nil {
		err = fmt.Errorf("the controller has not read it: it reads the regions of accounts that are stored")
	}
	return snapshot, err
}

// Limits implements preview.Reader. The limits of the account are taken from the manifests.
func (k known) Limits(ctx context.Context, s cloud.Scope) (cloud.Limits, error) {
	provider, ok := k.Provider(s.Account)
	if !ok {
		return cloud.Limits{}, fmt.Errorf("its credentials are missing")
	}
	l, err := provider.Limits(ctx, s)
	return preview.WithQuotas(l, k.account), err
}
