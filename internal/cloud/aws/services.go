package aws

import (
	"context"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/aws/native"
)

// Show implements cloud.ServiceShower.
func (p *Provider) Show(kinds []cloud.ServiceKind) cloud.Provider {
	return &Shown{p, native.New(p, p.conn, kinds)}
}

// Show implements cloud.ServiceShower.
func (n *Narrowed) Show(kinds []cloud.ServiceKind) cloud.Provider {
	return &Shown{n.Provider, native.New(n, n.conn, kinds)}
}

// Shown is a Provider that shows services; see cloud.ServiceShower.
type Shown struct {
	*Provider
	services *native.Services
}

// Observe implements cloud.Provider.
func (s *Shown) Observe(ctx context.Context, scope cloud.Scope) (*cloud.Snapshot, error) {
	if _, err := s.OwnerID(ctx); err != nil {
		return nil, err
	}
	return s.services.Observe(ctx, scope)
}

// Refresh implements cloud.Refresher.
func (s *Shown) Refresh(ctx context.Context, last *cloud.Snapshot, ids []string) (*cloud.Snapshot, error) {
	return s.services.Refresh(ctx, last, ids)
}

// Apply implements cloud.Provider. An op on a service is done when its interfaces hold the groups.
func (s *Shown) Apply(ctx context.Context, scope cloud.Scope, op cloud.Op) (id string, err error) {
	if !native.Is(op.Target) {
		return s.Provider.Apply(ctx, scope, op)
	}
	err = s.services.Complete(ctx, scope.Region, op, func() error {
		id, err = s.Provider.Apply(ctx, scope, op)
		return err
	})
	return id, err
}

// conn is how native services of a region are called.
func (p *Provider) conn(region string) *native.Conn {
	o := p.region(region)
	return &native.Conn{
		Region: region, Base: p.base, Owner: p.knownOwner, Bounds: p.cfg.Bounds, PageSize: p.cfg.PageSize,
		EC2: native.Calls{
			CreateTags: o.CreateTags, DeleteTags: o.DeleteTags, DescribeNetworkInterfaces: o.describeNetworkInterfaces,
			DescribeVpcEndpoints: o.DescribeVpcEndpoints, ModifyVpcEndpoint: o.ModifyVpcEndpoint,
		},
		Fresh: p.isFresh, Visible: p.visible, FirstWait: firstWait, MaxWait: maxWait, Now: p.cfg.Now, Sleep: p.cfg.Sleep,
	}
}

// applyToServices does the op for one service after the other, and returns the error of the first
// one that fails.
func (w writer) applyToServices(ctx context.Context) (first error) {
	if w.op.Kind == cloud.OpSetInterfaceGroups {
		if err := w.checkGroups("a service"); err != nil {
			return err
		}
	}
	for _, id := range w.op.Subjects() {
		one := w.op
		one.Target, one.Others = id, nil
		if err := native.Apply(withOp(ctx, w.scope, one), w.p.conn(w.scope.Region), one); err != nil && first == nil {
			first = err
		}
	}
	return first
}
