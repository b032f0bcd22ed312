package azure

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/azure/resources"
)

const callNetworks = "Microsoft.Network/virtualNetworks/read"

var _ cloud.NetworkLister = (*Account)(nil)

// Networks implements cloud.NetworkLister. Resource Graph tells where networks are; they themselves
// are read directly, because the caller looks for marks that have just been written, and Resource
// Graph lags. They are listed by resource groups, because the role may be that of single ones.
func (a *Account) Networks(ctx context.Context, s cloud.Scope) ([]cloud.Network, error) {
	region := regionName(s.Region)
	if err := checkRegion(region); err != nil {
		return nil, err
	}
	rows, err := a.rows(ctx, query(region, resources.TypeVNet))
	if err != nil {
		return nil, err
	}
	groups := map[string]bool{}
	for i := range rows {
		if at, ok := resources.ParsePlace(rows[i].ID); ok {
			groups[strings.ToLower(at.Group)] = true
		}
	}
	w := resources.NewRegion(a.cfg.Credential.SubscriptionID, resources.RoomOf(a.cfg.Quotas))
	for _, group := range slices.Sorted(maps.Keys(groups)) {
		err := a.networksIn(ctx, w, region, group)
		if err != nil && cloud.ClassOf(err) != cloud.NotFound { // the group may have gone meanwhile
			return nil, err
		}
	}
	return w.CloudNetworks(), nil
}

// networksIn reads the networks of a resource group.
func (a *Account) networksIn(ctx context.Context, w *resources.Region, region, group string) error {
	pages := a.network.networks.NewListPager(group, nil)
	for page := 1; pages.More(); page++ {
		if page > a.cfg.Bounds.Pages {
			return bounded(&cloud.BoundError{What: "the answer has", Bound: int64(a.cfg.Bounds.Pages), Unit: "pages", Flag: "--max-pages"})
		}
		answer, err := pages.NextPage(ctx)
		if err != nil {
			return classify(callNetworks, err, a.cfg.Now())
		}
		for _, n := range answer.Value {
			raw, err := json.Marshal(n)
			var r resources.Row
			if err == nil {
				err = json.Unmarshal(raw, &r)
			}
			r.Type = resources.TypeVNet
			if err == nil && strings.EqualFold(regionName(r.Location), region) {
				err = w.Add(&r)
			}
			if err != nil {
				return &cloud.Error{Class: cloud.Unavailable, Call: callNetworks, Err: errors.New("the answer is not a list of networks: " + cloud.Words(err.Error()))}
			}
		}
		if len(w.Networks) > a.cfg.Bounds.Objects {
			return bounded(&cloud.BoundError{What: "the account has", Bound: int64(a.cfg.Bounds.Objects), Unit: "objects", Flag: "--max-objects"})
		}
	}
	return nil
}
