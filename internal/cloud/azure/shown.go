package azure

import (
	"context"
	"slices"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/azure/resources"
)

// Show implements cloud.ServiceShower.
func (a *Account) Show(kinds []cloud.ServiceKind) cloud.Provider {
	asked, tags := resources.Among(kinds), slices.Contains(kinds, cloud.ServiceTag)
	if len(asked) == 0 && !tags {
		return a
	}
	return &shown{a, asked, tags}
}

// shown is an account whose snapshots show services.
type shown struct {
	*Account
	kinds []resources.ServiceKind
	// tags says that service tags are shown, too.
	tags bool
}

// Observe implements cloud.Provider.
func (s *shown) Observe(ctx context.Context, scope cloud.Scope) (*cloud.Snapshot, error) {
	snap, err := s.observe(ctx, scope, s.kinds)
	if err != nil || !s.tags {
		return snap, err
	}
	snap.ServiceTags, err = s.serviceTags.get(ctx, s.Account, regionName(scope.Region))
	if err != nil {
		snap.ServiceFaults = append(snap.ServiceFaults, cloud.ServiceFault{
			API: "service tags", Right: callServiceTags, Kinds: []cloud.ServiceKind{cloud.ServiceTag}, Err: err,
		})
	}
	return snap, nil
}

// readServices returns the services of some kinds in a region. Resource Graph leaves out those that
// the role may not read, without a word. Of private endpoints the interfaces tell; that there must
// be load balancers and gateways, interfaces behind them tell. An answer that fails fails the whole
// region, which is then known as it was: nothing else would tell the addresses of balancers, and a
// rule that drops what comes from one would drop nothing.
func (a *Account) readServices(ctx context.Context, region string, kinds []resources.ServiceKind) ([]resources.Row, error) {
	if len(kinds) == 0 {
		return nil, nil
	}
	types := make([]string, len(kinds))
	for i, k := range kinds {
		types[i] = k.Type
	}
	return a.rows(ctx, query(region, types...))
}
