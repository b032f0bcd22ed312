package azure

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/nephele-io/nephele/internal/cloud"
)

const callNetworks = "Microsoft.Network/virtualNetworks/read"

var _ cloud.NetworkLister = (*Account)(nil)

// Networks implements cloud.NetworkLister. Resource Graph tells where networks are; they themselves
// are read directly: who asks wants to see marks that have just been written, and Resource Graph is
// behind. They are listed by resource groups, because the role may be that of single ones.
func (a *Account) Networks(ctx context.Context, s cloud.Scope) ([]cloud.Network, error) {
	region := regionName(s.Region)
	if err := checkRegion(region); err != nil {
		return nil, err
	}
	rows, err := a.rows(ctx, query(region, typeVNet))
	if err != nil {
		return nil, err
	}
	groups := map[string]bool{}
	for i := range rows {
		if at, ok := parsePlace(rows[i].ID); ok {
			groups[strings.ToLower(at.group)] = true
		}
	}
	w := newWorld(a.cfg.Credential.SubscriptionID, roomOf(a.cfg.Quotas))
	for _, group := range slices.Sorted(maps.Keys(groups)) {
		err := a.networksIn(ctx, w, region, group)
		if err != nil && cloud.ClassOf(err) != cloud.NotFound { // the group may have gone meanwhile
			return nil, err
		}
	}
	return w.portNetworks(), nil
}

// networksIn reads the networks of a resource group.
func (a *Account) networksIn(ctx context.Context, w *world, region, group string) error {
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
			var r row
			if err == nil {
				err = json.Unmarshal(raw, &r)
			}
			r.Type = typeVNet
			if err == nil && strings.EqualFold(regionName(r.Location), region) {
				err = w.add(&r)
			}
			if err != nil {
				return &cloud.Error{Class: cloud.Unavailable, Call: callNetworks, Err: errors.New("the answer is not a list of networks: " + cloud.Words(err.Error()))}
			}
		}
		if len(w.networks) > a.cfg.Bounds.Objects {
			return bounded(&cloud.BoundError{What: "the account has", Bound: int64(a.cfg.Bounds.Objects), Unit: "objects", Flag: "--max-objects"})
		}
	}
	return nil
}

// portNetworks are the networks in the words of the port.
func (w *world) portNetworks() []cloud.Network {
	var out []cloud.Network
	for _, k := range slices.Sorted(maps.Keys(w.networks)) {
		n := w.networks[k]
		out = append(
			out,
			cloud.Network{ID: k, UID: strings.ToLower(n.GUID), Name: n.Name, OwnerID: w.subscription, CIDRs: prefixes(n.AddressSpace.AddressPrefixes), Tags: portTags(n.Tags)},
		)
	}
	return out
}
