package azure

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/azure/resources"
	"github.com/nephele-io/nephele/internal/cloud/azure/routing"
)

var _ cloud.HasRouter = (*Account)(nil)

// Router implements cloud.HasRouter.
func (a *Account) Router() cloud.Router {
	return routing.Router{
		Clients: a.routes, Subscription: a.cfg.Credential.SubscriptionID, Where: a.whereInterfaces, Change: a.writeInterface, Tag: a.Tag, Untag: a.Untag, Tags: resources.PortTags,
		Begin:    withOp,
		Classify: func(call string, err error) error { return classify(call, err, a.cfg.Now()) }, Poll: a.cfg.PollEvery, Pages: a.cfg.Bounds.Pages,
	}
}

// whereInterfaces are the resource groups of a region that have interfaces, and its scale sets in
// Uniform orchestration.
func (a *Account) whereInterfaces(ctx context.Context, region string) (groups, sets []string, err error) {
	if err := checkRegion(region); err != nil {
		return nil, nil, err
	}
	rows, err := a.rows(ctx, query(region, resources.TypeNIC, resources.TypeSet))
	if err != nil {
		return nil, nil, err
	}
	w, found := resources.NewRegion(a.cfg.Credential.SubscriptionID, resources.Room{}), map[string]bool{}
	for i := range rows {
		if err := w.Add(&rows[i]); err != nil {
			return nil, nil, &cloud.Error{Class: cloud.Unavailable, Call: resources.CallGraph, Err: err}
		}
		if at, ok := resources.ParsePlace(rows[i].ID); ok && at.Kind == resources.TypeNIC {
			found[strings.ToLower(at.Group)] = true
		}
	}
	maps.DeleteFunc(w.Sets, func(_ string, uniform bool) bool { return !uniform })
	return slices.Sorted(maps.Keys(found)), slices.Sorted(maps.Keys(w.Sets)), nil
}
