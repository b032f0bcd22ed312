package aws

import (
	"context"
	"net/netip"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/aws/failure"
	"github.com/nephele-io/nephele/internal/cloud/aws/routing"
)

var _ cloud.HasRouter = (*Provider)(nil)

// Router implements cloud.HasRouter.
func (p *Provider) Router() cloud.Router { return nodeRouter{p} }

// nodeRouter works on the route tables of an account.
type nodeRouter struct{ p *Provider }

func (r nodeRouter) in(region string) routing.Router {
	p := r.p
	o := p.region(region)
	return routing.Router{
		Calls: routing.Calls{
			CreateRoute: o.createRoute, CreateTags: o.CreateTags, DeleteRoute: o.deleteRoute, DeleteTags: o.DeleteTags, DescribeNetworkInterfaces: o.describeNetworkInterfaces,
			DescribeRouteTables: o.describeRouteTables, ModifyNetworkInterfaceAttribute: o.ModifyNetworkInterfaceAttribute, ReplaceRoute: o.replaceRoute,
		},
		Classify: func(call string, err error) error { return failure.Classify(call, err, p.cfg.Now()) }, Pages: p.cfg.Bounds.Pages,
	}
}

// RouteTables implements cloud.Router.
func (r nodeRouter) RouteTables(ctx context.Context, s cloud.Scope, ids []string) ([]cloud.RouteTable, error) {
	if _, err := r.p.OwnerID(ctx); err != nil {
		return nil, err
	}
	tables, err := r.in(s.Region).Tables(ctx, ids)
	return tables, r.p.explainAuth(ctx, s.Region, err)
}

// Forwarders implements cloud.Router.
func (r nodeRouter) Forwarders(ctx context.Context, s cloud.Scope, addresses []netip.Addr, ids []string) ([]cloud.Forwarder, error) {
	all, err := r.in(s.Region).Forwarders(ctx, addresses, ids)
	return all, r.p.explainAuth(ctx, s.Region, err)
}

// Route implements cloud.Router.
func (r nodeRouter) Route(ctx context.Context, s cloud.Scope, op cloud.RouteOp) error {
	if _, err := r.p.OwnerID(ctx); err != nil {
		return err
	}
	ctx = withOp(ctx, s, cloud.Op{Target: op.Subject(), Reason: op.Reason})
	return r.p.explainAuth(ctx, s.Region, r.in(s.Region).Do(ctx, op))
}
