package azure

import (
	"context"
	"encoding/json"
	"errors"
	"strings"

	"github.com/nephele-io/nephele/internal/cloud"
)

const callNetworks = "Microsoft.Network/virtualNetworks/read"

var _ cloud.NetworkLister = (*Account)(nil)

// Networks implements cloud.NetworkLister. It reads directly: who asks wants to see marks that have
// just been written, and Resource Graph is behind.
func (a *Account) Networks(ctx context.Context, s cloud.Scope) ([]cloud.Network, error) {
	if err := checkRegion(regionName(s.Region)); err != nil {
		return nil, err
	}
	w := newWorld(a.cfg.Credential.SubscriptionID, roomOf(a.cfg.Quotas))
	pages := a.network.NewVirtualNetworksClient().NewListAllPager(nil)
	for page := 1; pages.More(); page++ {
		if page > a.cfg.Bounds.Pages {
			return nil, bounded(&cloud.BoundError{What: "the answer has", Bound: int64(a.cfg.Bounds.Pages), Unit: "pages", Flag: "--max-pages"})
		}
		answer, err := pages.NextPage(ctx)
		if err != nil {
			return nil, classify(callNetworks, err, a.cfg.Now())
		}
		for _, n := range answer.Value {
			raw, err := json.Marshal(n)
			var r row
			if err == nil {
				err = json.Unmarshal(raw, &r)
			}
			r.Type = typeVNet
			if err == nil && strings.EqualFold(regionName(r.Location), regionName(s.Region)) {
				err = w.add(&r)
			}
			if err != nil {
				return nil, &cloud.Error{Class: cloud.Unavailable, Call: callNetworks, Err: errors.New("the answer is not a list of networks: " + cloud.Words(err.Error()))}
			}
		}
		if len(w.networks) > a.cfg.Bounds.Objects {
			return nil, bounded(&cloud.BoundError{What: "the account has", Bound: int64(a.cfg.Bounds.Objects), Unit: "objects", Flag: "--max-objects"})
		}
	}
	return w.portNetworks(), nil
}

// portNetworks are the networks in the words of the port.
func (w *world) portNetworks() []cloud.Network {
	var out []cloud.Network
	for _, k := range sortedKeys(w.networks) {
		n := w.networks[k]
		out = append(
			out,
			cloud.Network{ID: k, UID: strings.ToLower(n.GUID), Name: n.Name, OwnerID: w.subscription, CIDRs: prefixes(n.AddressSpace.AddressPrefixes), Tags: portTags(n.Tags)},
		)
	}
	return out
}
