package azure

import (
	"context"

	"github.com/nephele-io/nephele/internal/cloud"
)

type opKey struct{}

// doing is what a call is made for.
type doing struct {
	scope cloud.Scope
	op    cloud.Op
}

// withOp returns a context for the calls of one op.
func withOp(ctx context.Context, s cloud.Scope, op cloud.Op) context.Context {
	return context.WithValue(ctx, opKey{}, doing{s, op})
}

func opOf(ctx context.Context) (doing, bool) {
	d, ok := ctx.Value(opKey{}).(doing)
	return d, ok
}
