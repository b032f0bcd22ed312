package aws

import (
	"context"

	"github.com/nephele-io/nephele/internal/cloud"
)

var _ cloud.NetworkLister = (*Provider)(nil)

// Networks implements cloud.NetworkLister.
func (p *Provider) Networks(ctx context.Context, s cloud.Scope) ([]cloud.Network, error) {
	if _, err := p.OwnerID(ctx); err != nil {
		return nil, err
	}
	all, err := p.reader(s.Region).networks(ctx, nil)
	if err != nil {
		return nil, p.explainAuth(ctx, s.Region, err)
	}
	return all, nil
}
