package realize

import (
	"context"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan"
)

// claim applies the part of a plan that claims networks, and returns these. What else is in the
// plan is planned again on what is observed afterwards.
func (w *worker) claim(ctx context.Context, t task, c computed, claims plan.Plan) (map[string][]string, error) {
	touched, err := w.apply(ctx, t, c, claims)
	if err != nil {
		return nil, err
	}
	w.presence.Claims(ctx, t.acct.Provider, claims)
	if w.r.ClaimPause <= 0 {
		return touched, nil
	}
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-w.r.Clock.After(w.r.ClaimPause):
		w.presence.Cycle(ctx)
		return touched, nil
	}
}

// claimsOf returns the owners of the claims on the networks of the regions, by network.
func claimsOf(regions []plan.Region) map[string]string {
	out := map[string]string{}
	for _, r := range regions {
		for _, n := range r.Snapshot.Networks {
			if by := n.Tags[cloud.TagClaim]; by != "" {
				out[n.ID] = by
			}
		}
	}
	return out
}
